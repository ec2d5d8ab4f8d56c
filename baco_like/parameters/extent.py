"""Type and bounds of the array that a parameter shows to known constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from baco_like.parameters.values import EXACT, INT64, is_number


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
    types = {type(value) for value in values}
    if types == {bool}:
        return Extent(ColumnKind.BOOL, int(min(values)), int(max(values)))
    if types == {str}:
        return Extent(ColumnKind.STRING)
    if not all(map(is_number, values)):
        return Extent(ColumnKind.OBJECT)
    low, high = min(values), max(values)
    if types == {float}:
        return Extent(ColumnKind.FLOAT, low, high)
    kind, limit = (ColumnKind.INT, INT64) if types == {int} else (ColumnKind.NUMBER, EXACT)
    exact = all(abs(value) <= limit for value in values if isinstance(value, int))
    return Extent(kind if exact else ColumnKind.OBJECT, low, high)
