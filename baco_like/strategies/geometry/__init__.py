"""Configurations as points of a box, and the feasible ones near a point or a row."""
