"""Frozen records of what was proposed, tried and seen."""
