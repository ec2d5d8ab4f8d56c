"""Tests and intervals of a study; docs/studies.md says which test answers which question.

They hold for few runs and for ties: the tests enumerate or sample permutations where the usual approximations are too
optimistic. `benchmarks/quality/error_rates.py` measures their error rates and the coverage of the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Ints, Mask, Rng

LEVEL = 0.95
"""Confidence of the intervals, and 1 minus the level of the tests."""

FEWEST = 10
"""Number of runs from which on intervals are shown; those of fewer runs miss the true value too often."""

_EXACT = 14
"""Number of runs of two strategies together up to which all permutations are enumerated, where runs are equal."""

_PERMUTATIONS, _RESAMPLES = 5000, 20_000


@dataclass(frozen=True, eq=False)
class PairTests:
    """All pairs of k strategies on one problem.

    Attributes:
        p_values: Of the Mann-Whitney test, two-sided, corrected by Holm's method for all pairs, ``(k, k)``.
        effects: Vargha and Delaney's A12: the probability that a run of row i is better than one of column j, where
            equal runs count half, ``(k, k)``.
    """

    p_values: Array
    effects: Array

    @property
    def wins(self) -> Mask:
        """Whether row i is significantly better than column j, ``(k, k)``."""
        return np.asarray((self.p_values <= 1 - LEVEL) & (self.effects > 0.5))


def compare_pairs(costs: Sequence[Array]) -> PairTests:
    """Compare strategies on one problem by the costs of their runs, ``(runs,)`` each."""
    pairs = list(combinations(range(len(costs)), 2))
    p_values, effects = np.ones((len(costs),) * 2), np.full((len(costs),) * 2, 0.5)
    for i, j in pairs:
        p_values[i, j], effects[i, j] = _mann_whitney(costs[i], costs[j])
        effects[j, i] = 1 - effects[i, j]
    raw = np.array([p_values[pair] for pair in pairs])
    order = np.argsort(raw, kind="stable")
    corrected = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))  # Holm 1979
    for rank, number in enumerate(order):
        i, j = pairs[number]
        p_values[i, j] = p_values[j, i] = min(1.0, corrected[rank])
    return PairTests(p_values, effects)


def _mann_whitney(a: Array, b: Array) -> tuple[float, float]:
    """Return the two-sided p-value, and the probability that a cost of a is smaller than one of b."""
    from scipy.stats import mannwhitneyu, rankdata

    count, runs = len(a), len(a) + len(b)
    ranks = rankdata(np.concatenate([a, b]))
    total = ranks[:count].sum()
    effect = 1 - (total / count - (count + 1) / 2) / len(b)
    if np.ptp(ranks) == 0:
        return 1.0, effect
    if len(np.unique(ranks)) == runs:  # without ties, the distribution is known
        return float(mannwhitneyu(a, b, method="exact").pvalue), effect
    if runs > _EXACT:
        return float(mannwhitneyu(a, b, method="asymptotic").pvalue), effect
    distances = np.abs(ranks[_splits(runs, count)].sum(axis=1) - count * (runs + 1) / 2)
    return float(np.mean(distances >= abs(total - count * (runs + 1) / 2) - 1e-9)), effect


@cache
def _splits(runs: int, count: int) -> Ints:
    """Return all choices of some runs, ``(choices, count)``."""
    return np.array(list(combinations(range(runs), count)), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MeanRanks:
    """Mean ranks of strategies over problems (Demsar, JMLR 7, 2006, section 3.2.2).

    The problems are the blocks. On each of them, a strategy has the rank of its mean at the end.

    Attributes:
        ranks: Mean rank of each strategy, the best first.
        critical_difference: Two mean ranks that differ by more differ significantly (Nemenyi's test, 5 %). Too few
            problems give a difference that no ranks exceed.
        p_value: Of Friedman's test that all strategies are equally good.
        blocks: Number of problems.
    """

    ranks: dict[str, float]
    critical_difference: float
    p_value: float
    blocks: int


def mean_ranks(labels: Sequence[str], means: npt.ArrayLike) -> MeanRanks | None:
    """Return the mean ranks of strategies; equal means share their rank.

    The distribution of both statistics is the one of random permutations of each problem's ranks. The usual
    approximations need more problems, and no ties.

    Args:
        labels: The strategies.
        means: Their mean costs, ``(problems, strategies)``.

    Returns:
        The ranks, or None for a single strategy or no problem.
    """
    from scipy.stats import rankdata

    table = np.asarray(means, dtype=float)
    if len(labels) < 2 or not len(table):
        return None
    ranks, rng = rankdata(table, axis=1), np.random.default_rng(0)
    drawn = np.zeros((_PERMUTATIONS, len(labels)))
    for row in np.sort(ranks, axis=1):  # sorted: the order of the strategies changes nothing
        drawn += rng.permuted(np.broadcast_to(row, drawn.shape), axis=1)
    drawn, own = drawn / len(table), ranks.mean(axis=0)
    spread = drawn.var(axis=1)  # Friedman's statistic, but for a factor
    order = np.argsort(own, kind="stable")
    return MeanRanks(
        {labels[i]: float(own[i]) for i in order},
        float(np.quantile(np.ptp(drawn, axis=1), LEVEL, method="higher")) + 1e-9,
        float(1 + np.count_nonzero(spread >= own.var() - 1e-9)) / (1 + _PERMUTATIONS),
        len(table),
    )


def interval(samples: npt.ArrayLike, runs: int) -> Array:
    """Return the ends of the bootstrap interval of a statistic, ``(samples, ...)`` to ``(2, ...)``.

    The quantiles are those of the expanded percentile interval (Hesterberg, The American Statistician 69, 2015), since
    the percentile interval of few runs is too narrow.

    Args:
        samples: Statistics of resampled runs.
        runs: Number of runs; fewer than `FEWEST` have the interval NaN.
    """
    from scipy.stats import norm, t

    table = np.asarray(samples)
    if runs < FEWEST:
        return np.full((2, *table.shape[1:]), np.nan)
    share = norm.cdf(np.sqrt(runs / (runs - 1)) * t.ppf((1 - LEVEL) / 2, runs - 1))
    return np.asarray(np.quantile(table, [share, 1 - share], axis=0))


def mean_interval(values: Array, rng: Rng) -> Array:
    """Return the ends of the bootstrap interval of a mean, ``(2,)``.

    It spans the bootstrap-t interval (Efron and Tibshirani 1993, section 12.5), which few, skewed runs need, and the
    interval of `interval`, which covers more if most runs are equal. It ends within the range of the values: resamples
    of almost equal values stretch the bootstrap-t interval without limit.
    """
    mean, deviation = values.mean(), values.std()
    if len(values) < FEWEST or not deviation > 0:  # equal values, or NaN
        return np.full(2, np.nan if len(values) < FEWEST else mean)
    drawn = values[rng.integers(len(values), size=(_RESAMPLES, len(values)))]
    deviations = drawn.std(axis=1)
    varied = deviations > 1e-12 * deviation
    shifts = (drawn.mean(axis=1) - mean)[varied] / deviations[varied]
    ends = mean - deviation * np.quantile(shifts, [(1 + LEVEL) / 2, (1 - LEVEL) / 2])
    low, high = interval(drawn.mean(axis=1), len(values))
    return np.asarray(np.clip([min(low, ends[0]), max(high, ends[1])], values.min(), values.max()))
