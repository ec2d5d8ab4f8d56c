"""Strategies that fit a model of the values: Bayesian optimization, Kernel Tuner's, and with related tasks."""
