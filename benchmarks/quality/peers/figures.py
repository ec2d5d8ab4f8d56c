"""Figures of the runs: scores with intervals, fractions of the optimum, evaluations and CPU time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from baco_like.benchmarking.score import (
    at_budgets,
    best_so_far,
    fraction_of_optimum,
    random_curve,
    score,
)

from .measure import EVERY
from .problem import Problem

Row = dict[str, Any]
Array = np.ndarray

FULL = 10**9
"""As a number of evaluations: the methodology's budget of each space."""

RESAMPLES = 200


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of one peer on one problem.

    Attributes:
        problem: The problem.
        rows: One for each run.
    """

    problem: Problem
    rows: Sequence[Row]

    @cached_property
    def curves(self) -> Array:
        """Best cost so far, ``(runs, evaluations)``, NaN before the first success."""
        return best_so_far(row["values"] for row in self.rows)

    def counted(self, evaluations: int) -> Array:
        """Return the evaluations that count for a score up to a number of them."""
        first, last = self.problem.baseline.evaluations()
        return np.arange(max(first, 1), min(evaluations, last) + 1)

    def scored(self, evaluations: int) -> "Runs":
        """Return the runs that are long enough for a score up to a number of evaluations."""
        return self.lasting(int(self.counted(evaluations)[-1]))

    def lasting(self, evaluations: int) -> "Runs":
        """Return the runs with at least this many known evaluations; a run that ended early keeps its best."""
        ends = [known_until(row) for row in self.rows]
        least = min((end for end in ends if end >= evaluations), default=math.inf)
        if least == min(ends):
            return self
        if least not in self._lasting:
            kept = [row for row, end in zip(self.rows, ends, strict=True) if end >= evaluations]
            self._lasting[least] = Runs(self.problem, kept)
        return self._lasting[least]

    def at_most(self) -> "Runs":
        """Return the runs continued with the optimum, which is an upper bound of their scores."""
        return Runs(self.problem, [_continue_with_optimum(row, self.problem) for row in self.rows])

    @cached_property
    def _lasting(self) -> dict[float, "Runs"]:
        return {}

    @cached_property
    def median(self) -> tuple[Array, Array]:
        """The evaluations at which the median curve is scored, ``(p,)``, and its scores, ``(1 + RESAMPLES, p)``.

        The first row has all runs, the others resampled runs, as in the methodology.
        """
        every = np.arange(len(self.rows))[None]
        picked = np.concatenate([every, self.draws()])
        found = [score(self.curves[one], self.problem.baseline) for one in picked]
        return found[0].at, np.array([one.scores for one in found])

    def draws(self) -> Array:
        """Return the indices of the runs in each resample, ``(RESAMPLES, runs)``."""
        rng = np.random.default_rng(crc32(self.problem.name.encode()))
        return rng.integers(len(self.rows), size=(RESAMPLES, len(self.rows)))

    def scores(self, evaluations: int, mean: bool) -> Array:
        """Return the score of the mean or median curve: of all runs, then of resampled ones, ``(1 + RESAMPLES,)``."""
        if mean:
            each = self.mean_scores(evaluations)
            return np.concatenate([[each.mean()], each[self.draws()].mean(axis=1)])
        at, found = self.median
        return found[:, at <= evaluations].mean(axis=1)

    def mean_scores(self, evaluations: int) -> Array:
        """Return the score of each run, whose mean is the score of the mean curve, ``(runs,)``."""
        at = self.counted(evaluations)
        return self._scores_of(self.costs(at), at)

    def random_score(self, evaluations: int) -> float:
        """Return the score of random search's expected curve: the mean of `mean_scores` over infinitely many runs."""
        at = self.counted(evaluations)
        return float(self._scores_of(self.expected_of_random(at), at))

    def _scores_of(self, costs: Array, at: Array) -> Array:
        """Return the scores of curves of the best cost at some evaluations, ``(..., evaluations)`` -> ``(...)``."""
        random = self.problem.baseline.at_evaluations(at)
        left = random - self.problem.baseline.optimum
        some = left > 0
        return ((random - costs)[..., some] / left[some]).mean(axis=-1)

    def costs(self, at: Sequence[int] | Array) -> Array:
        """Return the best costs after numbers of evaluations; before the first success, the worst cost of the space."""
        found = at_budgets(self.curves, list(at))
        return np.where(np.isnan(found), self.problem.baseline.costs[-1], found)

    def fractions(self, evaluations: int) -> float:
        """Return the mean fraction of the optimum."""
        found = at_budgets(self.curves, [evaluations])
        return float(fraction_of_optimum(found, self.problem.baseline.optimum).mean())

    def evaluations_to(self, cost: float) -> float:
        """Return the number of evaluations until the mean curve reaches a cost, or infinity."""
        curve = self.costs(np.arange(1, self.curves.shape[1] + 1)).mean(axis=0)
        reached = np.flatnonzero(curve <= cost)
        return float(reached[0] + 1) if len(reached) else math.inf

    def made(self) -> float:
        """Return the mean number of evaluations of a run."""
        return float(np.mean([len(row["values"]) for row in self.rows]))

    def worse_than_random(self, evaluations: int) -> tuple[int, int]:
        """Return the number of counted evaluations, worse than random search's expectation and in total."""
        at = self.counted(evaluations)
        return int((self.costs(at).mean(axis=0) > self.expected_of_random(at)).sum()), len(at)

    def expected_of_random(self, at: Array) -> Array:
        """Return the exact expected best cost of random search, with the worst cost before a success."""
        costs = np.where(
            np.isnan(self.problem.costs), self.problem.baseline.costs[-1], self.problem.costs
        )
        return random_curve(costs, int(at[-1]))[at - 1]


def known_until(row: Row) -> float:
    """Return the number of evaluations after which a run is unknown, or infinity if it ended early."""
    if row["stopped"]:
        return len(row["values"])
    return row["budget"] if len(row["values"]) >= row["budget"] else math.inf


def _continue_with_optimum(row: Row, problem: Problem) -> Row:
    end = known_until(row)
    if math.isinf(end):  # the run ended early and keeps its best
        return row
    known = row["values"][: int(end)]
    return {**row, "values": [*known, problem.baseline.optimum], "budget": FULL, "stopped": False}


Table = Mapping[tuple[str, str], Runs]
"""By peer and problem."""


def grouped(rows: Sequence[Row], problems: Mapping[str, Problem]) -> Table:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["space"] in problems and row["values"]:
            found.setdefault((row["peer"], row["space"]), []).append(row)
    return {key: Runs(problems[key[1]], some) for key, some in found.items()}


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % bootstrap interval over runs, of at least ``runs`` on each problem."""

    value: float
    low: float
    high: float
    runs: int


def overall(each: Sequence[Runs], evaluations: int, mean: bool) -> Interval | None:
    """Return a peer's mean score over problems, of the mean or median curves; None if no run is long enough."""
    long = [runs.scored(evaluations) for runs in each]
    count = min((len(runs.rows) for runs in long), default=0)
    if not count:
        return None
    found = np.mean([runs.scores(evaluations, mean) for runs in long], axis=0)
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return Interval(float(found[0]), float(low), float(high), count)


def milliseconds(each: Sequence[Runs], observations: int) -> float:
    """Return the CPU ms of a suggestion near a number of observations; repeated and excluded ones count too."""
    clock = asked = 0.0
    step = observations // EVERY
    for runs in each:
        for row in runs.rows:
            if len(row["cpu"]) > step:
                clock += row["cpu"][step] - row["cpu"][step - 2]
                asked += row["asked"][step] - row["asked"][step - 2]
    return 1e3 * clock / asked if asked else math.nan


def milliseconds_to(each: Sequence[Runs], evaluations: int) -> float:
    """Return the CPU ms for each of the first evaluations, all suggestions included."""
    step = evaluations // EVERY - 1
    clocks = [row["cpu"][step] for runs in each for row in runs.rows if len(row["cpu"]) > step]
    return 1e3 * float(np.mean(clocks)) / evaluations if clocks else math.nan
