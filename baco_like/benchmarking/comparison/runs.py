"""Run a strategy on a recorded space: suggestions are answered by looking up rows of the table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Ints
from baco_like.benchmarking.comparison import spaces
from baco_like.benchmarking.comparison.spaces import OUTSIDE, RecordedSpace, SpaceSource
from baco_like.exceptions import SpaceExhausted
from baco_like.optimizer import Optimizer, Search
from baco_like.records import Outcome, Trial, sign_of

_MAX_FACTOR = 3
"""Limit of a run's evaluations, as a multiple of its budget, while its simulated seconds are not spent."""


@dataclass(frozen=True)
class Contender:
    """A strategy in a comparison.

    Attributes:
        label: Its name in tables and plots.
        strategy: Its registered name.
        settings: Its settings that differ from the defaults.
    """

    label: str
    strategy: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunBudget:
    """The budget of a run: a number of evaluations, and a time that they must have taken.

    Attributes:
        evaluations: Number of evaluations; the strategy adapts its settings to it.
        seconds: Time on the simulated clock.
    """

    evaluations: int
    seconds: float = 0.0

    def is_spent(self, evaluations: int, seconds: float) -> bool:
        """Return whether both parts are spent, or the limit of evaluations is reached."""
        if evaluations < self.evaluations:
            return False
        return seconds >= self.seconds or evaluations >= _MAX_FACTOR * self.evaluations


@dataclass(frozen=True)
class RunJob:
    """One run to do: everything that decides its result.

    Attributes:
        source: The recorded space.
        contender: The strategy.
        seed: The run's only seed.
        budget: The end of the run.
        draw: Whether each value is drawn from the recorded repeats, and configurations may be evaluated again. If
            False, the recorded value is returned.
    """

    source: SpaceSource
    contender: Contender
    seed: int
    budget: RunBudget
    draw: bool = False

    @property
    def key(self) -> tuple[str, str, int]:
        """Space, label and seed, which identify the run within a comparison."""
        return self.source.name, self.contender.label, self.seed


@dataclass(frozen=True, eq=False)
class StrategyRun:
    """A finished run.

    Attributes:
        space: Name of the recorded space.
        label: Label of the contender.
        seed: The run's seed.
        rows: Rows of the table in order of evaluation, ``(k,)``; `OUTSIDE` for configurations that it lacks.
        cpu: CPU time of the strategy, in seconds.
        drawn: The drawn costs, ``(k,)``, or None without drawing; NaN for failures.
        penalised: Number of distinct infeasible candidates that the strategy had penalised itself before it proposed
            each row, ``(k,)``; None if it does not report it. They took no evaluation.
    """

    space: str
    label: str
    seed: int
    rows: Ints
    cpu: float
    drawn: Array | None = None
    penalised: Ints | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """Space, label and seed; the same as the key of its job."""
        return self.space, self.label, self.seed


def run_job(job: RunJob) -> StrategyRun:
    """Do one run, in any process."""
    return run_strategy(_read_cached(job.source), job)


_read_cached = cache(spaces.read_space)


def run_strategy(space: RecordedSpace, job: RunJob) -> StrategyRun:
    """Run a strategy on a recorded space until the budget is spent or the space is exhausted."""
    contender, budget, direction = job.contender, job.budget, job.source.direction
    optimizer = Optimizer(
        space.space,
        direction,
        job.seed,
        budget=budget.evaluations,
        strategy=Search(
            contender.strategy, contender.settings, noise="repeat" if job.draw else "none"
        ),
    )
    rows: list[int] = []
    values: list[float] = []
    penalised: list[int] = []
    clock, start = 0.0, time.process_time()
    while not budget.is_spent(len(rows), clock):
        try:
            trial = optimizer.suggest()
        except SpaceExhausted:
            break
        row = space.row(trial)
        outcome = _look_up(space, trial, row, job)
        optimizer.complete([outcome])
        rows.append(row)
        values.append(np.nan if outcome.value is None else outcome.value)
        if isinstance(trial.tag, Mapping) and "penalised" in trial.tag:
            penalised.append(trial.tag["penalised"])
        clock += float(np.nan_to_num(space.seconds[row]))
    seconds, all_rows = time.process_time() - start, np.array(rows, dtype=np.int64)
    drawn = sign_of(direction) * np.array(values) if job.draw else None
    counts = np.array(penalised) if any(penalised) and len(penalised) == len(rows) else None
    return StrategyRun(*job.key, all_rows, seconds, drawn, counts)


def _look_up(space: RecordedSpace, trial: Trial, row: int, job: RunJob) -> Outcome:
    if row == OUTSIDE:
        return Outcome.failure(trial.id, "constraints", "not in the recorded table")
    entry = space.entries[row]
    if entry.value is None:
        return Outcome.failure(trial.id, entry.failed or "runtime", entry.message)
    if not (job.draw and entry.repeats):
        return Outcome.success(trial.id, (entry.value,))
    repeat = generator(job.seed, Purpose.EVALUATE, trial.id).integers(len(entry.repeats))
    return Outcome.success(trial.id, (entry.repeats[int(repeat)],))
