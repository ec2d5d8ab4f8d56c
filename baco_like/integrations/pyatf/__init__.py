"""pyATF: a search technique."""
