"""Compare strategies: `score` rates them, `landscape` measures the difficulty of a space, `comparison` runs them."""

from baco_like.benchmarking import comparison, landscape, score

__all__ = ["comparison", "landscape", "score"]
