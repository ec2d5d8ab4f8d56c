"""Strategies made of strategies: one after the other, interleaved, a portfolio."""
