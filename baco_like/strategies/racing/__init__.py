"""Iterated racing for noisy values."""
