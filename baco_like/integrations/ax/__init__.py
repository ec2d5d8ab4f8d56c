"""A node for Ax generation strategies."""
