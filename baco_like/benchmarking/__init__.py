"""Compare strategies on functions and recorded spaces by `study`; `score` and `landscape` measure them."""

from baco_like.benchmarking import landscape, problems, score, studies
from baco_like.benchmarking.studies import study

__all__ = ["landscape", "problems", "score", "studies", "study"]
