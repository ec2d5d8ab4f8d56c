"""Evaluate on other machines: any executor with the interface of `concurrent.futures` runs evaluators."""
