"""Scores of strategies on recorded spaces: the community's, and those of the 2021 and 2022 papers.

Everything is a cost, minimised; flip the sign of an objective that is maximised.
"""

from baco_like.benchmarking.score.baseline import (
    CUTOFF,
    START,
    Baseline,
    best_so_far,
    budget,
    random_curve,
)
from baco_like.benchmarking.score.contests import bootstrap_interval, totals, wins
from baco_like.benchmarking.score.errors import (
    CHECKPOINTS,
    at_budgets,
    fraction_of_optimum,
    mean_absolute_error,
    mean_deviation_factor,
)
from baco_like.benchmarking.score.performance import (
    NothingToScore,
    Performance,
    aggregate,
    aggregate_curve,
    score,
    score_over_time,
)

__all__ = [
    "CHECKPOINTS",
    "CUTOFF",
    "START",
    "Baseline",
    "NothingToScore",
    "Performance",
    "aggregate",
    "aggregate_curve",
    "at_budgets",
    "best_so_far",
    "bootstrap_interval",
    "budget",
    "fraction_of_optimum",
    "mean_absolute_error",
    "mean_deviation_factor",
    "random_curve",
    "score",
    "score_over_time",
    "totals",
    "wins",
]
