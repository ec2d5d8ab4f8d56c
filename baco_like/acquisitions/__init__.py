"""What a model says about where to look next."""
