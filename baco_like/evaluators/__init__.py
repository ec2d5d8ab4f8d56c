"""Modules that run configurations; nothing below imports them, and they never import the optimizer."""
