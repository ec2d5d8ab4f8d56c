"""Decide whether a speed-up has become smaller: ratios measured when it was shipped against ratios measured now.

Each ratio comes from one round in which the shipped configuration and the default were measured one after the other,
so it does not contain the slow drift of the machine, nor how fast the machine is. Other programs disturb few rounds by
much, so ratios are compared by their ranks: the estimate and the interval are those of J. L. Hodges and E. L. Lehmann,
"Estimates of location based on rank tests", Annals of Mathematical Statistics 1963.

The interval is computed after several numbers of rounds, the looks. Each end is wrong with a probability of at most
``alpha`` in all looks together, because each look has an equal share of it (Bonferroni's inequality). Boundaries that
use the dependence of the looks (Pocock 1977; Lan and DeMets 1983) need the distribution of the statistic, and save few
rounds: ``benchmarks/quality/sequential.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from baco_like._typing import Array

_MAD = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""

MANY_ROUNDS = 20
"""Ratios from which on disturbed ones are left out of the spread."""

FIRST_LOOK = 5
"""Rounds before the first decision."""

_NEXT_LOOK = 1.4
"""Ratio of the numbers of rounds of two looks."""

_EXACT = 2500
"""Largest number of pairs for which the distribution of the ranks is computed, not approximated."""


@dataclass(frozen=True)
class RegressionRule:
    """When a speed-up counts as regressed.

    Attributes:
        slowdown: Slow-down to find, such as 0.05: the speed-up is divided by 1.05.
        tolerance: Slow-down that does not matter.
        alpha: Largest probability of each wrong decision: "regressed" if the slow-down is at most ``tolerance``, and
            "fine" if it is at least ``slowdown``.
        rounds: Most rounds.

    Raises:
        ValueError: A value is out of range.
    """

    slowdown: float = 0.05
    tolerance: float = 0.01
    alpha: float = 0.01
    rounds: int = 160

    def __post_init__(self) -> None:
        if not 0.0 <= self.tolerance < self.slowdown < math.inf:
            raise ValueError(
                f"slowdown = {self.slowdown}, tolerance = {self.tolerance}: expected 0 <= tolerance < slowdown"
            )
        if not 0.0 < self.alpha < 0.5 or self.rounds < FIRST_LOOK:
            raise ValueError(
                f"alpha = {self.alpha}, rounds = {self.rounds}: expected 0 < alpha < 0.5 and rounds from {FIRST_LOOK}"
            )

    def looks(self, before: int) -> tuple[int, ...]:
        """Return the numbers of rounds after which a decision is possible; each has the same share of ``alpha``.

        Args:
            before: Number of earlier ratios, or 0 to compare with the default configuration. With few, the ranks of
                few rounds have no interval with this share.
        """
        looks, n = [], FIRST_LOOK
        while n * math.sqrt(_NEXT_LOOK) < self.rounds:
            looks.append(n)
            n = math.ceil(_NEXT_LOOK * n)
        looks.append(self.rounds)
        share = self.alpha / len(looks)
        able = [n for n in looks if _last_rank(before, n, share) > 0]
        return tuple(able or looks[-1:])


@dataclass(frozen=True)
class Loss:
    """By how much a speed-up has become smaller, as a factor: 1.05 is a slow-down of 5 %.

    Attributes:
        value: Estimate.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float

    def verdict(self, above: float, below: float) -> bool | None:
        """Return True if the speed-up has regressed, False if it has not, None if the ratios cannot tell.

        A loss between the two limits may be shown to be both; it is then too small to matter.

        Args:
            above: Regressed if the interval is above this factor.
            below: Fine if the interval is below this factor.
        """
        if self.high < below:
            return False
        return True if self.low > above else None


def compare_ratios(
    before: Sequence[float], now: Sequence[float], alpha: float, candidates: int = 1
) -> Loss:
    """Return the loss from ratios of two times, by inverting the rank test of Mann and Whitney.

    Args:
        before: Ratios when the configuration was shipped, shape (m,), above 0; the speed-up in each round.
        now: Ratios now, shape (n,).
        alpha: Error probability of each end of the interval.
        candidates: Number of configurations from which the earlier ratios chose the winner. Such a choice is lucky
            more often than not, which makes the loss larger, so ``alpha`` is divided by it at the lower end.
    """
    x, y = np.log(before), np.log(now)
    m, n = len(x), len(y)
    variances = [spread(before) ** 2, spread(now) ** 2]
    dependent = variances[0] * _dependence(x) / m + variances[1] * _dependence(y) / n
    # The ranks assume equal variances and independent rounds.
    assumed = sum(variances) / 2.0 * (1.0 / m + 1.0 / n)
    widening = max(1.0, dependent / assumed) if assumed else 1.0
    return _interval((x[:, None] - y[None]).ravel(), m, n, alpha, candidates, widening)


def compare_with_default(now: Sequence[float], alpha: float) -> Loss:
    """Return the loss against the default configuration, by inverting Wilcoxon's signed-rank test.

    Args:
        now: Ratios now, shape (n,).
        alpha: Error probability of each end of the interval.
    """
    y = np.log(now)
    walsh = -(y[:, None] + y[None])[np.triu_indices(len(y))] / 2.0
    return _interval(walsh, 0, len(y), alpha, 1, _dependence(y))


def spread(ratios: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms of ratios; 0 with fewer than two.

    From 20 ratios on, it comes from the median absolute deviation, which ignores disturbed rounds. With fewer, a calm
    moment of an unstable machine looks like a stable one, so it is the larger of both estimates.
    """
    logs = np.log(ratios)
    if len(logs) < 2:
        return 0.0
    robust = _MAD * float(np.median(np.abs(logs - np.median(logs))))
    return robust if len(logs) >= MANY_ROUNDS else max(robust, float(np.std(logs, ddof=1)))


def _dependence(logs: Array) -> float:
    """Return the variance of the mean of rounds over that of independent ones, 1 or more.

    A load that lasts for some rounds makes neighbours alike. The correlation of neighbours is that of an
    autoregressive process, and disturbed rounds count as 3 standard deviations.
    """
    gaps = logs - np.median(logs)
    if not gaps.any():
        return 1.0
    clipped = np.clip(gaps / spread(np.exp(logs).tolist()), -3.0, 3.0)
    correlation = float(clipped[1:] @ clipped[:-1] / (clipped @ clipped))
    correlation = min(max(correlation, 0.0), 0.95)
    return (1.0 + correlation) / (1.0 - correlation)


def _interval(
    values: Array, m: int, n: int, alpha: float, candidates: int, widening: float
) -> Loss:
    """Return the median of the pairs, and the interval between two of them in their order.

    Args:
        values: The differences or means of all pairs.
        m: Number of earlier ratios; 0 for the signed-rank test.
        n: Number of ratios now.
        alpha: Error probability of each end.
        candidates: Divides ``alpha`` at the lower end.
        widening: Variance of the rank statistic over that of independent rounds with equal variances.
    """
    from scipy.special import ndtr, ndtri  # `import baco_like` loads no SciPy

    ordered = np.sort(values)
    ends = []
    for share in (alpha / candidates, alpha):
        share = float(ndtr(ndtri(share) * math.sqrt(widening)))
        ends.append(_last_rank(m, n, share))
    low = math.exp(ordered[ends[0] - 1]) if ends[0] else 0.0
    high = math.exp(ordered[-ends[1]]) if ends[1] else math.inf
    return Loss(math.exp(float(np.median(ordered))), low, high)


def _last_rank(m: int, n: int, alpha: float) -> int:
    """Return the largest k for which the k-th smallest pair is too large with at most this probability; 0 if none is.

    Args:
        m: Number of earlier ratios; 0 for the signed-rank test of n ratios.
        n: Number of ratios now.
        alpha: The probability.
    """
    if m * n <= _EXACT and (m or n * n <= _EXACT):
        counts = _rank_counts(m, n)
        return int(np.searchsorted(np.cumsum(counts), alpha * float(sum(counts)), side="right"))
    from scipy.special import ndtri

    centre = m * n / 2.0 if m else n * (n + 1) / 4.0
    variance = m * n * (m + n + 1) / 12.0 if m else n * (n + 1) * (2 * n + 1) / 24.0
    return max(0, math.floor(centre + float(ndtri(alpha)) * math.sqrt(variance)))


@cache
def _rank_counts(m: int, n: int) -> Array:
    """Return the number of orders with each value of the rank statistic: the coefficients of its generating function.

    It is the product of ``(1 - q**(n + i)) / (1 - q**i)`` for i to m, for signed ranks of ``1 + q**i`` for i to n.
    """
    m, n = min(m, n), max(m, n)
    size = (m * n if m else n * (n + 1) // 2) + 1
    counts = np.zeros(size, dtype=object)  # Python's integers do not overflow
    counts[0] = 1
    for i in range(1, (m or n) + 1):
        shift = n + i if m else i
        moved = np.concatenate([np.zeros(min(shift, size), dtype=object), counts[:-shift]])[:size]
        counts = counts - moved if m else counts + moved
        for start in range(i if m else 0):
            counts[start::i] = np.cumsum(counts[start::i])
    return counts.astype(float)
