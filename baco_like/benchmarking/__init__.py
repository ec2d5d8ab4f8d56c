"""Compare strategies: `study` on functions, `comparison` on recorded spaces; `score` and `landscape` measure them."""

from baco_like.benchmarking import comparison, landscape, problems, score, studies
from baco_like.benchmarking.studies import study

__all__ = ["comparison", "landscape", "problems", "score", "studies", "study"]
