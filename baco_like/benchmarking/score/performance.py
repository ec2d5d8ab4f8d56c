"""The community's performance score: 0 is random search, 1 is the optimum from the first evaluation on.

"Constraint-aware Optimization in Auto-Tuning", section V-A and Eq. (2); the details are those of the PyPI package
``autotuning-methodology``, with which the numbers agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array
from baco_like.benchmarking.score.baseline import CUTOFF, START, Baseline

POINTS = 10_000
"""Times at which a score over time is taken; the methodology's package has as many."""


class NothingToScore(ValueError):
    """Random search is at the optimum at once, or no run has a success within the budget."""


@dataclass(frozen=True, eq=False)
class Performance:
    """How a strategy does on one space.

    Attributes:
        at: Numbers of evaluations, or seconds, ``(t,)``.
        scores: The score there, ``(t,)``; it can be far below 0.
        costs: The strategy's cost there, ``(t,)``.
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

    Points where random search is expected to be at the optimum do not count (in a small space, at its end). The
    strategy's cost is that of the median rank of its runs. A run without a success so far does not count there
    (so in the methodology's package); where no run has one, the cost is the worst. The baseline is the mean rank of
    random search, and the median is less than the mean, so random search itself scores 0.1 to 0.2 here (over time 0):
    show it beside the others.

    Args:
        curves: Best cost so far of each run, ``(runs, evaluations)``, NaN before the first success; runs that end
            before the budget keep their last.
        baseline: The space.
        cutoff: Where the budget ends, as in `budget`.
        start: Where it begins.

    Raises:
        ValueError: All costs of the space are the same, or random search is at the optimum at once.
    """
    first, last = baseline.evaluations(cutoff, start)
    at = np.arange(max(first, 1), last + 1)
    costs = _median_costs(
        _ranks(curves[:, np.minimum(at, curves.shape[1]) - 1], baseline), baseline
    )
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

    The strategy's cost at a time is that of the rank which an isotonic regression through the evaluations of all runs
    gives. (The methodology's package averages that regression over random subsamples; this is the regression on all
    of them, which needs no chance.)

    Args:
        curves: Best cost so far of each run, ``(runs, evaluations)``, NaN before the first success.
        seconds: When each evaluation was done, since the start of its run, ``(runs, evaluations)``; NaN where a run
            has no such evaluation. Compiling, running and, if wanted, the strategy's own time belong to it.
        baseline: The space, with seconds.
        cutoff: Where the budget ends, as in `Baseline.time_range`.
        start: Where it begins.
        points: Equally spaced times at which the score is taken.

    Raises:
        ValueError: The baseline has no seconds, the shapes differ, no run has a success within the budget, or random
            search is at the optimum at once.
    """
    if curves.shape != seconds.shape:
        raise ValueError(f"seconds has shape {seconds.shape}, curves {curves.shape}; give one each")
    first, last = baseline.time_range(cutoff, start)
    at = np.linspace(first, last, points)
    costs = _costs_over_time(curves, seconds, at, baseline)
    return _performance(at, costs, baseline.at_seconds(at), baseline)


def aggregate(performances: Sequence[Performance]) -> float:
    """Return the score over several spaces, every space with the same weight (Eq. 2)."""
    return float(np.mean([one.mean for one in performances]))


def aggregate_curve(performances: Sequence[Performance], points: int = 101) -> tuple[Array, Array]:
    """Return the mean score of several spaces over the share of the budget, for a plot.

    Returns:
        Shares of each space's budget from its start (0) to its end (1), and the scores there, ``(points,)`` each.
    """
    shares = np.linspace(0, 1, points)
    each = [
        np.interp(shares, (one.at - one.at[0]) / ((one.at[-1] - one.at[0]) or 1.0), one.scores)
        for one in performances
    ]
    return shares, np.mean(each, axis=0)


def _ranks(costs: Array, baseline: Baseline) -> Array:
    """Return from 0 (the optimum) the ranks of costs, NaN for NaN."""
    ranks = np.searchsorted(baseline.costs, costs, side="left").astype(float)
    return np.where(np.isnan(costs), np.nan, ranks)


def _median_costs(ranks: Array, baseline: Baseline) -> Array:
    if not np.isnan(ranks).any():  # far faster
        return _at_rank(np.median(ranks, axis=0), baseline)
    worst = float(len(baseline.costs) - 1)
    ranks = np.where(np.isnan(ranks).all(axis=0), worst, ranks)
    return _at_rank(np.nanmedian(ranks, axis=0), baseline)


def _at_rank(ranks: Array, baseline: Baseline) -> Array:
    index = np.clip(np.round(ranks), 0, len(baseline.costs) - 1).astype(np.int64)
    return baseline.costs[index]


def _performance(at: Array, costs: Array, random: Array, baseline: Baseline) -> Performance:
    """Return the share of the way from random search to the optimum, as far as there is a way left."""
    left = random - baseline.optimum
    some = left > 0
    if not some.any():
        raise NothingToScore(
            "random search is at the optimum at once; the space is too small to score"
        )
    return Performance(at[some], (random - costs)[some] / left[some], costs[some])


def _costs_over_time(curves: Array, seconds: Array, at: Array, baseline: Baseline) -> Array:
    from sklearn.isotonic import IsotonicRegression

    some = ~np.isnan(curves).all(axis=0)
    curves, when = curves[:, some], np.where(np.isnan(curves), np.nan, seconds)[:, some]
    margin = 0.1 + 0.25 * len(curves) / max(curves.size, 1)
    near = (at[0] * (1 - margin) <= when) & (when <= at[-1] * (1 + margin))
    if not near.any():
        raise NothingToScore(f"no run has a success within {at[-1]:.3g} seconds; run longer")
    model = IsotonicRegression(increasing=False, out_of_bounds="clip")
    model.fit(when[near], _ranks(curves[near], baseline))
    costs = _at_rank(model.predict(at), baseline)
    later = at > _trusted(when)
    return np.where(later, costs[np.argmax(later)], costs)


def _trusted(when: Array) -> float:
    """Return the time from which on a curve is held: the first end of a run after half of them have ended."""
    ends = np.fmax.reduce(when, axis=1)
    later = ends[ends > np.nanmedian(ends)]
    return float(later.min()) if len(later) else float("inf")
