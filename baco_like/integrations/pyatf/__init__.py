"""A search technique for pyATF."""
