"""Configurations as points of a box, for algorithms that move through continuous space."""
