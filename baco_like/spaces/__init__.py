"""Typed RIPOC spaces: parameters, distances, known constraints and the feasible set."""
