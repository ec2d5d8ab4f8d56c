"""Reading one table of a TOML file: known keys, values of the right type, messages that help."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.records.reading import finite_number

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Table:
    """A table of a TOML file with the name under which messages speak of it.

    Attributes:
        name: As written in the file, without brackets: ``evaluator``, ``space.tile``.
        entries: What it holds.
    """

    name: str
    entries: Mapping[str, Any]

    def has(self, key: str) -> bool:
        """Whether the file gives this key."""
        return key in self.entries

    def only(self, keys: Iterable[str]) -> None:
        """Raise `RunFileError` if there is a key that is not one of ``keys``."""
        known = list(keys)
        for key in self.entries:
            if key not in known:
                raise RunFileError(f"[{self.name}] has no key {key!r}; {suggestion(key, known)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty; without a default the key is needed."""
        value = self._value(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, value, "a text")
        return value

    def choice(self, key: str, options: Iterable[str], default: str | None = None) -> str:
        """Return one of several words."""
        known = list(options)
        value = self._value(key, default)
        if value not in known or not isinstance(value, str):
            raise RunFileError(f"{self.at(key)} = {shown(value)}; {suggestion(value, known)}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return an integer."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, value, "a whole number")
        return value

    def whole(self, key: str, default: int | None = None, low: int = 0) -> int:
        """Return an integer that is at least ``low``."""
        value = self.integer(key, default)
        if value < low:
            raise self.wrong(key, value, f"a whole number, {low} or more")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number."""
        value = self._value(key, default)
        number = finite_number(value) if isinstance(value, (int, float)) else None
        if number is None:
            raise self.wrong(key, value, "a finite number")
        return number

    def positive(self, key: str, default: float | None = None) -> float:
        """Return a finite number above 0."""
        number = self.number(key, default)
        if number <= 0:
            raise self.wrong(key, number, "a number above 0")
        return number

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a truth value."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, value, "true or false")
        return value

    def array(self, key: str, default: list[Any] | None = None) -> list[Any]:
        """Return an array."""
        value = self._value(key, default)
        if not isinstance(value, list):
            raise self.wrong(key, value, "an array")
        return value

    def texts(self, key: str, default: list[str] | None = None) -> list[str]:
        """Return an array of texts."""
        values = self.array(key, default)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(key, values, "an array of texts")
        return values

    def table(self, key: str) -> Table:
        """Return a table within this one; empty if the file does not give it."""
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, value, "a table")
        return Table(f"{self.name}.{key}" if self.name else key, value)

    def bytes(self, key: str) -> int:
        """Return a number of bytes, as written by `memory_size`."""
        value = self._value(key, None)
        size = memory_size(value)
        if size is None:
            raise self.wrong(key, value, 'a size such as "512MiB" or "2GiB"')
        return size

    def wrong(self, key: str, value: Any, wanted: str) -> RunFileError:
        """Return the error that says what should stand at a key."""
        return RunFileError(f"{self.at(key)} = {shown(value)}: expected {wanted}")

    def at(self, key: str) -> str:
        """Return how messages call a key."""
        return f"[{self.name}] {key}" if self.name else key

    def _value(self, key: str, default: Any) -> Any:
        value = self.entries.get(key, default)
        if value is None:
            raise RunFileError(f"[{self.name}] needs the key {key!r}")
        return value


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return the mend for an unknown word: the closest known one, else all of them."""
    names = list(known)
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(word)[:100].lower(), lower, n=1)
    return f"did you mean {lower[close[0]]!r}?" if close else f"one of {', '.join(names)}"


def shown(value: Any) -> str:
    """Return a value in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def memory_size(value: Any) -> int | None:
    """Return a size in bytes, or None where ``value`` is no size.

    A size is a positive integer of bytes, or a text of a number and a unit: B, kB, MB, GB, TB
    (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024), whatever the case of the letters.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value > 0 else None
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]{0,3})\s*", str(value))
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(float(match[1]) * _UNITS[match[2].lower()]) or None


def per_second(unit: str) -> float | None:
    """Return how many of a unit of time make a second, or None if it is no unit of time."""
    return None if unit not in _SECONDS else round(1 / _SECONDS[unit])
