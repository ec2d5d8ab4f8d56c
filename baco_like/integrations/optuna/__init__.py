"""Optuna: a sampler, and conversion of spaces and configurations."""
