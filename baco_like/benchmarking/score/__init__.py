"""Scores of strategies on recorded spaces: the community's methodology, and measures of the 2021 and 2022 papers.

All functions take costs, which are minimised; negate the values of a maximised objective.
"""

from baco_like.benchmarking.score.baseline import (
    CUTOFF,
    START,
    Baseline,
    best_so_far,
    budget,
    random_curve,
)
from baco_like.benchmarking.score.measures import (
    CHECKPOINTS,
    at_budgets,
    bootstrap_interval,
    count_wins,
    fraction_of_optimum,
    mean_absolute_error,
    mean_deviation_factor,
    significant_wins,
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
    "count_wins",
    "fraction_of_optimum",
    "mean_absolute_error",
    "mean_deviation_factor",
    "random_curve",
    "score",
    "score_over_time",
    "significant_wins",
]
