"""Evaluators around evaluators: each adds one thing to any other, and they nest."""
