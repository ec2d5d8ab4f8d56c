"""Ray Tune: a searcher."""
