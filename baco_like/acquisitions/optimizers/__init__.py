"""Acquisition optimizers: they find the feasible configurations with the highest scores.

The public names are exported by `baco_like.acquisitions`.
"""
