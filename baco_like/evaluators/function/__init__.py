"""Evaluate configurations by calling a Python function."""
