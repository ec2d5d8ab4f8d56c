"""Functions of whole columns, into which nodes are compiled, and operations on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from baco_like._typing import Column, Mask
from baco_like.parameters.extent import ColumnKind, Extent
from baco_like.parameters.values import EXACT

Columns: TypeAlias = Mapping[str, Column]
Result: TypeAlias = tuple[Any, Mask | None]
"""Values ``(n,)``, or one value for all rows, and the mask of undefined rows ``(n,)`` (None: all are defined)."""


class Inexact(Exception):
    """NumPy may give other results than Python."""


@dataclass(frozen=True)
class Vector:
    """A node as a function of columns, with kind and bounds of its values."""

    extent: Extent
    run: Callable[[Columns], Result]

    @property
    def kind(self) -> ColumnKind:
        """The type of its values."""
        return self.extent.kind


NUMBERS = (ColumnKind.BOOL, ColumnKind.INT, ColumnKind.FLOAT, ColumnKind.NUMBER)


def to_truth(vector: Vector) -> Vector:
    """Return the truth of the values, as Python's ``bool``."""
    if vector.kind is ColumnKind.BOOL:
        return vector

    def run(columns: Columns) -> Result:
        value, undefined = vector.run(columns)
        return np.asarray(value).astype(np.bool_), undefined

    return Vector(Extent(ColumnKind.BOOL, 0, 1), run)


def unite_masks(a: Mask | None, b: Mask | None) -> Mask | None:
    """Return the union of two masks; None is the empty mask."""
    if a is None or b is None:
        return b if a is None else a
    return a | b


def cast(vector: Vector, kind: ColumnKind) -> Vector:
    """Return the same numbers as another kind.

    Raises:
        Inexact: The values are not numbers, or some would lose digits.
    """
    if vector.kind is kind:
        return vector
    if vector.kind not in NUMBERS or (vector.kind is ColumnKind.INT and vector.extent.most > EXACT):
        raise Inexact
    target = np.int64 if kind is ColumnKind.INT else np.float64

    def run(columns: Columns) -> Result:
        value, undefined = vector.run(columns)
        return np.asarray(value).astype(target, copy=False), undefined

    return Vector(Extent(kind, vector.extent.low, vector.extent.high), run)


def number(vector: Vector) -> Vector:
    """Return numbers unchanged and bools as integers."""
    if vector.kind not in NUMBERS:
        raise Inexact
    return cast(vector, ColumnKind.INT) if vector.kind is ColumnKind.BOOL else vector


def map_values(vector: Vector, compute: Callable[[Any], Any], extent: Extent) -> Vector:
    """Return a function of the values, whose results have this extent; undefined rows stay undefined."""

    def run(columns: Columns) -> Result:
        value, undefined = vector.run(columns)
        return compute(value), undefined

    return Vector(extent, run)


def cast_to_common(vectors: list[Vector]) -> list[Vector]:
    """Return vectors of one common kind, so that rows can be taken from either.

    Raises:
        Inexact: They have no common kind.
    """
    kinds = {vector.kind for vector in vectors}
    if len(kinds) == 1:
        return vectors
    if not kinds <= set(NUMBERS):
        raise Inexact
    target = ColumnKind.INT if kinds <= {ColumnKind.BOOL, ColumnKind.INT} else ColumnKind.NUMBER
    return [cast(vector, target) for vector in vectors]


def join_extents(vectors: list[Vector]) -> Extent:
    """Return the least extent that holds the values of vectors of one kind."""
    kind = vectors[0].kind
    return Extent(kind, min(v.extent.low for v in vectors), max(v.extent.high for v in vectors))
