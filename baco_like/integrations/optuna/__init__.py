"""A sampler for Optuna."""
