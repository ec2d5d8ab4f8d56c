"""Readers and writers of space descriptions."""
