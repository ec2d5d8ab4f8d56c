"""Recorded results as a table: every configuration with its value or its failure.

The formats are those of `baco_like.results.formats`: T4, Kernel Tuner's caches, KTT, CSV, and our journals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from baco_like.exceptions import EvaluatorError, JournalError, RunFileError
from baco_like.records.direction import Direction
from baco_like.records.reading import finite_number
from baco_like.records.trial import Outcome, median
from baco_like.results.formats import Recording, read

_EXACT = 2**53


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
        metrics: Further named numbers that were measured.
    """

    value: float | None
    repeats: tuple[float, ...] = ()
    failed: str | None = None
    message: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    bound: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """A recorded table.

    Attributes:
        names: The parameters.
        domains: Per parameter its values; what a space can be built from.
        entries: What was recorded, by the values in the order of ``names``.
        objective: What was measured.
        unit: Its unit, or an empty text where the file does not say.
        direction: Whether it was minimised or maximised, or None where the file does not say.
    """

    names: tuple[str, ...]
    domains: Mapping[str, tuple[Any, ...]]
    entries: Mapping[tuple[Any, ...], Entry]
    objective: str
    unit: str
    direction: Direction | None = None

    @classmethod
    def of(cls, found: Recording) -> Recorded:
        """Return the table of a recording.

        The values of a configuration that stands there several times are repeats, of which the median counts; where it
        failed once the last result counts.
        """
        entries: dict[tuple[Any, ...], Entry] = {}
        for row, outcome in zip(found.rows, found.outcomes, strict=True):
            entry = entry_of(outcome)
            entries[row] = _merged(entries[row], entry) if row in entries else entry
        return cls(
            found.names, found.domains, entries, found.objective, found.unit, found.direction
        )

    def entry(self, config: Mapping[str, Any]) -> Entry | None:
        """Return what was recorded of a configuration, or None.

        Where the file has texts (tables in CSV, KTT's T4), a text that is how a value is written stands for it.
        """
        row = tuple(config[name] for name in self.names)
        found = self.entries.get(row)
        return found if found is not None else self._by_text.get(tuple(map(_text, row)))

    @cached_property
    def _by_text(self) -> Mapping[tuple[str, ...], Entry]:
        return {tuple(map(_text, row)): entry for row, entry in self.entries.items()}

    def measured(self, config: Mapping[str, Any]) -> bool:
        """Whether the table has this configuration; usable as a constraint of a space."""
        return self.entry(config) is not None


def load(path: str | Path, objective: str | None = None) -> Recorded:
    """Read a recorded table.

    Args:
        path: The file, of any of the formats.
        objective: Name of the measurement that counts; None is the one that the file names.

    Raises:
        EvaluatorError: The file cannot be read, is none of the formats, or has no such measurement.
    """
    try:
        return Recorded.of(read(path, objective))
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
        outcome.metrics,
    )


def _merged(one: Entry, other: Entry) -> Entry:
    """Return what two measurements of one configuration say; the times are those of the later one."""
    if one.value is None or other.value is None:
        return other
    repeats = (one.repeats or (one.value,)) + (other.repeats or (other.value,))
    return replace(other, value=median(repeats), repeats=repeats)


def readings(value: Any) -> tuple[Any, ...]:
    """Return what a recorded value may stand for: itself, and for a text also the number or truth value."""
    number = _float(value) if isinstance(value, str) else None
    whole = int(number) if number is not None and number.is_integer() else number
    flag = {"true": True, "false": False}.get(str(value).casefold())
    return (value, *(one for one in (number, whole, flag) if one is not None), str(value))


def _text(value: Any) -> str:
    """Return how a value is written, the same for 1, 1.0 and "1"."""
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    text = str(value).strip()
    number = finite_number(_float(text))
    if number is not None and not isinstance(value, bool):
        return str(int(number)) if number.is_integer() and abs(number) < _EXACT else repr(number)
    return text.casefold() if text.casefold() in ("true", "false") else text.strip("()[]")


def _float(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None
