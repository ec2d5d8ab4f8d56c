"""What the runs of a comparison come to: scores with intervals, fractions of the optimum, wins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco_like._typing import Array, Ints, Mask, Rng
from baco_like.benchmarking.comparison.runs import Run
from baco_like.benchmarking.comparison.spaces import OUTSIDE, RecordedSpace
from baco_like.benchmarking.score import (
    CUTOFF,
    Baseline,
    NothingToScore,
    Performance,
    aggregate,
    aggregate_curve,
    at_budgets,
    best_so_far,
    fraction_of_optimum,
    score,
    score_over_time,
    totals,
    wins,
)

_TIMES = 200
"""Points in time at which a score is taken."""
_RESAMPLES = {"evaluations": 500, "time": 100}
_LEVEL = 0.95
_LEAST_CUTOFF = 0.05

Curves = Mapping[str, Array]
"""Best cost so far by space, ``(runs, evaluations)`` each."""


@dataclass(frozen=True, eq=False)
class Standing:
    """How one contender does over all spaces, over evaluations or over time.

    Attributes:
        by_space: Its score on each space.
        score: The mean of these, with its interval ``low`` to ``high``.
        shares: Shares of the budget, ``(p,)``.
        curve: The mean score of the spaces there, ``(p,)``, with its interval ``band``, ``(2, p)``.
    """

    by_space: Mapping[str, float]
    score: float
    low: float
    high: float
    shares: Array
    curve: Array
    band: Array


@dataclass(frozen=True, eq=False)
class Figures:
    """A comparison's outcome; contenders and spaces are in the order in which they were given.

    Attributes:
        labels: The contenders.
        spaces: The recorded spaces.
        counts: Finished runs, ``(contenders, spaces)``.
        budgets: Evaluations of a run, by space.
        evaluations: Standing over evaluations, by label.
        time: Standing over simulated time, by label; empty where a table does not tell the times, or a contender has
            no success within them.
        fractions: Mean of optimum / best at the end of the budget, ``(contenders, spaces)``; NaN with an optimum of 0.
        contests: Who is significantly better at the end of the budget, by space.
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
        """On how many spaces row i beats column j, ``(contenders, contenders)``."""
        table: Ints = np.sum(list(self.contests.values()), axis=0, dtype=np.int64)
        return table

    @property
    def totals(self) -> tuple[Ints, Ints]:
        """Wins and losses of each contender, ``(contenders,)``."""
        return totals(list(self.contests.values()))


def figures(
    runs: Sequence[Run], recorded: Sequence[RecordedSpace], budgets: Mapping[str, int], rng: Rng
) -> Figures:
    """Return the figures of finished runs.

    Args:
        runs: Of every contender on every space two or more, of which each made ``budgets`` evaluations.
        recorded: The spaces.
        budgets: Evaluations of a run, by the space's name.
        rng: Chance, for the bootstrap.

    Raises:
        ValueError: There are fewer runs than that.
    """
    spaces = {one.place.name: one for one in recorded}
    labels = list(dict.fromkeys(run.label for run in runs))
    grouped = {
        (label, name): [run for run in runs if (run.label, run.space) == (label, name)]
        for label in labels
        for name in spaces
    }
    for (label, name), some in grouped.items():
        if len(some) < 2:
            raise ValueError(f"{label} has {len(some)} runs on {name}; intervals need two or more")
    curves = {key: curves_of(some, spaces[key[1]]) for key, some in grouped.items()}
    cutoffs = {name: cutoff_of(one.baseline, budgets[name]) for name, one in spaces.items()}
    by_label = {label: {name: curves[label, name] for name in spaces} for label in labels}
    return Figures(
        labels,
        list(spaces),
        np.array([[len(grouped[label, name]) for name in spaces] for label in labels]),
        budgets,
        {label: over_evaluations(by_label[label], spaces, cutoffs, rng) for label in labels},
        _over_time(grouped, by_label, spaces, cutoffs, rng),
        np.array(
            [
                [_fraction(curves[label, n], one, budgets[n]) for n, one in spaces.items()]
                for label in labels
            ]
        ),
        {
            name: wins([last_costs(curves[label, name], one, budgets[name]) for label in labels])
            for name, one in spaces.items()
        },
        {label: _milliseconds([run for run in runs if run.label == label]) for label in labels},
    )


def curves_of(runs: Sequence[Run], recorded: RecordedSpace) -> Array:
    """Return what each run has found after each evaluation, ``(runs, evaluations)``; NaN before the first success.

    It is the best cost so far. Where values were drawn it is the recorded cost of the configuration whose drawn costs
    have the least mean so far, which may go up: what a user would have, not what was measured by luck.
    """
    if all(run.drawn is None for run in runs):
        return best_so_far(recorded.costs[run.rows] for run in runs)
    found = np.full((len(runs), max(len(run.rows) for run in runs)), np.nan)
    for line, run in zip(found, runs, strict=True):
        costs = _incumbent_costs(run, recorded)
        line[: len(costs)] = costs
        line[len(costs) :] = costs[-1]
    return found


def _incumbent_costs(run: Run, recorded: RecordedSpace) -> Array:
    assert run.drawn is not None
    seen: dict[int, tuple[float, int]] = {}
    costs = np.full(len(run.rows), np.nan)
    best: int | None = None
    for i, (row, cost) in enumerate(zip(run.rows.tolist(), run.drawn.tolist(), strict=True)):
        if not np.isnan(cost):
            total, count = seen.get(row, (0.0, 0))
            seen[row] = (total + cost, count + 1)
            if best is None or row == best or _mean(seen[row]) < _mean(seen[best]):
                best = min(seen, key=lambda one: _mean(seen[one]))
        if best is not None:
            costs[i] = recorded.costs[best]
    return costs


def charged(run: Run) -> Run:
    """Return the run in which every candidate that was answered with a penalty is an evaluation that failed."""
    if run.penalised is None:
        return run
    new = np.diff(run.penalised, prepend=0)
    return replace(
        run, rows=np.insert(run.rows, np.repeat(np.arange(len(new)), new), OUTSIDE), penalised=None
    )


def _mean(sums: tuple[float, int]) -> float:
    return sums[0] / sums[1]


def cutoff_of(baseline: Baseline, evaluations: int) -> float:
    """Return how far from the median to the optimum random search comes with a budget: the cutoff that stands for it.

    The budget of the methodology itself has the methodology's.
    """
    if evaluations == baseline.evaluations()[1]:
        return CUTOFF
    reached = float(baseline.at_evaluations(evaluations))
    share = (baseline.median - reached) / (baseline.median - baseline.optimum)
    return float(np.clip(share, _LEAST_CUTOFF, 1.0))


def last_costs(curves: Array, recorded: RecordedSpace, evaluations: int) -> Array:
    """Return what each run has reached at the end, ``(runs,)``; the worst there is, where all failed."""
    last = at_budgets(curves, [evaluations])[:, 0]
    return np.where(np.isnan(last), recorded.baseline.costs[-1], last)


def _fraction(curves: Array, recorded: RecordedSpace, evaluations: int) -> float:
    optimum = recorded.baseline.optimum
    if optimum == 0 or optimum < 0 < np.nanmax(recorded.costs):
        return float("nan")
    return float(fraction_of_optimum(at_budgets(curves, [evaluations]), optimum).mean())


def _milliseconds(runs: Sequence[Run]) -> float:
    return 1e3 * sum(run.cpu for run in runs) / max(1, sum(len(run.rows) for run in runs))


def over_evaluations(
    curves: Curves,
    spaces: Mapping[str, RecordedSpace],
    cutoffs: Mapping[str, float],
    rng: Rng,
) -> Standing:
    """Return how a contender does over evaluations, on each space up to the cutoff."""

    def one(name: str, picked: Ints) -> Performance:
        return score(curves[name][picked], spaces[name].baseline, cutoff=cutoffs[name])

    sizes = {name: len(table) for name, table in curves.items()}
    return _standing(one, sizes, _RESAMPLES["evaluations"], rng)


def _over_time(
    grouped: Mapping[tuple[str, str], Sequence[Run]],
    by_label: Mapping[str, Curves],
    spaces: Mapping[str, RecordedSpace],
    cutoffs: Mapping[str, float],
    rng: Rng,
) -> dict[str, Standing]:
    if any(np.isnan(one.baseline.median_seconds) for one in spaces.values()):
        return {}
    with contextlib.suppress(NothingToScore):
        return {
            label: over_time(
                curves,
                {n: clock(grouped[label, n], one) for n, one in spaces.items()},
                spaces,
                cutoffs,
                rng,
            )
            for label, curves in by_label.items()
        }
    return {}


def over_time(
    curves: Curves,
    seconds: Curves,
    spaces: Mapping[str, RecordedSpace],
    cutoffs: Mapping[str, float],
    rng: Rng,
    resamples: int = _RESAMPLES["time"],
) -> Standing:
    """Return how a contender does over time, on each space up to the cutoff.

    Args:
        curves: Its best costs so far.
        seconds: Those of `clock`, by space.
        spaces: By name.
        cutoffs: By space.
        rng: Chance, for the bootstrap.
        resamples: How often that draws.
    """

    def one(name: str, picked: Ints) -> Performance:
        when, baseline = seconds[name][picked], spaces[name].baseline
        return score_over_time(
            curves[name][picked], when, baseline, cutoff=cutoffs[name], points=_TIMES
        )

    sizes = {name: len(table) for name, table in curves.items()}
    return _standing(one, sizes, resamples, rng)


def clock(runs: Sequence[Run], recorded: RecordedSpace) -> Array:
    """Return when each evaluation was done on the simulated clock, ``(runs, evaluations)``; NaN beyond a run's end."""
    found = np.full((len(runs), max(len(run.rows) for run in runs)), np.nan)
    for line, run in zip(found, runs, strict=True):
        line[: len(run.rows)] = np.cumsum(np.nan_to_num(recorded.seconds[run.rows]))
    return found


def _standing(
    one: Callable[[str, Ints], Performance], sizes: Mapping[str, int], resamples: int, rng: Rng
) -> Standing:
    """Return a standing with its bootstrap intervals; ``one`` gives the score of some of the runs on a space."""
    found = {name: one(name, np.arange(n)) for name, n in sizes.items()}
    shares, curve = aggregate_curve(list(found.values()))
    draws = [
        [one(name, rng.integers(n, size=n)) for name, n in sizes.items()] for _ in range(resamples)
    ]
    ends = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
    low, high = np.quantile([aggregate(each) for each in draws], ends)
    band = np.quantile([aggregate_curve(each)[1] for each in draws], ends, axis=0)
    scores = {name: each.mean for name, each in found.items()}
    return Standing(
        scores, aggregate(list(found.values())), float(low), float(high), shares, curve, band
    )
