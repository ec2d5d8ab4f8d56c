"""Strategies that combine other strategies: a design followed by a strategy, random interleaving, a portfolio."""
