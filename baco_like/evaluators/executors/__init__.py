"""Evaluators on many machines: any executor in the manner of `concurrent.futures` runs them."""
