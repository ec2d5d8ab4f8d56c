"""A searcher for Ray Tune."""
