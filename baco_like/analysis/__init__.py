"""Instruments that compare strategies: `score` says how well one did, `landscape` how hard a recorded space is."""
