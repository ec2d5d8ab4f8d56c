"""Plain Python values: which ones a domain may contain, and how a given value is looked up in it.

A value is an int, a finite float, a str or a bool; that of a categorical parameter may also be None or a tuple.
``1``, ``1.0`` and ``True`` are three values; when a configuration is read, a number also finds the one domain number
that equals it (``2.0`` finds ``2``), because tables and JSON files of other tools lose the difference. A bool never
matches a number.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from baco_like._checks import as_tuple as as_tuple
from baco_like._checks import plain as plain
from baco_like._typing import Codes, Ints
from baco_like.exceptions import SpaceError

Value: TypeAlias = int | float | str | bool
Category: TypeAlias = Value | tuple[Any, ...] | None

INT64 = 2**63 - 1
"""The greatest 64-bit integer."""

_PLAIN = {int, float, str, bool, type(None)}

_NUMBERS = {int, float}

_NO_KEY = object()

_MOST_SHOWN = 8
"""Most values of a list that a message shows."""

_DEEPEST = 8
"""Most tuples inside each other that a category may have."""

EXACT = 2**53
"""Up to here every whole number is a double."""


def value_key(value: Any) -> Any:
    """Return a key that distinguishes 1, 1.0 and True, also inside tuples."""
    return _kind_of(value), value


def _kind_of(value: Any) -> Any:
    """Return the type of a value, and of a tuple those of its parts."""
    if type(value) is not tuple:
        return type(value)
    kinds = tuple(map(type, value))
    return tuple(map(_kind_of, value)) if tuple in kinds else kinds


def value_keys(values: Sequence[Any]) -> Sequence[Any]:
    """Return the `value_key` of each value, or the values themselves where all are of one kind."""
    return values if len(_kinds_in(values) or ()) == 1 else _pairs(values)


def _pairs(values: Sequence[Any]) -> Sequence[Any]:
    if tuple in set(map(type, values)):
        return list(map(value_key, values))
    return list(zip(map(type, values), values, strict=True))


def _kinds_in(values: Sequence[Any]) -> set[Any] | None:
    """Return the kinds of some values in fast passes; None if tuples are of several kinds."""
    types = set(map(type, values))
    if tuple not in types:
        return types
    if len(types) > 1 or len(set(map(len, values))) > 1:
        return None
    kinds: list[Any] = []
    for part in zip(*values, strict=True):
        found = _kinds_in(part) or ()
        if len(found) != 1:
            return None
        kinds += found
    return {tuple(kinds)}


def as_array(values: Sequence[Any]) -> NDArray[Any] | None:
    """Return floats, or integers of 64 bits, as an array; None if there are other values."""
    kinds = set(map(type, values))
    if kinds not in ({int}, {float}):
        return None
    try:
        return np.fromiter(values, np.int64 if kinds == {int} else np.float64, len(values))
    except OverflowError:
        return None


def as_doubles(values: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return ints and floats as an array if each is a double exactly; None otherwise."""
    if not are_numbers(values):
        return None
    try:
        numbers = np.fromiter(values, np.float64, len(values))
    except OverflowError:
        return None
    return numbers if (np.abs(numbers) < EXACT).all() else None


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether it is an int or a float, and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all of some plain values are ints or floats."""
    return set(map(type, values)) <= {int, float}


def domain_values(
    values: Iterable[Any], what: str = "values", *, are_categories: bool = False
) -> tuple[Any, ...]:
    """Return the checked plain values of a finite domain, in the order given; the values of a set are sorted.

    Raises:
        SpaceError: The list is empty, ``values`` is not a list, or a value is not an int, finite float, str or bool;
            with ``are_categories`` it may be None or a tuple of these, too.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        hint = f"; for its letters: list({values!r:.40})" if isinstance(values, str) else ""
        raise SpaceError(f"{what} must be a list, got {values!r}{hint}")
    plain_values = make_plain(in_order(values))
    if not plain_values:
        raise SpaceError(f"the domain is empty; give at least one of its {what}")
    if not _are_valid(plain_values, are_categories):
        for value in plain_values:
            _check_value(value, are_categories)
    return plain_values


def _are_valid(values: Sequence[Any], are_categories: bool) -> bool:
    """Whether fast passes can tell that all of some values are valid: there may be millions."""
    values = _without_tuples(values) if are_categories else values
    return (
        set(map(type, values)) <= (_PLAIN if are_categories else _PLAIN - {type(None)})
        and all(map(math.isfinite, [value for value in values if type(value) is float]))
        and all(map(str.isascii, [value for value in values if type(value) is str]))
    )


def _without_tuples(values: Sequence[Any]) -> Sequence[Any]:
    """Return some values with the parts of tuples in place of the tuples, unless they are nested too deep."""
    for _ in range(_DEEPEST):
        types = set(map(type, values))
        if tuple not in types:
            break
        rest = [value for value in values if type(value) is not tuple] if len(types) > 1 else []
        tuples = [value for value in values if type(value) is tuple] if rest else values
        values = rest + list(chain.from_iterable(tuples))
    return values


def make_plain(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return Python's own values for those of NumPy, and tuples for lists."""
    given = tuple(values)
    is_plain = set(map(type, _without_tuples(given))) <= _PLAIN
    return given if is_plain else tuple(map(as_tuple, given))


def in_order(values: Iterable[Any]) -> Iterable[Any]:
    """Return values in the order given, and the values of a set sorted: sets iterate differently in each process."""
    if not isinstance(values, AbstractSet):
        return values
    comparable = {v: v if isinstance(v, int | float | str) else str(v) for v in values}
    return sorted(values, key=lambda value: (type(value).__name__, comparable[value]))


def _check_value(value: Any, is_category: bool, depth: int = 0) -> None:
    if is_category and isinstance(value, tuple):
        if depth == _DEEPEST:
            raise SpaceError(f"a value nests more than {_DEEPEST} tuples; write it as text")
        for part in value:
            _check_value(part, is_category, depth + 1)
    elif not (isinstance(value, int | float | str) or (is_category and value is None)):
        way = "write a text, such as 'none'" if value is None else "write it as text"
        raise SpaceError(
            f"value {value!r} is a {type(value).__name__}; only int, float, str and bool can be values, and None and "
            f"tuples those of a categorical parameter: {way}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise SpaceError(f"value {value!r} is not finite; leave it out")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise SpaceError(f"value {value!r} cannot be written as UTF-8; rename it") from None


def number(value: Any, what: str) -> int | float:
    """Return a plain finite number.

    Raises:
        SpaceError: The value is not a finite number; the message calls it ``what``.
    """
    value = plain(value)
    if not is_number(value):
        raise SpaceError(f"{what} must be a number, got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise SpaceError(f"{what} must be finite, got {value!r}")
    result: int | float = value
    return result


def real_number(value: Any, what: str) -> float:
    """Return a finite float.

    Raises:
        SpaceError: The value is not a finite number, or exceeds the largest double; the message calls it ``what``.
    """
    try:
        return float(number(value, what))
    except OverflowError:
        raise SpaceError(f"{what} is too large: beyond the largest double") from None


class Lookup:
    """From value to index, by type and value first and by number second.

    A value is its own key where equal ones are the same value; else there would be millions of pairs.

    Args:
        values: The values in the order of their indices.

    Raises:
        SpaceError: A value occurs twice.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        kinds = _kinds_in(values) or set()
        # Kinds of the values that are their own keys.
        self._kinds: set[Any] = kinds if len(kinds) == 1 or kinds == _NUMBERS else set()
        if self._kinds == _NUMBERS and len(set(values)) < len(values):  # such as 1 and 1.0
            self._kinds = set()
        keys = values if self._kinds else _pairs(values)
        self._exact: dict[Any, int] = dict(zip(keys, range(len(keys)), strict=True))
        if len(self._exact) < len(keys):
            twice = next(v for i, v in enumerate(values) if self._exact[keys[i]] != i)
            raise SpaceError(f"value {twice!r} occurs twice; remove one of them")

    def _keys(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the key of each value; where listed values are their own keys, those of other kinds have none."""
        if not self._kinds:
            return _pairs(values)
        if (_kinds_in(values) or {None}) <= self._kinds:
            return values
        return [value if _kind_of(value) in self._kinds else _NO_KEY for value in values]

    @cached_property
    def _numbers(self) -> dict[int | float, int]:
        if self._kinds:
            return self._exact if self._kinds <= _NUMBERS else {}
        known = self._exact.items()
        return {value: index for (kind, value), index in known if kind in (int, float)}

    def find_all(self, values: Sequence[Any]) -> list[int | None]:
        """Return the index of each value, or None."""
        try:
            found = list(map(self._exact.get, self._keys(values)))
        except TypeError:  # not hashable
            found = [None] * len(values)
        if None not in found:
            return found
        return [self.find(v) if i is None else i for v, i in zip(values, found, strict=True)]

    def find(self, value: Any) -> int | None:
        """Return the index of a value, or None if it is not in the domain."""
        value = as_tuple(value)
        try:
            index = self._exact.get(*self._keys((value,)))
        except TypeError:  # not hashable
            return None
        return self._numbers.get(value) if index is None and is_number(value) else index


def shorten(values: Sequence[Any]) -> str:
    """Return values for a message; long lists are shortened in the middle."""
    if len(values) <= _MOST_SHOWN:
        return "[" + ", ".join(map(repr, values)) + "]"
    start = ", ".join(map(repr, values[: _MOST_SHOWN - 2]))
    return f"[{start}, ..., {values[-1]!r}] ({len(values)} values)"


def text_readings(given: Any) -> list[Any]:
    """Return the Python values that a cell of a table or a JSON value may mean, the most literal one first.

    ``"16.0"`` may be the text, the float or, because numbers are compared by value, the integer 16; ``"True"`` may be
    the text or the bool. Digits joined by underscores stay text.
    """
    if not isinstance(given, str):
        return [] if given is None else [given, str(given)]
    text = given.strip()
    readings: list[Any] = [given, text]
    if text.lower() in ("true", "false"):
        readings.append(text.lower() == "true")
    for number_type in (int, float):
        if "_" not in text:
            with contextlib.suppress(ValueError):
                readings.append(number_type(text))
    return readings


def indices(codes: Codes) -> Ints:
    """Return the first code column as integers, ``(n, 1)`` -> ``(n,)``."""
    return codes[:, 0].astype(np.int64)


# Columns of values --------------------------------------------------------------------------------------------------
#
# Type and bounds of the array that a parameter shows to known constraints.


class ColumnKind(Enum):
    """The type of a column's values."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    NUMBER = "number"
    """Ints and floats mixed, in an array of doubles that holds each exactly."""
    STRING = "string"
    OBJECT = "object"
    """Python objects: types mixed, or integers beyond 64 bits."""


@dataclass(frozen=True)
class Extent:
    """Kind and bounds of a column; the bounds are Python numbers, 0 if the values are not numbers."""

    kind: ColumnKind
    low: int | float = 0
    high: int | float = 0

    @property
    def most(self) -> int | float:
        """The greatest absolute value."""
        return max(abs(self.low), abs(self.high))


def extent_of(values: Sequence[Any]) -> Extent:
    """Return the extent of listed values."""
    types = set(map(type, values))
    if types == {bool}:
        return Extent(ColumnKind.BOOL, int(min(values)), int(max(values)))
    if types == {str}:
        return Extent(ColumnKind.STRING)
    if not types <= {int, float}:
        return Extent(ColumnKind.OBJECT)
    low, high = min(values), max(values)
    if types == {float}:
        return Extent(ColumnKind.FLOAT, low, high)
    kind, limit = (ColumnKind.INT, INT64) if types == {int} else (ColumnKind.NUMBER, EXACT)
    largest = max(abs(low), abs(high))
    if kind is ColumnKind.NUMBER and largest > limit:  # it may be a float
        largest = max(abs(value) for value in values if type(value) is int)
    return Extent(kind if largest <= limit else ColumnKind.OBJECT, low, high)
