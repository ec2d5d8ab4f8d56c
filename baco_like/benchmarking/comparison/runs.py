"""One run of a strategy on a recorded space: the optimizer in a tight loop, answered by looking rows up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Ints
from baco_like.benchmarking.comparison.spaces import OUTSIDE, Place, RecordedSpace, read
from baco_like.exceptions import SpaceExhausted
from baco_like.optimizer import Optimizer
from baco_like.records.direction import sign_of
from baco_like.records.trial import Outcome, Trial
from baco_like.strategies import create_strategy

_LONGEST = 3
"""A run whose evaluations are cheaper than the average ends at the latest after so many times its evaluations."""


@dataclass(frozen=True)
class Contender:
    """A strategy that takes part.

    Attributes:
        label: What tables and plots call it.
        strategy: Its registered name.
        settings: Its own settings, where they are not the default.
    """

    label: str
    strategy: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Make the strategy once.

        Raises:
            ValueError: The name or a setting is wrong.
        """
        create_strategy(self.strategy, self.settings)


@dataclass(frozen=True)
class Budget:
    """When a run ends: after so many evaluations, and once they would have taken so many seconds.

    Attributes:
        evaluations: The strategy is told of these, and chooses its settings by them.
        seconds: On the simulated clock.
    """

    evaluations: int
    seconds: float = 0.0

    def spent(self, evaluations: int, seconds: float) -> bool:
        """Whether both are spent, or many times the evaluations."""
        if evaluations < self.evaluations:
            return False
        return seconds >= self.seconds or evaluations >= _LONGEST * self.evaluations


@dataclass(frozen=True)
class Job:
    """One run that is wanted; everything that its result depends on.

    Attributes:
        place: The recorded space.
        contender: The strategy.
        seed: The run's only seed.
        budget: When it ends.
        draw: Whether a value is one of the recorded repeats, drawn anew at each evaluation, and configurations may
            be evaluated again, instead of the recorded value.
    """

    place: Place
    contender: Contender
    seed: int
    budget: Budget
    draw: bool = False

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from the other runs of a comparison."""
        return self.place.name, self.contender.label, self.seed


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        space: Name of the recorded space.
        label: Of the contender.
        seed: The run's seed.
        rows: The table's rows in order of evaluation, ``(k,)``; `OUTSIDE` where it has none.
        cpu: Seconds of CPU that the strategy took.
        drawn: Costs that were drawn, ``(k,)``, where they were; NaN where an evaluation failed.
        penalised: How many distinct infeasible candidates the strategy had answered itself, with a penalty, when it
            proposed each row, ``(k,)``; None where it does not say. They took no evaluation.
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
        """That of its job."""
        return self.space, self.label, self.seed


def work(job: Job) -> Run:
    """Do one run, whatever the process."""
    return run(_recorded(job.place), job)


@cache
def _recorded(place: Place) -> RecordedSpace:
    return read(place)


def run(recorded: RecordedSpace, job: Job) -> Run:
    """Run a strategy on a recorded space until the budget is spent or the space exhausted."""
    contender, budget = job.contender, job.budget
    optimizer = Optimizer(
        recorded.space,
        job.place.direction,
        job.seed,
        budget=budget.evaluations,
        strategy=contender.strategy,
        settings=contender.settings,
        noise="repeat" if job.draw else "none",
    )
    rows: list[int] = []
    values: list[float] = []
    penalised: list[int] = []
    clock, begun = 0.0, time.process_time()
    while not budget.spent(len(rows), clock):
        try:
            trial = optimizer.suggest()
        except SpaceExhausted:
            break
        row = recorded.row(trial)
        outcome = _outcome(recorded, trial, row, job)
        optimizer.complete([outcome])
        rows.append(row)
        values.append(np.nan if outcome.value is None else outcome.value)
        if isinstance(trial.tag, Mapping) and "penalised" in trial.tag:
            penalised.append(trial.tag["penalised"])
        clock += float(np.nan_to_num(recorded.seconds[row]))
    cpu = time.process_time() - begun
    sign = sign_of(job.place.direction)
    return Run(
        *job.key,
        np.array(rows, dtype=np.int64),
        cpu,
        sign * np.array(values) if job.draw else None,
        np.array(penalised) if any(penalised) and len(penalised) == len(rows) else None,
    )


def _outcome(recorded: RecordedSpace, trial: Trial, row: int, job: Job) -> Outcome:
    if row == OUTSIDE:
        return Outcome.failure(trial.id, "constraints", "not in the recorded table")
    entry = recorded.entries[row]
    if entry.value is None:
        return Outcome.failure(trial.id, entry.failed or "runtime", entry.message)
    if not (job.draw and entry.repeats):
        return Outcome.success(trial.id, (entry.value,))
    which = generator(job.seed, Purpose.EVALUATE, trial.id).integers(len(entry.repeats))
    return Outcome.success(trial.id, (entry.repeats[int(which)],))
