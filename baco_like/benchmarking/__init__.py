"""Instruments that compare strategies: `score` says how well one did, `landscape` how hard a recorded space is."""

from baco_like.benchmarking import landscape, score

__all__ = ["landscape", "score"]
