"""A recorded table as a simulated device: strategies can be compared on it within seconds, without the hardware."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from baco_like._random import Purpose, generator
from baco_like.evaluators.recorded import Entry, Recorded, load
from baco_like.evaluators.table import Table, suggestion
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

__all__ = ["KEYS", "Entry", "Recorded", "ReplayEvaluator", "load"]

KEYS = ("kind", "file", "draw", "draw_seed", "capacity")


class ReplayEvaluator:
    """Answers trials from a recorded table.

    A configuration that the table does not have is the failure ``constraints``: it was not measured
    because the space of the recording excluded it.

    Args:
        recorded: The table.
        draw_seed: With a seed, every value is drawn from the recorded repeats (by the seed and the
            trial's number); with None it is the recorded value, the same each time.
        capacity: How many trials may be in flight at once.

    Attributes:
        clock: Seconds that the evaluations so far would have taken, as recorded.
    """

    def __init__(
        self, recorded: Recorded, *, draw_seed: int | None = None, capacity: int = 1
    ) -> None:
        self.clock = 0.0
        self._recorded = recorded
        self._draw_seed = draw_seed
        self._capacity = capacity
        self._queue: deque[Trial] = deque()

    @classmethod
    def from_table(cls, table: Table, space: Space, unit: str, folder: Path) -> ReplayEvaluator:
        """Make it from the ``[evaluator]`` table of a TOML file.

        Args:
            table: Keys as in `KEYS`; ``file`` is a path relative to ``folder``.
            space: It has the table's parameters.
            unit: The objective's unit; not used.
            folder: Where the TOML file stands.

        Raises:
            RunFileError: A key is unknown, missing or wrong.
            EvaluatorError: The table cannot be read or has other parameters than the space.
        """
        table.only(KEYS)
        recorded = load(folder / table.text("file"))
        _check_names(recorded, space)
        return cls(
            recorded,
            draw_seed=table.whole("draw_seed", 0) if table.flag("draw", False) else None,
            capacity=table.whole("capacity", 1, low=1),
        )

    @property
    def capacity(self) -> int:
        """How many trials may be in flight at once."""
        return self._capacity

    def submit(self, trial: Trial) -> None:
        """Queue a trial."""
        self._queue.append(trial)

    def wait(self) -> Sequence[Outcome]:
        """Return the outcome of the trial that has waited longest.

        Raises:
            EvaluatorError: No trial was submitted.
        """
        if not self._queue:
            raise EvaluatorError("wait() without a submitted trial")
        trial = self._queue.popleft()
        entry = self._recorded.entry(trial)
        if entry is None:
            return [Outcome.failure(trial.id, "constraints", "not in the recorded table")]
        self.clock += sum(entry.seconds.values())
        extra = {"seconds": dict(entry.seconds)}
        if entry.value is None:
            word = entry.failed or "runtime"
            return [Outcome.failure(trial.id, word, entry.message, extra=extra)]
        return [Outcome.success(trial.id, (self._value(trial.id, entry),), extra=extra)]

    def close(self) -> None:
        """Forget what is queued."""
        self._queue.clear()

    def _value(self, trial_id: int, entry: Entry) -> float:
        if self._draw_seed is None or not entry.repeats:
            assert entry.value is not None
            return entry.value
        rng = generator(self._draw_seed, Purpose.EVALUATE, trial_id)
        return entry.repeats[int(rng.integers(len(entry.repeats)))]


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
