"""Bayesian optimization: as in BaCO, as in Kernel Tuner, and with the results of related tasks."""
