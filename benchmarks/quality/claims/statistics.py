"""The test of the 2022 survey, and percentile bootstrap intervals of any statistic."""

import warnings
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Mask, Rng


def significant_wins(samples: Sequence[npt.ArrayLike], alpha: float = 0.05) -> Mask:
    """Return which strategies are significantly better than which others, on one space and budget.

    Student's two-sample t-test with pooled variance, two-sided ("Benchmarking optimization algorithms", section VI-B
    and Table IV).

    Args:
        samples: The final cost (minimised) of each run, ``(runs,)`` per strategy, at least two runs each.
        alpha: Level of significance.

    Returns:
        ``(strategies, strategies)``: whether row i beats column j.

    Raises:
        ValueError: A strategy has fewer than two runs, or a cost is not finite.
    """
    from scipy.stats import ttest_ind

    costs = [np.asarray(sample, dtype=float) for sample in samples]
    for i, sample in enumerate(costs):
        if len(sample) < 2 or not np.isfinite(sample).all():
            remedy = "use the worst cost for a run without a success"
            raise ValueError(f"samples[{i}] needs two finite costs or more; {remedy}")
    wins = np.zeros((len(costs), len(costs)), dtype=bool)
    with warnings.catch_warnings():
        # Constant samples: equal means give NaN (no win), different means give p = 0 (a win).
        warnings.simplefilter("ignore", RuntimeWarning)
        for i, j in permutations(range(len(costs)), 2):
            if costs[i].mean() < costs[j].mean():
                wins[i, j] = ttest_ind(costs[i], costs[j]).pvalue < alpha
    return wins


def bootstrap_interval(
    statistic: Callable[[Sequence[Array]], float],
    samples: Sequence[Array],
    rng: Rng,
    *,
    level: float = 0.95,
    resamples: int = 1000,
) -> tuple[float, float]:
    """Return a percentile bootstrap interval of a statistic of several samples.

    Args:
        statistic: Called with the samples, or resampled ones, in their order.
        samples: Each is resampled along its first axis (the runs), independently of the others: one array of curves
            for a space's score, one array per space for an aggregate.
        rng: Random generator.
        level: Share of the resampled statistics within the interval.
        resamples: Number of bootstrap samples.

    Raises:
        ValueError: The level is not between 0 and 1, or ``resamples`` is below 1.
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"{level=}, {resamples=}; give 0 < level < 1 and resamples > 0")

    def draw() -> float:
        return statistic([s[rng.integers(len(s), size=len(s))] for s in samples])

    low, high = np.quantile([draw() for _ in range(resamples)], [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
