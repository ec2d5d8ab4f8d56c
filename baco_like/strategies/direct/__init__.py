"""Algorithms that own their loop, rerun until they ask for something new."""
