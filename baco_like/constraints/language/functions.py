"""Functions such as ``min`` and ``sqrt`` over whole columns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baco_like.constraints.language import intervals
from baco_like.constraints.language.columns import finite
from baco_like.constraints.language.vector import (
    Columns,
    Inexact,
    Result,
    Vector,
    cast,
    cast_to_common,
    map_values,
    unite_masks,
)
from baco_like.parameters.extent import ColumnKind, Extent
from baco_like.parameters.values import EXACT


def apply_function(name: str, arguments: Sequence[Vector]) -> Vector:
    """Return the values of a function of `exact.FUNCTIONS` for columns of numbers.

    Raises:
        Inexact: The last bit depends on the library (logarithms), or the result may not fit 64 bits.
    """
    if name in ("min", "max"):
        return _extreme(name, cast_to_common(list(arguments)))
    (only,) = arguments
    if name == "abs":
        return map_values(only, np.abs, intervals.absolute(only.extent))
    if name == "sqrt":
        return _root(cast(only, ColumnKind.FLOAT) if only.kind is ColumnKind.INT else only)
    if name in _ROUNDING:
        return _rounded(name, only)
    raise Inexact


def _extreme(function: str, arguments: list[Vector]) -> Vector:
    better = operator.lt if function == "min" else operator.gt

    def run(columns: Columns) -> Result:
        value, undefined = arguments[0].run(columns)
        for argument in arguments[1:]:
            other, also = argument.run(columns)
            undefined = unite_masks(undefined, also)
            value = np.where(better(other, value), other, value)
        return value, undefined

    extremes = min if function == "min" else max
    low = extremes(argument.extent.low for argument in arguments)
    high = extremes(argument.extent.high for argument in arguments)
    return Vector(Extent(arguments[0].kind, low, high), run)


def _root(only: Vector) -> Vector:
    found = intervals.root(only.extent)

    def run(columns: Columns) -> Result:
        value, undefined = only.run(columns)
        negative = np.asarray(value) < 0
        return np.sqrt(np.where(negative, 0.0, value)), unite_masks(undefined, negative)

    return Vector(found, run)


_ROUNDING: Mapping[str, Callable[[Any], Any]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "int": np.trunc,
    "round": np.rint,
}


def _rounded(function: str, only: Vector) -> Vector:
    if only.kind is ColumnKind.INT:
        return only
    if not finite(only.extent.low, only.extent.high) or only.extent.most > EXACT:
        raise Inexact
    compute = _ROUNDING[function]
    low, high = int(np.floor(only.extent.low)), int(np.ceil(only.extent.high))
    return map_values(
        only, lambda value: compute(value).astype(np.int64), Extent(ColumnKind.INT, low, high)
    )
