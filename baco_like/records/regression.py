"""Decide whether a speed-up has become smaller: ratios measured when it was shipped against ratios measured now.

Each ratio comes from one round in which the shipped configuration and the default were measured one after the other,
so it does not contain the slow drift of the machine, nor how fast the machine is. Other programs disturb few rounds by
much, so ratios are compared by their ranks (H. B. Mann and D. R. Whitney, "On a test of whether one of two random
variables is stochastically larger than the other", Annals of Mathematical Statistics 1947).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baco_like._typing import Array

_MAD = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""

MANY = 20
"""Ratios from which on disturbed ones are left out of the spread, and a sample shows whether a machine is stable."""

_LOAD = 5.0
"""Standard deviations by which the load of an unstable machine may change ratios."""

FIRST_LOOK = 5
"""Rounds before the first decision; the number doubles until the next one."""


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
            before: Number of earlier ratios. With few, the present rounds alone must show an unstable machine, so the
                first decision comes later.
        """
        looks, n = [], FIRST_LOOK if before >= MANY else MANY
        while n < self.rounds:
            looks.append(n)
            n *= 2
        return (*looks, self.rounds)


@dataclass(frozen=True)
class Loss:
    """By how much a speed-up has become smaller, as a factor: 1.05 is a slow-down of 5 %.

    Attributes:
        value: Estimate.
        low: Lower end of the interval.
        high: Upper end of the interval.
        regressed: p-value of the hypothesis that it is at most the tolerance.
        fine: p-value of the hypothesis that it is at least the slow-down.
    """

    value: float
    low: float
    high: float
    regressed: float
    fine: float

    def verdict(self, alpha: float) -> bool | None:
        """Return True if the speed-up has regressed, False if it has not, None if the ratios cannot tell.

        A loss between the tolerance and the slow-down may be shown to be both; it is then too small to matter.
        """
        if self.fine <= alpha:
            return False
        return True if self.regressed <= alpha else None


def compare_ratios(
    before: Sequence[float], now: Sequence[float], rule: RegressionRule, alpha: float
) -> Loss:
    """Return the loss from ratios of two times.

    Args:
        before: Ratios when the configuration was shipped, shape (m,), above 0; the speed-up in each round.
        now: Ratios now, shape (n,).
        rule: What counts as regressed.
        alpha: Error probability of each end of the interval.
    """
    x, y = np.log(before), np.log(now)
    margin = _margin(rule, x, y)
    p_regressed = _rank_test(y + math.log1p(rule.tolerance) + margin, x, "less")
    p_fine = _rank_test(y + math.log1p(rule.slowdown) - margin, x, "greater")
    value, low, high = _shift(x, y, alpha)
    return Loss(math.exp(value), math.exp(low), math.exp(high), p_regressed, p_fine)


_EXACT = 2500
"""Largest product of the numbers of ratios for which the distribution of the ranks is computed, not approximated."""


def compare_with_default(now: Sequence[float], rule: RegressionRule, alpha: float) -> Loss:
    """Return the loss against the default configuration, for a winner without ratios of an earlier time.

    It has regressed if it is worse than the default by more than the tolerance, and is fine if it is better than the
    default, by Wilcoxon's signed-rank test.

    Args:
        now: Ratios now, shape (n,).
        rule: What counts as regressed.
        alpha: Error probability of each end of the interval.
    """
    from scipy.stats import wilcoxon

    y = np.log(now)
    margin = _margin(rule, y)
    walsh = np.sort((y[:, None] + y[None])[np.triu_indices(len(y))] / 2.0)
    n = len(y)
    spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
    low, high = _ends(walsh, n * (n + 1) / 4.0, spread, alpha)
    p_regressed, p_fine = 1.0, 1.0
    worse, better = y + math.log1p(rule.tolerance) + margin, y - margin
    if np.any(worse != 0.0):
        p_regressed = float(wilcoxon(worse, alternative="less").pvalue)
    if np.any(better != 0.0):
        p_fine = float(wilcoxon(better, alternative="greater").pvalue)
    median = float(np.median(walsh))
    return Loss(math.exp(-median), math.exp(-high), math.exp(-low), p_regressed, p_fine)


def spread(ratios: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms of ratios; 0 with fewer than two.

    From 20 ratios on, it comes from the median absolute deviation, which ignores disturbed rounds. With fewer, a calm
    moment of an unstable machine looks like a stable one, so it is the larger of both estimates.
    """
    logs = np.log(ratios)
    if len(logs) < 2:
        return 0.0
    robust = _MAD * float(np.median(np.abs(logs - np.median(logs))))
    return robust if len(logs) >= MANY else max(robust, float(np.std(logs, ddof=1)))


def _margin(rule: RegressionRule, *samples: Array) -> float:
    """Return what both hypotheses are widened by: 0 on a stable machine.

    Tests of ranks assume independent rounds. Where ratios vary by more than the slow-down to find, they vary with the
    load of the machine, which may last longer than all rounds of a check.
    """
    largest = max(spread(np.exp(sample).tolist()) for sample in samples)
    return _LOAD * largest if largest > math.log1p(rule.slowdown) else 0.0


def _rank_test(values: Array, others: Array, alternative: Literal["less", "greater"]) -> float:
    """Return the p-value of the test of Mann and Whitney that the values are not less, or not greater, than others."""
    from scipy.stats import mannwhitneyu  # `import baco_like` loads no SciPy

    together = np.concatenate([values, others])
    has_ties = len(np.unique(together)) < len(together)
    is_exact = len(values) * len(others) <= _EXACT and not has_ties
    tested = mannwhitneyu(
        values.tolist(),
        others.tolist(),
        alternative=alternative,
        method="exact" if is_exact else "asymptotic",
    )
    return float(tested.pvalue)


def _shift(x: Array, y: Array, alpha: float) -> tuple[float, float, float]:
    """Return the Hodges-Lehmann estimate of the shift from y to x and its interval, by inverting the rank test."""
    differences = np.sort((x[:, None] - y[None]).ravel())
    m, n = len(x), len(y)
    spread = math.sqrt(m * n * (m + n + 1) / 12.0)
    low, high = _ends(differences, m * n / 2.0, spread, alpha)
    return float(np.median(differences)), low, high


def _ends(ordered: Array, centre: float, spread: float, alpha: float) -> tuple[float, float]:
    """Return the interval between two ordered values, by the normal approximation of a rank statistic."""
    from scipy.special import ndtri

    k = math.floor(centre + float(ndtri(alpha)) * spread)
    if k < 1:
        return -math.inf, math.inf
    return float(ordered[k - 1]), float(ordered[-k])
