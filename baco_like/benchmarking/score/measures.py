"""Simple measures of runs, and decisions which strategy is better: t-tests and bootstrap intervals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Ints, Mask, Rng

CHECKPOINTS = range(40, 221, 20)
"""Numbers of evaluations at which the 2021 paper takes the error: 20 i for i = 2 to 11."""


def fraction_of_optimum(curves: Array, optimum: float) -> Array:
    """Return optimum / cost, 1 at the optimum ("Benchmarking optimization algorithms", section VII-A).

    Args:
        curves: Best cost so far, of any shape; NaN, before the first success, gives 0. Costs are all positive, or all
            negative (a maximised objective); then the fraction is cost / optimum.
        optimum: The smallest cost of the space.

    Raises:
        ValueError: The optimum is 0, or the costs have different signs; then the fraction is not defined.
    """
    if optimum == 0 or (optimum < 0 and bool((np.asarray(curves) > 0).any())):
        raise ValueError(
            f"optimum = {optimum:g}, and costs are not all of its sign; there is no fraction of it, use "
            "`mean_absolute_error`"
        )
    fractions = optimum / curves if optimum > 0 else curves / optimum
    return np.where(np.isnan(curves), 0.0, fractions)


def at_budgets(curves: Array, budgets: Sequence[int]) -> Array:
    """Return the best costs after given numbers of evaluations, ``(runs, budgets)``; shorter runs keep their last.

    Raises:
        ValueError: A budget is below 1.
    """
    numbers = np.asarray(budgets, dtype=np.int64)
    if not len(numbers) or numbers.min() < 1:
        raise ValueError(f"budgets = {list(budgets)}; give numbers of evaluations from 1 up")
    return curves[:, np.minimum(numbers, curves.shape[1]) - 1]


def mean_absolute_error(
    curves: Array, optimum: float, checkpoints: Sequence[int] = CHECKPOINTS
) -> Array:
    """Return the mean of |best so far - optimum| over several numbers of evaluations, per run, ``(runs,)``.

    "Bayesian Optimization for auto-tuning GPU kernels", section IV-A.

    Args:
        curves: Best cost so far, ``(runs, evaluations)``.
        optimum: The smallest cost of the space.
        checkpoints: Numbers of evaluations; the paper's are 40, 60, ... 220.

    Raises:
        ValueError: The curves end before the last checkpoint.
    """
    if max(checkpoints) > curves.shape[1]:
        raise ValueError(f"curves have {curves.shape[1]} evaluations; give checkpoints within them")
    errors: Array = np.abs(at_budgets(curves, checkpoints) - optimum).mean(axis=1)
    return errors


def mean_deviation_factor(errors: npt.ArrayLike) -> tuple[Array, Array]:
    """Return the mean deviation factor of each strategy and the standard deviation of its factors.

    A factor is the ratio of a strategy's error on a space to the mean error of all strategies on it ("Bayesian
    Optimization for auto-tuning GPU kernels", section IV-A). Below 1 is better than the average strategy.

    Args:
        errors: Mean over the runs of `mean_absolute_error`, ``(strategies, spaces)``.

    Returns:
        Means and standard deviations over the spaces, ``(strategies,)`` each.
    """
    table = np.asarray(errors, dtype=float)
    mean = table.mean(axis=0)
    factors = np.divide(table, mean, out=np.ones_like(table), where=mean > 0)
    return factors.mean(axis=1), factors.std(axis=1)


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


def count_wins(contests: Sequence[Mask]) -> tuple[Ints, Ints]:
    """Return the wins and losses of each strategy over several `significant_wins`, ``(strategies,)`` (Table IV)."""
    table = np.sum(np.asarray(contests, dtype=np.int64), axis=0)
    return table.sum(axis=1), table.sum(axis=0)


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
