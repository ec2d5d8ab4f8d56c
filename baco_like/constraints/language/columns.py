"""What a parameter's column holds: its kind and bounds for whole columns, its plain values for single rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from baco_like._typing import Column
from baco_like.constraints.language.exact import Arrangement
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.parameters.values import is_number

EXACT = 2**53
"""Up to here every whole number is a double."""

INT64 = 2**63 - 1


class Kind(Enum):
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
    """Kind and bounds of values; the bounds are Python numbers, 0 where there are none."""

    kind: Kind
    low: int | float = 0
    high: int | float = 0

    @property
    def most(self) -> int | float:
        """The greatest absolute value."""
        return max(abs(self.low), abs(self.high))


def extent_of(values: Sequence[Any]) -> Extent:
    """Return the extent of listed values."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return Extent(Kind.BOOL, int(min(values)), int(max(values)))
    if kinds == {str}:
        return Extent(Kind.STRING)
    if not all(map(is_number, values)):
        return Extent(Kind.OBJECT)
    low, high = min(values), max(values)
    if kinds == {int}:
        return Extent(Kind.INT if max(abs(low), abs(high)) <= INT64 else Kind.OBJECT, low, high)
    if kinds == {float}:
        return Extent(Kind.FLOAT, low, high)
    exact = all(abs(value) <= EXACT for value in values if isinstance(value, int))
    return Extent(Kind.NUMBER if exact else Kind.OBJECT, low, high)


def extent(parameter: Parameter) -> Extent:
    """Return the extent of a parameter's column; of a foreign class, nothing is known but that it holds objects."""
    match parameter:
        case Real():
            return Extent(Kind.FLOAT, parameter.low, parameter.high)
        case Integer():
            fits = max(abs(parameter.low), abs(parameter.high)) <= INT64
            return Extent(Kind.INT if fits else Kind.OBJECT, parameter.low, parameter.high)
        case Ordinal() | Categorical():
            return extent_of(parameter.values)
        case _:
            return Extent(Kind.OBJECT)


def plain_values(parameter: Parameter, column: Column) -> list[Any]:
    """Return a column as the domain's own Python values; of a permutation as `Arrangement`."""
    if isinstance(parameter, Permutation):
        return [_arrangement(parameter, positions) for positions in column.tolist()]
    values: list[Any] = column.tolist()
    if isinstance(parameter, Ordinal | Categorical) and extent(parameter).kind is Kind.NUMBER:
        own = {float(value): value for value in parameter.values if is_number(value)}
        return [own[value] for value in values]
    return values


def _arrangement(parameter: Permutation, positions: Sequence[int]) -> Arrangement:
    order: list[Any] = [None] * len(positions)
    for element, position in zip(parameter.elements, positions, strict=True):
        order[position] = element
    return Arrangement(tuple(positions), tuple(order))


def finite(*numbers: int | float) -> bool:
    """Whether all are finite."""
    return all(map(math.isfinite, numbers))
