"""Scores of strategies on recorded spaces: the community's methodology, and measures of the 2021 and 2022 papers.

All functions take costs, which are minimised; negate the values of a maximised objective.

Random search without replacement is calculated as in the community's methodology (Willemsen et al., "A methodology for
comparing optimization algorithms for auto-tuning", 2024; PyPI package ``autotuning-methodology``), on which the score
of Willemsen et al. 2025, "Constraint-aware Optimization in Auto-Tuning" (section V-A and Eq. (2)), is based: 0 is this
baseline, 1 is the optimum from the first evaluation on. The details follow the package, and the numbers agree with it.
Runs of random search score 0.1 to 0.2 over evaluations, not 0; `score` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import ceil

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Ints
from baco_like.records.objective import Direction, sign_of
from baco_like.results.recording import Recording

__all__ = [
    "CHECKPOINTS",
    "CUTOFF",
    "POINTS",
    "START",
    "Baseline",
    "NothingToScore",
    "Performance",
    "aggregate",
    "aggregate_curve",
    "at_budgets",
    "best_so_far",
    "budget",
    "fraction_of_optimum",
    "mean_absolute_error",
    "mean_deviation_factor",
    "random_curve",
    "score",
    "score_over_time",
]

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
    def from_recorded(cls, recorded: Recording, *, direction: Direction | None = None) -> Baseline:
        """Create a baseline from a recorded table; times include all stages (compile, run, check).

        Args:
            recorded: The table.
            direction: Direction of its values; None takes the table's.

        Raises:
            ValueError: All configurations fail, or the table has another direction.
        """
        entries = list(recorded.entries.values())
        sign = sign_of(recorded.resolve_direction(direction))
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


# The community's score ------------------------------------------------------------------------------------------------


POINTS = 10_000
"""Number of times at which a score over time is computed, as in the methodology's package."""


class NothingToScore(ValueError):
    """Random search finds the optimum at once, or no run has a success within the budget."""


@dataclass(frozen=True, eq=False)
class Performance:
    """The performance of a strategy on one space.

    Attributes:
        at: Numbers of evaluations, or seconds, ``(t,)``.
        scores: The score at each of them, ``(t,)``; it can be far below 0.
        costs: The strategy's cost at each of them, ``(t,)``.
    """

    at: Array
    scores: Array
    costs: Array

    @property
    def mean(self) -> float:
        """The score of the space."""
        return float(np.mean(self.scores))


def score(
    curves: Array, baseline: Baseline, *, cutoff: float = CUTOFF, start: float = START
) -> Performance:
    """Return the score over evaluations: (baseline - strategy) / (baseline - optimum).

    Points where random search is expected to be at the optimum do not count (the end of the curve in a small space).
    The strategy's cost is the cost at the median rank of its runs. A run without a success so far does not count, as
    in the methodology's package; if no run has a success, the cost is the worst. The baseline is the mean rank of
    random search, and the median rank is smaller than the mean, so random search itself scores 0.1 to 0.2 (over time
    0): show it next to the other strategies.

    Args:
        curves: Best cost so far of each run, ``(runs, evaluations)``, NaN before the first success; runs that end
            before the budget keep their last.
        baseline: The space.
        cutoff: Decides the end of the budget, as in `budget`.
        start: Decides its start in the same way.

    Raises:
        ValueError: All costs of the space are equal, or random search finds the optimum at once.
    """
    first, last = baseline.evaluations(cutoff, start)
    at = np.arange(max(first, 1), last + 1)
    ranks = _ranks(curves[:, np.minimum(at, curves.shape[1]) - 1], baseline)
    if np.isnan(ranks).any():  # median is much faster than nanmedian
        ranks = np.where(np.isnan(ranks).all(axis=0), len(baseline.costs) - 1.0, ranks)
        costs = _cost_at_rank(np.nanmedian(ranks, axis=0), baseline)
    else:
        costs = _cost_at_rank(np.median(ranks, axis=0), baseline)
    return _performance(at.astype(float), costs, baseline.at_evaluations(at), baseline)


def score_over_time(
    curves: Array,
    seconds: Array,
    baseline: Baseline,
    *,
    cutoff: float = CUTOFF,
    start: float = START,
    points: int = POINTS,
) -> Performance:
    """Return the score over time.

    The strategy's rank at a time is an isotonic regression through the evaluations of all runs; its cost is the cost
    at this rank. The methodology's package averages the regression over random subsamples; this function uses all
    evaluations at once and so needs no random numbers.

    Args:
        curves: Best cost so far of each run, ``(runs, evaluations)``, NaN before the first success.
        seconds: Time of the end of each evaluation since the start of its run, ``(runs, evaluations)``; NaN after the
            end of a run. It includes compiling, running and, if desired, the strategy's own time.
        baseline: The space, with seconds.
        cutoff: Decides the end of the budget, as in `Baseline.time_range`.
        start: Decides its start in the same way.
        points: Number of equally spaced times at which the score is computed.

    Raises:
        ValueError: The baseline has no seconds, the shapes differ, no run has a success within the budget, or random
            search finds the optimum at once.
    """
    if curves.shape != seconds.shape:
        raise ValueError(f"seconds has shape {seconds.shape}, curves {curves.shape}; give one each")
    first, last = baseline.time_range(cutoff, start)
    at = np.linspace(first, last, points)
    costs = _costs_over_time(curves, seconds, at, baseline)
    return _performance(at, costs, baseline.at_seconds(at), baseline)


def aggregate(performances: Sequence[Performance]) -> float:
    """Return the score over several spaces, every space with the same weight (Eq. 2)."""
    return float(np.mean([performance.mean for performance in performances]))


def aggregate_curve(performances: Sequence[Performance], points: int = 101) -> tuple[Array, Array]:
    """Return the mean score of several spaces over the share of the budget, for a plot.

    Returns:
        Shares of each space's budget from its start (0) to its end (1), and the scores at them, ``(points,)`` each.
    """
    shares = np.linspace(0, 1, points)
    curves = [
        np.interp(shares, (p.at - p.at[0]) / ((p.at[-1] - p.at[0]) or 1.0), p.scores)
        for p in performances
    ]
    return shares, np.mean(curves, axis=0)


def _ranks(costs: Array, baseline: Baseline) -> Array:
    """Return the ranks of costs, 0 for the optimum and NaN for NaN."""
    ranks = np.searchsorted(baseline.costs, costs, side="left").astype(float)
    return np.where(np.isnan(costs), np.nan, ranks)


def _cost_at_rank(ranks: Array, baseline: Baseline) -> Array:
    index = np.clip(np.round(ranks), 0, len(baseline.costs) - 1).astype(np.int64)
    return baseline.costs[index]


def _performance(at: Array, costs: Array, random: Array, baseline: Baseline) -> Performance:
    """Return the share of the way from random search to the optimum, where random search is not there yet."""
    left = random - baseline.optimum
    counts = left > 0
    if not counts.any():
        raise NothingToScore("random search finds the optimum at once; the space is too small")
    return Performance(at[counts], (random - costs)[counts] / left[counts], costs[counts])


def _costs_over_time(curves: Array, seconds: Array, at: Array, baseline: Baseline) -> Array:
    from sklearn.isotonic import IsotonicRegression

    used = ~np.isnan(curves).all(axis=0)
    curves, times = curves[:, used], np.where(np.isnan(curves), np.nan, seconds)[:, used]
    # The regression uses evaluations slightly outside the range, as in the methodology's package.
    margin = 0.1 + 0.25 * len(curves) / max(curves.size, 1)
    near = (at[0] * (1 - margin) <= times) & (times <= at[-1] * (1 + margin))
    if not near.any():
        raise NothingToScore(f"no run has a success within {at[-1]:.3g} seconds; run longer")
    model = IsotonicRegression(increasing=False, out_of_bounds="clip")
    model.fit(times[near], _ranks(curves[near], baseline))
    costs = _cost_at_rank(model.predict(at), baseline)
    # Keep the cost from the next end of a run after half of the runs have ended.
    ends = np.fmax.reduce(times, axis=1)
    later = at > min(ends[ends > np.nanmedian(ends)], default=np.inf)
    return np.where(later, costs[np.argmax(later)], costs)


# Simple measures of runs ----------------------------------------------------------------------------------------------


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


def mean_absolute_error(curves: Array, optimum: float) -> Array:
    """Return the mean of |best so far - optimum| over the `CHECKPOINTS`, per run, ``(runs,)``.

    "Bayesian Optimization for auto-tuning GPU kernels", section IV-A.

    Args:
        curves: Best cost so far, ``(runs, evaluations)``.
        optimum: The smallest cost of the space.

    Raises:
        ValueError: The curves end before the last checkpoint.
    """
    if max(CHECKPOINTS) > curves.shape[1]:
        raise ValueError(
            f"curves have {curves.shape[1]} evaluations; the last checkpoint is {max(CHECKPOINTS)}"
        )
    errors: Array = np.abs(at_budgets(curves, CHECKPOINTS) - optimum).mean(axis=1)
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
