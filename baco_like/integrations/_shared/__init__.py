"""Helpers that several integrations share."""
