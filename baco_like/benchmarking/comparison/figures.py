"""Compute the figures of a comparison: scores with intervals, fractions of the optimum, wins."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from baco_like._typing import Array, Ints, Mask, Rng
from baco_like.benchmarking import score
from baco_like.benchmarking.comparison.runs import StrategyRun
from baco_like.benchmarking.comparison.spaces import OUTSIDE, RecordedSpace
from baco_like.benchmarking.score import Baseline, Performance

_TIMES = 200
"""Number of points in time at which a score is computed."""
_RESAMPLES, _TIME_RESAMPLES = 500, 100
_LEVEL = 0.95
_MIN_CUTOFF = 0.05

Curves = Mapping[str, Array]
"""Best cost so far by space, ``(runs, evaluations)`` each."""


@dataclass(frozen=True, eq=False)
class Standing:
    """Scores of a contender over all spaces, over evaluations or over time.

    Attributes:
        by_space: Its score on each space.
        score: Mean of these scores.
        low: Lower end of the mean's interval.
        high: Upper end of the mean's interval.
        shares: Shares of the budget, ``(p,)``.
        curve: Mean score of the spaces at these shares, ``(p,)``.
        band: Interval of the curve, ``(2, p)``.
    """

    by_space: Mapping[str, float]
    score: float
    low: float
    high: float
    shares: Array
    curve: Array
    band: Array


@dataclass(frozen=True, eq=False)
class ComparisonFigures:
    """The results of a comparison; contenders and spaces are in their given order.

    Attributes:
        labels: The contenders.
        spaces: Names of the recorded spaces.
        counts: Number of finished runs, ``(contenders, spaces)``.
        budgets: Evaluations of a run, by space.
        evaluations: Standing over evaluations, by label.
        time: Standing over simulated time, by label; empty if a table has no times, or a contender has no success
            within the time.
        fractions: Mean of optimum / best at the end of the budget, ``(contenders, spaces)``; NaN if the optimum is 0.
        contests: For each space, whether row i is significantly better than row j at the end of the budget.
        milliseconds: Mean CPU time of a suggestion, by label.
    """

    labels: Sequence[str]
    spaces: Sequence[str]
    counts: Ints
    budgets: Mapping[str, int]
    evaluations: Mapping[str, Standing]
    time: Mapping[str, Standing]
    fractions: Array
    contests: Mapping[str, Mask]
    milliseconds: Mapping[str, float]

    @property
    def wins(self) -> Ints:
        """Number of spaces on which row i beats column j, ``(contenders, contenders)``."""
        table: Ints = np.sum(list(self.contests.values()), axis=0, dtype=np.int64)
        return table

    @property
    def win_counts(self) -> tuple[Ints, Ints]:
        """Wins and losses of each contender, ``(contenders,)`` each."""
        return score.count_wins(list(self.contests.values()))


def compute_figures(
    runs: Sequence[StrategyRun],
    recorded: Sequence[RecordedSpace],
    budgets: Mapping[str, int],
    rng: Rng,
) -> ComparisonFigures:
    """Return the figures of finished runs.

    Args:
        runs: At least two runs of every contender on every space, each with ``budgets`` evaluations.
        recorded: The spaces.
        budgets: Evaluations of a run, by the space's name.
        rng: Random generator of the bootstrap.

    Raises:
        ValueError: A contender has fewer than two runs on a space.
    """
    spaces = {space.name: space for space in recorded}
    labels = list(dict.fromkeys(run.label for run in runs))
    grouped: dict[str, dict[str, list[StrategyRun]]] = {
        label: {n: [r for r in runs if (r.label, r.space) == (label, n)] for n in spaces}
        for label in labels
    }
    for label, by_space in grouped.items():
        for name, group in by_space.items():
            if len(group) < 2:
                raise ValueError(f"{label} has {len(group)} runs on {name}; give two or more")
    curves = {
        label: {name: curves_of(group, spaces[name]) for name, group in by_space.items()}
        for label, by_space in grouped.items()
    }
    cutoffs = {name: cutoff_of(s.baseline, budgets[name]) for name, s in spaces.items()}
    evaluations = {label: compute_standing(c, spaces, cutoffs, rng) for label, c in curves.items()}
    time: dict[str, Standing] = {}
    if not any(np.isnan(space.baseline.median_seconds) for space in recorded):
        with suppress(score.NothingToScore):
            seconds = {
                label: {name: clock(group, spaces[name]) for name, group in by_space.items()}
                for label, by_space in grouped.items()
            }
            time = {
                label: compute_standing(c, spaces, cutoffs, rng, seconds[label])
                for label, c in curves.items()
            }
    fractions = [
        [_mean_fraction(curves[label][n], s, budgets[n]) for n, s in spaces.items()]
        for label in labels
    ]
    contests = {
        n: score.significant_wins([final_costs(c[n], s, budgets[n]) for c in curves.values()])
        for n, s in spaces.items()
    }
    return ComparisonFigures(
        labels=labels,
        spaces=list(spaces),
        counts=np.array([list(map(len, by_space.values())) for by_space in grouped.values()]),
        budgets=budgets,
        evaluations=evaluations,
        time=time,
        fractions=np.array(fractions),
        contests=contests,
        milliseconds={label: _milliseconds(label, runs) for label in labels},
    )


def curves_of(runs: Sequence[StrategyRun], recorded: RecordedSpace) -> Array:
    """Return the best cost of each run after each evaluation, ``(runs, evaluations)``; NaN before the first success.

    If values were drawn, it is the recorded cost of the configuration with the smallest mean of drawn costs so far.
    This cost may increase: it is the cost that a user would get, without the luck of a single measurement.
    """
    if all(run.drawn is None for run in runs):
        return score.best_so_far(recorded.costs[run.rows] for run in runs)
    curves = np.full((len(runs), max(len(run.rows) for run in runs)), np.nan)
    for curve, run in zip(curves, runs, strict=True):
        costs = _incumbent_costs(run, recorded)
        curve[: len(costs)] = costs
        curve[len(costs) :] = costs[-1]
    return curves


def _incumbent_costs(run: StrategyRun, recorded: RecordedSpace) -> Array:
    assert run.drawn is not None
    sums: dict[int, float] = {}
    counts: dict[int, int] = {}
    means: dict[int, float] = {}
    costs = np.full(len(run.rows), np.nan)
    best: int | None = None
    for i, (row, cost) in enumerate(zip(run.rows.tolist(), run.drawn.tolist(), strict=True)):
        if not np.isnan(cost):
            sums[row] = sums.get(row, 0.0) + cost
            counts[row] = counts.get(row, 0) + 1
            means[row] = sums[row] / counts[row]
            if best is None or row == best or means[row] < means[best]:
                best = min(means, key=lambda r: means[r])
        if best is not None:
            costs[i] = recorded.costs[best]
    return costs


def charge_penalised(run: StrategyRun) -> StrategyRun:
    """Return the run with every penalised candidate counted as a failed evaluation."""
    if run.penalised is None:
        return run
    new = np.diff(run.penalised, prepend=0)
    rows = np.insert(run.rows, np.repeat(np.arange(len(new)), new), OUTSIDE)
    return replace(run, rows=rows, penalised=None)


def cutoff_of(baseline: Baseline, evaluations: int) -> float:
    """Return the share of the way from the median to the optimum that random search reaches within a budget.

    For the methodology's own budget it is the methodology's cutoff.
    """
    if evaluations == baseline.evaluations()[1]:
        return score.CUTOFF
    reached = float(baseline.at_evaluations(evaluations))
    share = (baseline.median - reached) / (baseline.median - baseline.optimum)
    return float(np.clip(share, _MIN_CUTOFF, 1.0))


def final_costs(curves: Array, recorded: RecordedSpace, evaluations: int) -> Array:
    """Return the best cost of each run at the end, ``(runs,)``; the worst recorded cost if all evaluations failed."""
    last = score.at_budgets(curves, [evaluations])[:, 0]
    return np.where(np.isnan(last), recorded.baseline.costs[-1], last)


def _mean_fraction(curves: Array, recorded: RecordedSpace, evaluations: int) -> float:
    optimum = recorded.baseline.optimum
    if optimum == 0 or optimum < 0 < np.nanmax(recorded.costs):
        return float("nan")
    last = score.at_budgets(curves, [evaluations])
    return float(score.fraction_of_optimum(last, optimum).mean())


def _milliseconds(label: str, runs: Sequence[StrategyRun]) -> float:
    own = [run for run in runs if run.label == label]
    return 1e3 * sum(run.cpu for run in own) / max(1, sum(len(run.rows) for run in own))


def compute_standing(
    curves: Curves,
    spaces: Mapping[str, RecordedSpace],
    cutoffs: Mapping[str, float],
    rng: Rng,
    seconds: Curves | None = None,
    resamples: int | None = None,
) -> Standing:
    """Return the standing of a contender with percentile bootstrap intervals over the runs.

    Args:
        curves: Its best costs so far.
        spaces: The spaces, by name.
        cutoffs: The cutoffs, by space.
        rng: Random generator of the bootstrap.
        seconds: The times of `clock`, by space; None scores over evaluations.
        resamples: Number of bootstrap samples; by default fewer over time, which takes longer.
    """

    @functools.cache  # three runs have only ten samples in any order
    def score_runs(name: str, runs: tuple[int, ...]) -> Performance:
        """Return the score of some runs on a space; a run may occur several times."""
        costs, baseline, cutoff = curves[name][list(runs)], spaces[name].baseline, cutoffs[name]
        if seconds is None:
            return score.score(costs, baseline, cutoff=cutoff)
        times = seconds[name][list(runs)]
        return score.score_over_time(costs, times, baseline, cutoff=cutoff, points=_TIMES)

    if resamples is None:
        resamples = _RESAMPLES if seconds is None else _TIME_RESAMPLES
    sizes = {name: len(table) for name, table in curves.items()}
    performances = {name: score_runs(name, tuple(range(n))) for name, n in sizes.items()}
    shares, curve = score.aggregate_curve(list(performances.values()))
    samples = [
        [
            score_runs(name, tuple(sorted(rng.integers(n, size=n).tolist())))
            for name, n in sizes.items()
        ]
        for _ in range(resamples)
    ]
    ends = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
    low, high = np.quantile([score.aggregate(sample) for sample in samples], ends)
    return Standing(
        by_space={name: performance.mean for name, performance in performances.items()},
        score=score.aggregate(list(performances.values())),
        low=float(low),
        high=float(high),
        shares=shares,
        curve=curve,
        band=np.quantile([score.aggregate_curve(sample)[1] for sample in samples], ends, axis=0),
    )


def clock(runs: Sequence[StrategyRun], recorded: RecordedSpace) -> Array:
    """Return the simulated time at the end of each evaluation, ``(runs, evaluations)``; NaN after a run's end."""
    times = np.full((len(runs), max(len(run.rows) for run in runs)), np.nan)
    for line, run in zip(times, runs, strict=True):
        line[: len(run.rows)] = np.cumsum(np.nan_to_num(recorded.seconds[run.rows]))
    return times
