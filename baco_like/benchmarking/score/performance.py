"""The community's performance score: 0 is a calculated random baseline, 1 is the optimum from the first evaluation on.

Source: Willemsen et al. 2025, "Constraint-aware Optimization in Auto-Tuning", section V-A and Eq. (2). Runs of random
search score 0.1 to 0.2 over evaluations, not 0; `score` says why. The details follow the PyPI package
``autotuning-methodology``, and the numbers agree with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array
from baco_like.benchmarking.score.baseline import CUTOFF, START, Baseline

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
