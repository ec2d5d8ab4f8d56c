"""Recorded results as a table: every configuration with its value or its failure.

The formats are those of `baco_like.storage.recordings`: T4, Kernel Tuner's caches, KTT, CSV, and our journals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baco_like.exceptions import EvaluatorError, JournalError, RunFileError
from baco_like.records.trial import Outcome
from baco_like.storage.recordings import Recording, read


@dataclass(frozen=True)
class Entry:
    """What was recorded of one configuration.

    Attributes:
        value: The objective, or None if it failed.
        repeats: Single measurements, where the file has them.
        failed: The failure word, or None.
        message: What the file says of the failure.
        seconds: How long each stage took (compile, run, check), as far as the file says.
        bound: Where it was stopped: the value is at least this; else None.
    """

    value: float | None
    repeats: tuple[float, ...] = ()
    failed: str | None = None
    message: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    bound: float | None = None


@dataclass(frozen=True)
class Recorded:
    """A recorded table.

    Attributes:
        names: The parameters.
        domains: Per parameter its values; what a space can be built from.
        entries: What was recorded, by the values in the order of ``names``.
        objective: What was measured.
        unit: Its unit, or an empty text where the file does not say.
    """

    names: tuple[str, ...]
    domains: Mapping[str, tuple[Any, ...]]
    entries: Mapping[tuple[Any, ...], Entry]
    objective: str
    unit: str

    @classmethod
    def of(cls, found: Recording) -> Recorded:
        """Return the table of a recording; a configuration that stands there twice has its last result."""
        entries = {
            row: entry_of(outcome) for row, outcome in zip(found.rows, found.outcomes, strict=True)
        }
        return cls(found.names, found.domains, entries, found.objective, found.unit)

    def entry(self, config: Mapping[str, Any]) -> Entry | None:
        """Return what was recorded of a configuration, or None."""
        return self.entries.get(tuple(config[name] for name in self.names))

    def measured(self, config: Mapping[str, Any]) -> bool:
        """Whether the table has this configuration; usable as a constraint of a space."""
        return self.entry(config) is not None


def load(path: str | Path) -> Recorded:
    """Read a recorded table.

    Raises:
        EvaluatorError: The file cannot be read, or is none of the formats.
    """
    try:
        return Recorded.of(read(path))
    except (RunFileError, JournalError) as error:
        raise EvaluatorError(str(error)) from None


def entry_of(outcome: Outcome) -> Entry:
    """Return an outcome as an entry of a table."""
    seconds = outcome.extra.get("seconds", {})
    return Entry(
        outcome.value,
        outcome.repeats,
        outcome.failed,
        outcome.message,
        seconds if isinstance(seconds, Mapping) else {},
        outcome.bound,
    )
