"""Ax: a node of a generation strategy, and conversion of search spaces."""
