"""A recorded table as a simulated device: strategies can be compared on it within seconds, without the hardware."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from baco_like._random import Purpose, generator
from baco_like.evaluators.recorded import Entry, Recorded, load, readings
from baco_like.evaluators.settings_table import Table, shown, suggestion
from baco_like.exceptions import EvaluatorError
from baco_like.records.history import History
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

__all__ = ["KEYS", "Entry", "MaxSimulatedTime", "Recorded", "ReplayEvaluator", "load"]

KEYS = ("kind", "file", "objective", "draw", "draw_seed", "capacity")


class ReplayEvaluator:
    """Answers trials from a recorded table, in the order in which a real device would have.

    A configuration that the table does not have is the failure ``constraints``: it was not measured
    because the space of the recording excluded it.

    Args:
        recorded: The table.
        draw_seed: With a seed, every value is drawn from the recorded repeats (by the seed and the
            trial's number); with None it is the recorded value, the same each time.
        capacity: How many trials may be in flight at once, each on a device of its own.

    Attributes:
        clock: Simulated seconds: when the latest of the returned trials ended. A trial takes as long as its stages
            (compile, run, check) did; it begins when it is submitted, or when a device is free.
    """

    def __init__(
        self, recorded: Recorded, *, draw_seed: int | None = None, capacity: int = 1
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be a whole number from 1, not {capacity!r}")
        self.clock = 0.0
        self._recorded = recorded
        self._draw_seed = draw_seed
        self._free = [0.0] * capacity
        self._running: list[tuple[float, int, Outcome]] = []
        self._submitted = 0

    @classmethod
    def from_table(cls, table: Table, space: Space, unit: str, folder: Path) -> ReplayEvaluator:
        """Make it from the ``[evaluator]`` table of a TOML file.

        Args:
            table: Keys as in `KEYS`; ``file`` is a path relative to ``folder``, of any format that
                `baco_like.results.formats` reads; ``objective`` names the measurement that counts.
            space: It has the table's parameters.
            unit: The objective's unit; not used.
            folder: Where the TOML file stands.

        Raises:
            RunFileError: A key is unknown, missing or wrong.
            EvaluatorError: The table cannot be read, or has other parameters or values than the space.
        """
        table.only(KEYS)
        objective = table.text("objective") if table.has("objective") else None
        recorded = load(folder / table.text("file"), objective)
        _check_names(recorded, space)
        _check_values(recorded, space)
        return cls(
            recorded,
            draw_seed=table.whole("draw_seed", 0) if table.flag("draw", False) else None,
            capacity=table.whole("capacity", 1, low=1),
        )

    @property
    def capacity(self) -> int:
        """How many trials may be in flight at once."""
        return len(self._free)

    def submit(self, trial: Trial) -> None:
        """Start a trial on the device that is free first."""
        outcome, seconds = self._outcome(trial)
        begins = max(heapq.heappop(self._free), self.clock)
        heapq.heappush(self._free, begins + seconds)
        heapq.heappush(self._running, (begins + seconds, self._submitted, outcome))
        self._submitted += 1

    def wait(self) -> Sequence[Outcome]:
        """Return the outcome of the trial that ends next.

        Raises:
            EvaluatorError: No trial was submitted.
        """
        if not self._running:
            raise EvaluatorError("wait() without a submitted trial")
        self.clock, _, outcome = heapq.heappop(self._running)
        return [outcome]

    def close(self) -> None:
        """Forget what is running."""
        self._running.clear()
        self._free = [self.clock] * len(self._free)

    def _outcome(self, trial: Trial) -> tuple[Outcome, float]:
        """Return what comes of a trial, and after how many seconds."""
        entry = self._recorded.entry(trial)
        if entry is None:
            return Outcome.failure(trial.id, "constraints", "not in the recorded table"), 0.0
        seconds = sum(entry.seconds.values())
        extra = {"seconds": dict(entry.seconds)}
        if entry.value is not None:
            value = (self._value(trial.id, entry),)
            return Outcome.success(trial.id, value, metrics=entry.metrics, extra=extra), seconds
        word, message = entry.failed or "runtime", entry.message
        if entry.bound is not None:
            return Outcome.censored(trial.id, entry.bound, word, message, extra=extra), seconds
        return Outcome.failure(trial.id, word, message, extra=extra), seconds

    def _value(self, trial_id: int, entry: Entry) -> float:
        if self._draw_seed is None or not entry.repeats:
            assert entry.value is not None
            return entry.value
        rng = generator(self._draw_seed, Purpose.EVALUATE, trial_id)
        return entry.repeats[int(rng.integers(len(entry.repeats)))]


@final
@dataclass(frozen=True)
class MaxSimulatedTime:
    """A stopping rule: end when a replayed device's clock has reached so many seconds.

    It stands on the right of ``|`` and ``&``: ``MaxEvals(100) | MaxSimulatedTime(device, 600)``.
    """

    evaluator: ReplayEvaluator
    seconds: float

    def reason(self, history: History, seconds: float) -> str | None:
        """Return why the run is over, or None while it is not."""
        return (
            f"{self.seconds:g} simulated seconds" if self.evaluator.clock >= self.seconds else None
        )

    def room(self, history: History) -> int | None:
        """Return None: this rule sets no number of trials."""
        return None


def _check_names(recorded: Recorded, space: Space) -> None:
    names = tuple(space.parameters)
    for name in names:
        if name not in recorded.names:
            mend = suggestion(name, recorded.names)
            raise EvaluatorError(f"the recorded table has no parameter {name!r}; {mend}")
    for name in recorded.names:
        if name not in names:
            raise EvaluatorError(
                f"the space has no parameter {name!r}, which the recorded table has"
            )


def _check_values(recorded: Recorded, space: Space) -> None:
    """Refuse a table that no configuration of the space can be in."""
    for name, parameter in space.parameters.items():
        values = recorded.domains[name]
        if not any(parameter.contains(read) for value in values for read in readings(value)):
            raise EvaluatorError(
                f"parameter {name!r}: none of the recorded values {shown(list(values))} is one of the space's"
            )
