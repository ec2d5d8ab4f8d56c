"""Evaluate configurations by running a program."""
