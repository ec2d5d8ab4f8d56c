"""Random search without replacement on a recorded space, calculated instead of run.

The community's methodology (Willemsen et al., "A methodology for comparing optimization algorithms for auto-tuning",
2024; PyPI package ``autotuning-methodology``), which the score of "Constraint-aware Optimization in Auto-Tuning"
(section V-A) rests on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Ints
from baco_like.results.recording import Recording

START = 0.01
"""The score begins where random search has come so far from the median towards the optimum."""

CUTOFF = 0.95
"""The score ends where random search has come so far from the median to the optimum."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """What is known of a recorded space, as far as scores need it.

    Attributes:
        costs: What the configurations that run cost (minimised), ascending, ``(n,)``.
        failures: How many configurations fail.
        seconds: Mean time that an evaluation takes random search (`evaluation_seconds`), or NaN.
        median_seconds: Median time of an evaluation, or NaN.
    """

    costs: Array
    failures: int = 0
    seconds: float = float("nan")
    median_seconds: float = float("nan")

    @classmethod
    def of(cls, costs: npt.ArrayLike, seconds: npt.ArrayLike | None = None) -> Baseline:
        """Make it from all configurations of a space.

        Args:
            costs: What each configuration costs, NaN if it fails, ``(n,)``.
            seconds: How long the evaluation of each takes, NaN if that was not recorded, ``(n,)``.

        Raises:
            ValueError: No configuration runs, or the lengths differ.
        """
        every = np.asarray(costs, dtype=float)
        valid = np.sort(every[~np.isnan(every)])
        if not len(valid):
            raise ValueError("costs has no configuration that runs; a score needs one")
        if seconds is None:
            return cls(valid, len(every) - len(valid))
        times = np.asarray(seconds, dtype=float)
        if times.shape != every.shape:
            raise ValueError(f"seconds has shape {times.shape}, costs {every.shape}; give one each")
        if np.isnan(times).all():
            return cls(valid, len(every) - len(valid))
        mean = evaluation_seconds(times, np.isnan(every))
        return cls(valid, len(every) - len(valid), mean, float(np.nanmedian(times)))

    @classmethod
    def from_recorded(cls, recorded: Recording, *, maximise: bool = False) -> Baseline:
        """Make it from a recorded table; time is that of all stages (compile, run, check).

        Args:
            recorded: The table.
            maximise: Whether more is better; costs are then the values with their sign flipped.
        """
        entries = list(recorded.entries.values())
        sign = -1.0 if maximise else 1.0
        return cls.of(
            [np.nan if e.value is None else sign * e.value for e in entries],
            [sum(e.seconds.values()) if e.seconds else np.nan for e in entries],
        )

    @property
    def optimum(self) -> float:
        """The least cost."""
        return float(self.costs[0])

    @property
    def median(self) -> float:
        """The median cost of the configurations that run."""
        return float(np.median(self.costs))

    def evaluations(self, cutoff: float = CUTOFF, start: float = START) -> tuple[int, int]:
        """Return the first and the last number of evaluations that count for the score.

        Where they would be less than two apart, they are moved apart.
        """
        known = self._evaluations.get((cutoff, start))
        if known is None:
            first, last = budget(self.costs, start), budget(self.costs, cutoff)
            if last - first < 2:
                last += 2 if first == 0 else 1
                first = max(0, first - 1)
            known = self._evaluations[cutoff, start] = first, last
        return known

    @cached_property
    def _evaluations(self) -> dict[tuple[float, float], tuple[int, int]]:
        return {}  # bootstraps ask for the same ones hundreds of times

    def time_range(self, cutoff: float = CUTOFF, start: float = START) -> tuple[float, float]:
        """Return the first and the last second that count: `evaluations` times the median time of one.

        Raises:
            ValueError: The times were not recorded.
        """
        if np.isnan(self.median_seconds):
            raise ValueError("the baseline has no seconds; score over evaluations instead")
        first, last = self.evaluations(cutoff, start)
        return first * self.median_seconds, last * self.median_seconds

    def at_evaluations(self, numbers: npt.ArrayLike) -> Array:
        """Return the cost that random search is expected to have reached after so many evaluations.

        The cost at the expected rank: of n costs the best of k has rank k (n + 1) / (k + 1) from the worst, rounded
        and taken as an index from 0 as in the methodology's package. Failing configurations do not count there; the
        expectation of the cost itself, with them, is `random_curve`.

        Args:
            numbers: Numbers of evaluations, 0 or more.
        """
        ks = np.asarray(numbers, dtype=float)
        n = len(self.costs)
        rank: Ints = np.minimum(np.round(ks * (n + 1) / (ks + 1)), n - 1).astype(np.int64)
        return self.costs[n - 1 - rank]

    def at_seconds(self, times: Array) -> Array:
        """Return the cost that random search is expected to have reached at some times.

        A time is as many evaluations as `seconds` fits into it, at least one; between whole numbers a monotone cubic
        interpolation (PCHIP) smooths the steps, all as in the methodology's package.

        Args:
            times: Seconds, equally spaced and ascending, ``(t,)``.
        """
        from scipy.interpolate import PchipInterpolator

        numbers = np.round(np.maximum(times / self.seconds, 1))
        costs = self.at_evaluations(numbers)
        if len(numbers) <= 2:
            return costs
        fresh = np.diff(numbers, prepend=0) > 0
        if fresh.sum() < 2:
            return costs
        smooth: Array = PchipInterpolator(numbers[fresh], costs[fresh])(
            np.linspace(numbers[0], numbers[-1], len(numbers))
        )
        return smooth


def evaluation_seconds(seconds: Array, failed: npt.NDArray[np.bool_]) -> float:
    """Return the mean time per evaluation that runs, the failing ones it meets on the way added.

    The mean of those that run plus the share that fails times their mean, as in the methodology's package.

    Args:
        seconds: Time of each evaluation, NaN if unknown, ``(n,)``.
        failed: Which of them fail.
    """
    known = ~np.isnan(seconds)
    if not (known & failed).any():
        return float(np.nanmean(seconds))
    valid = float(np.mean(seconds[known & ~failed])) if (known & ~failed).any() else 0.0
    return valid + float(np.mean(failed)) * float(np.mean(seconds[known & failed]))


def budget(costs: npt.ArrayLike, cutoff: float = CUTOFF) -> int:
    """Return how many evaluations random search needs for a share of the way from the median to the optimum.

    The inverse of the expected rank: index i from the worst takes i / (n + 1 - i) evaluations, rounded up. If only the
    optimum is good enough, the second best is.

    Args:
        costs: What the configurations of a space cost (minimised); NaN (failed) does not count.
        cutoff: The share of the way, 0 to 1.

    Raises:
        ValueError: The cutoff is no share, or all costs are the same.
    """
    if not 0 <= cutoff <= 1:
        raise ValueError(f"cutoff = {cutoff} is no share; give a number from 0 to 1")
    every = np.asarray(costs, dtype=float)
    ascending = np.sort(every[~np.isnan(every)])
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
    configurations take draws; the expectation is over the samples in which at least one runs.

    Args:
        costs: What each configuration of a space costs (minimised), NaN if it fails, ``(n,)``.
        evaluations: How many draws, at most n.

    Returns:
        The expectation after 1, 2, ... ``evaluations`` draws, ``(evaluations,)``.

    Raises:
        ValueError: More draws than configurations, or no configuration runs.
    """
    every = np.asarray(costs, dtype=float)
    n = len(every)
    if not 1 <= evaluations <= n:
        raise ValueError(f"evaluations = {evaluations}; give a number from 1 to {n}")
    valid = np.sort(every[~np.isnan(every)])
    if not len(valid):
        raise ValueError("costs has no configuration that runs")
    return np.array([_expected_best(valid, n, k) for k in range(1, evaluations + 1)])


def _expected_best(valid: Array, n: int, k: int) -> float:
    """Return the mean of the least of k draws; P(none of the i best drawn) is a running product."""
    i = np.arange(len(valid))
    none = np.cumprod(np.maximum(n - k - i, 0) / (n - i))
    drawn = -np.diff(none, prepend=1.0)
    return float(drawn @ valid / drawn.sum())


def best_so_far(runs: Iterable[Iterable[float | None]]) -> Array:
    """Return curves of the least cost so far, ``(runs, evaluations)``.

    Args:
        runs: The costs of each run in the order of evaluation, None or NaN where one failed; a run that ended early
            keeps its best.

    Returns:
        NaN before the first success.

    Raises:
        ValueError: No run, or one without any evaluation.
    """
    rows = [np.array([np.nan if v is None else v for v in run], dtype=float) for run in runs]
    if not rows or min(map(len, rows)) == 0:
        raise ValueError("runs has none, or one without an evaluation")
    width = max(map(len, rows))
    table = np.array([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row in rows])
    return np.asarray(np.fmin.accumulate(table, axis=1))
