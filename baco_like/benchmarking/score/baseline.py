"""Calculate random search without replacement on a recorded space.

It follows the community's methodology (Willemsen et al., "A methodology for comparing optimization algorithms for
auto-tuning", 2024; PyPI package ``autotuning-methodology``), on which the score of Willemsen et al. 2025,
"Constraint-aware Optimization in Auto-Tuning" (section V-A), is based.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from math import ceil

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Ints
from baco_like.records import Direction, sign_of
from baco_like.results.recording import Recording

START = 0.01
"""Share of the way from the median to the optimum that random search has covered where the score starts."""

CUTOFF = 0.95
"""Share of the way from the median to the optimum that random search has covered where the score ends."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """The costs and times of a recorded space that scores need.

    Attributes:
        costs: Costs (minimised) of the configurations that do not fail, ascending, ``(n,)``.
        failures: Number of configurations that fail.
        seconds: Mean time of random search per successful evaluation, including the failures between successes, or NaN.
        median_seconds: Median time of an evaluation, or NaN.
    """

    costs: Array
    failures: int = 0
    seconds: float = float("nan")
    median_seconds: float = float("nan")
    _evaluations: dict[tuple[float, float], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def from_costs(cls, costs: npt.ArrayLike, seconds: npt.ArrayLike | None = None) -> Baseline:
        """Create a baseline from all configurations of a space.

        Args:
            costs: Cost of each configuration, NaN if it fails, ``(n,)``.
            seconds: Time of each evaluation, NaN if it was not recorded, ``(n,)``.

        Raises:
            ValueError: All configurations fail, or the lengths differ.
        """
        every, valid = np.asarray(costs, dtype=float), _sort_valid(costs)
        if not len(valid):
            raise ValueError("costs has no configuration that runs; a score needs one")
        failures = len(every) - len(valid)
        if seconds is None:
            return cls(valid, failures)
        times = np.asarray(seconds, dtype=float)
        if times.shape != every.shape:
            raise ValueError(f"seconds has shape {times.shape}, costs {every.shape}; give one each")
        if np.isnan(times).all():
            return cls(valid, failures)
        known, failed = ~np.isnan(times), np.isnan(every)
        mean = float(np.nanmean(times))
        if (known & failed).any():
            # The mean of successes, plus the share of failures times their mean, as in the methodology's package.
            mean = float(np.mean(times[known & ~failed])) if (known & ~failed).any() else 0.0
            mean += float(np.mean(failed)) * float(np.mean(times[known & failed]))
        return cls(valid, failures, mean, float(np.nanmedian(times)))

    @classmethod
    def from_recorded(cls, recorded: Recording, *, direction: Direction = "minimize") -> Baseline:
        """Create a baseline from a recorded table; times include all stages (compile, run, check).

        Args:
            recorded: The table.
            direction: Direction of its values.
        """
        entries = list(recorded.entries.values())
        sign = sign_of(direction)
        return cls.from_costs(
            [np.nan if e.value is None else sign * e.value for e in entries],
            [sum(e.seconds.values()) if e.seconds else np.nan for e in entries],
        )

    @property
    def optimum(self) -> float:
        """The smallest cost."""
        return float(self.costs[0])

    @property
    def median(self) -> float:
        """The median cost of the configurations that do not fail."""
        return float(np.median(self.costs))

    def evaluations(self, cutoff: float = CUTOFF, start: float = START) -> tuple[int, int]:
        """Return the first and the last number of evaluations that count for the score, at least two apart."""
        key = cutoff, start
        if key not in self._evaluations:  # a bootstrap needs the same numbers hundreds of times
            first, last = budget(self.costs, start), budget(self.costs, cutoff)
            if last - first < 2:
                last += 2 if first == 0 else 1
                first = max(0, first - 1)
            self._evaluations[key] = first, last
        return self._evaluations[key]

    def time_range(self, cutoff: float = CUTOFF, start: float = START) -> tuple[float, float]:
        """Return the first and the last second that count: `evaluations` times the median time of an evaluation.

        Raises:
            ValueError: The times were not recorded.
        """
        if np.isnan(self.median_seconds):
            raise ValueError("the baseline has no seconds; score over evaluations instead")
        first, last = self.evaluations(cutoff, start)
        return first * self.median_seconds, last * self.median_seconds

    def at_evaluations(self, numbers: npt.ArrayLike) -> Array:
        """Return the expected cost of random search after given numbers of evaluations.

        It is the cost at the expected rank: of n costs the best of k has rank k (n + 1) / (k + 1) from the worst,
        rounded and used as an index from 0, as in the methodology's package. Failing configurations do not count; for
        the expectation of the cost itself, with failures, see `random_curve`.

        Args:
            numbers: Numbers of evaluations, 0 or more.
        """
        ks = np.asarray(numbers, dtype=float)
        n = len(self.costs)
        rank: Ints = np.minimum(np.round(ks * (n + 1) / (ks + 1)), n - 1).astype(np.int64)
        return self.costs[n - 1 - rank]

    def at_seconds(self, times: Array) -> Array:
        """Return the expected cost of random search at given times.

        A time is converted to evaluations by dividing by `seconds`, at least one. A monotone cubic interpolation
        (PCHIP) smooths the steps between whole numbers, as in the methodology's package.

        Args:
            times: Seconds, equally spaced and ascending, ``(t,)``.
        """
        from scipy.interpolate import PchipInterpolator

        numbers = np.round(np.maximum(times / self.seconds, 1))
        costs = self.at_evaluations(numbers)
        fresh = np.diff(numbers, prepend=0) > 0
        if len(numbers) <= 2 or fresh.sum() < 2:
            return costs
        even = np.linspace(numbers[0], numbers[-1], len(numbers))
        return np.asarray(PchipInterpolator(numbers[fresh], costs[fresh])(even))


def budget(costs: npt.ArrayLike, cutoff: float = CUTOFF) -> int:
    """Return the number of evaluations that random search needs for a share of the way from the median to the optimum.

    It inverts the expected rank: index i from the worst takes i / (n + 1 - i) evaluations, rounded up. If only the
    optimum is good enough, the second best is used.

    Args:
        costs: Costs (minimised) of the configurations of a space; NaN (failed) does not count.
        cutoff: The share of the way, 0 to 1.

    Raises:
        ValueError: The cutoff is not between 0 and 1, or all costs are equal.
    """
    if not 0 <= cutoff <= 1:
        raise ValueError(f"cutoff = {cutoff}; give a share from 0 to 1")
    ascending = _sort_valid(costs)
    if not len(ascending) or ascending[0] == ascending[-1]:
        raise ValueError("costs are all the same; there is nothing to tune and no score")
    optimum = ascending[0]
    target = optimum + (np.median(ascending) - optimum) * (1 - cutoff)
    good = int(np.searchsorted(ascending, target, side="right"))
    n = len(ascending)
    index = n - good
    if cutoff != 1 and ascending[good - 1] == optimum:
        index -= 1
    return ceil(index / (n + 1 - index))


def random_curve(costs: npt.ArrayLike, evaluations: int) -> Array:
    """Return the expected best cost of uniform sampling without replacement, in closed form.

    After k of n draws the i-th best (from 1) is the best one drawn with probability C(n - i, k - 1) / C(n, k). Failing
    configurations take draws; the expectation is over the samples with at least one success.

    Args:
        costs: Cost (minimised) of each configuration of a space, NaN if it fails, ``(n,)``.
        evaluations: Number of draws, at most n.

    Returns:
        The expectation after 1, 2, ... ``evaluations`` draws, ``(evaluations,)``.

    Raises:
        ValueError: There are more draws than configurations, or all configurations fail.
    """
    valid, n = _sort_valid(costs), np.size(costs)
    if not 1 <= evaluations <= n:
        raise ValueError(f"evaluations = {evaluations}; give a number from 1 to {n}")
    if not len(valid):
        raise ValueError("costs has no configuration that runs")
    i = np.arange(len(valid))
    curve = np.empty(evaluations)
    for k in range(1, evaluations + 1):
        # P(no configuration of the i best is drawn) is a running product; its differences are P(the i-th is the best).
        not_drawn = np.cumprod(np.maximum(n - k - i, 0) / (n - i))
        best = -np.diff(not_drawn, prepend=1.0)
        curve[k - 1] = best @ valid / best.sum()
    return curve


def _sort_valid(costs: npt.ArrayLike) -> Array:
    every = np.asarray(costs, dtype=float)
    return np.sort(every[~np.isnan(every)])


def best_so_far(runs: Iterable[Iterable[float | None]]) -> Array:
    """Return curves of the smallest cost so far, ``(runs, evaluations)``.

    Args:
        runs: The costs of each run in order of evaluation, None or NaN for failures; a shorter run keeps its best.

    Returns:
        The curves; NaN before the first success.

    Raises:
        ValueError: There is no run, or a run has no evaluation.
    """
    rows = [list(run) for run in runs]
    if not rows or not all(rows):
        raise ValueError("runs is empty, or a run has no evaluation")
    table = np.array(list(zip_longest(*rows)), dtype=float)  # None becomes NaN
    return np.asarray(np.fmin.accumulate(table).T)
