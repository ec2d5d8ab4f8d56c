"""Read one table of a TOML file: known keys, values of the right type, helpful messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from baco_like._checks import is_whole
from baco_like.exceptions import RunFileError
from baco_like.records.reading import finite_number

_BYTES = {"": 1, "b": 1}
_BYTES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_BYTES |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}


@dataclass(frozen=True)
class Table:
    """A table of a TOML file.

    Attributes:
        name: As written in the file, without brackets: ``evaluator``, ``space.tile``.
        entries: Its keys and values.
    """

    name: str
    entries: Mapping[str, Any]

    def has(self, key: str) -> bool:
        """Whether the file gives this key."""
        return key in self.entries

    def only(self, keys: Iterable[str]) -> None:
        """Raise `RunFileError` if the table has a key that is not in ``keys``."""
        known = list(keys)
        for key in self.entries:
            if key not in known:
                raise RunFileError(f"[{self.name}] has no key {key!r}; {suggestion(key, known)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a non-empty text; without a default the key is required."""
        value = self._value(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, value, "a text")
        return value

    def choice(self, key: str, options: Iterable[str], default: str | None = None) -> str:
        """Return one of the options."""
        known = list(options)
        value = self._value(key, default)
        if value not in known or not isinstance(value, str):
            raise RunFileError(f"{self.label(key)} = {shown(value)}; {suggestion(value, known)}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return an integer."""
        value = self._value(key, default)
        if not is_whole(value):
            raise self.error(key, value, "a whole number")
        return int(value)

    def whole(self, key: str, default: int | None = None, low: int = 0) -> int:
        """Return an integer that is at least ``low``."""
        value = self.integer(key, default)
        if value < low:
            raise self.error(key, value, f"a whole number, {low} or more")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number."""
        value = self._value(key, default)
        number = finite_number(value) if isinstance(value, (int, float)) else None
        if number is None:
            raise self.error(key, value, "a finite number")
        return number

    def positive(self, key: str, default: float | None = None) -> float:
        """Return a finite number above 0."""
        number = self.number(key, default)
        if number <= 0:
            raise self.error(key, number, "a number above 0")
        return number

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.error(key, value, "true or false")
        return value

    def array(self, key: str, default: list[Any] | None = None) -> list[Any]:
        """Return an array."""
        value = self._value(key, default)
        if not isinstance(value, list):
            raise self.error(key, value, "an array")
        return value

    def texts(self, key: str, default: list[str] | None = None) -> list[str]:
        """Return an array of texts."""
        values = self.array(key, default)
        if not all(isinstance(value, str) for value in values):
            raise self.error(key, values, "an array of texts")
        return values

    def table(self, key: str) -> Table:
        """Return a table within this one; an empty table if the key is absent."""
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, value, "a table")
        return Table(f"{self.name}.{key}" if self.name else key, value)

    def bytes(self, key: str) -> int:
        """Return a number of bytes, written as `memory_size` describes."""
        value = self._value(key, None)
        size = memory_size(value)
        if size is None:
            raise self.error(key, value, 'a size such as "512MiB" or "2GiB"')
        return size

    def error(self, key: str, value: Any, expected: str) -> RunFileError:
        """Return the error for a wrong value, for the caller to raise."""
        return RunFileError(f"{self.label(key)} = {shown(value)}: expected {expected}")

    def label(self, key: str) -> str:
        """Return the key with its table, for messages: ``[evaluator] size``."""
        return f"[{self.name}] {key}" if self.name else key

    def _value(self, key: str, default: Any) -> Any:
        value = self.entries.get(key, default)
        if value is None:
            raise RunFileError(f"[{self.name}] needs the key {key!r}")
        return value


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return a hint for an unknown word: the closest known word, otherwise all of them."""
    names = list(known)
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(word)[:100].lower(), lower, n=1)
    return f"did you mean {lower[close[0]]!r}?" if close else f"one of {', '.join(names)}"


def shown(value: Any) -> str:
    """Return a value in one line of at most 80 characters, for messages."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def memory_size(value: Any) -> int | None:
    """Return a size in bytes, or None if ``value`` is not a size.

    A size is a positive integer (bytes), or a text of a number and a unit: B, kB, MB, GB, TB (powers of 1000), KiB,
    MiB, GiB, TiB (powers of 1024), in upper or lower case.
    """
    if is_whole(value):
        return int(value) if value > 0 else None
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]{0,3})\s*", str(value))
    if match is None or match[2].lower() not in _BYTES:
        return None
    return int(float(match[1]) * _BYTES[match[2].lower()]) or None


def per_second(unit: str) -> float | None:
    """Return how many of a unit of time make a second, or None for any other unit."""
    return _PER_SECOND.get(unit)


def time_scale(table: Table, unit: str) -> float:
    """Return how many of the objective's unit make a second.

    Raises:
        RunFileError: The unit is not one of time; the message names the table's ``kind``.
    """
    scale = per_second(unit)
    if scale is None:
        raise RunFileError(
            f"[{table.name}] kind {table.text('kind')!r} measures time, not {unit!r}; "
            'write unit = "ms" (s, ms, us or ns) into [objective]'
        )
    return scale
