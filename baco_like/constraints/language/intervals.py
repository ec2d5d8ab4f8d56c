"""Bounds of arithmetic results from the bounds of the operands, and whether NumPy gives the results of Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from baco_like.constraints.language.columns import finite
from baco_like.parameters.extent import ColumnKind, Extent
from baco_like.parameters.values import EXACT, INT64

Number = int | float


def negated(a: Extent) -> Extent:
    """Return the bounds of ``-a``."""
    return Extent(a.kind, -a.high, -a.low)


def absolute(a: Extent) -> Extent:
    """Return the bounds of ``abs(a)``."""
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Extent(a.kind, low, a.most)


def root(a: Extent) -> Extent:
    """Return the bounds of ``sqrt(a)`` on its domain."""
    return Extent(ColumnKind.FLOAT, 0.0, math.sqrt(max(a.high, 0)))


def arithmetic(operator: str, a: Extent, b: Extent) -> Extent | None:
    """Return the extent of ``a operator b`` if NumPy on 64 bits agrees with Python for all values, else None.

    They disagree for integers that overflow or lose digits as doubles, powers of floats, and floats of unknown
    bounds in ``//`` and ``%``.
    """
    if operator == "**":
        return _power(a, b)
    kind = _kind(operator, a, b)
    try:
        low, high = _BOUNDS[operator](a, b, kind)
    except OverflowError:  # an int too large to be converted to float
        return None
    if not finite(low, high) and (
        kind is not ColumnKind.FLOAT or math.isnan(low) or math.isnan(high)
    ):
        return None
    most = max(abs(low), abs(high))
    if kind is ColumnKind.INT:
        return Extent(kind, int(low), int(high)) if most <= INT64 else None
    if kind is ColumnKind.NUMBER or operator == "/":
        # Some rows are whole numbers that Python computes exactly; doubles do the same up to 2**53.
        whole = [x.most for x in (a, b) if x.kind is not ColumnKind.FLOAT]
        if max(whole, default=0) > EXACT or (kind is ColumnKind.NUMBER and most > EXACT):
            return None
    if operator in ("//", "%") and not finite(a.low, a.high, b.low, b.high):
        return None
    return Extent(kind, low, high)


def _kind(operator: str, a: Extent, b: Extent) -> ColumnKind:
    if operator == "/" or ColumnKind.FLOAT in (a.kind, b.kind):
        return ColumnKind.FLOAT
    return ColumnKind.INT if a.kind is b.kind is ColumnKind.INT else ColumnKind.NUMBER


Bounds = tuple[Number, Number]


def _corners(a: Extent, b: Extent, compute: Callable[[Number, Number], Number]) -> Bounds:
    found = [compute(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(map(math.isnan, found)):
        return math.nan, math.nan
    return min(found), max(found)


def _sum(a: Extent, b: Extent, kind: ColumnKind) -> Bounds:
    return a.low + b.low, a.high + b.high


def _difference(a: Extent, b: Extent, kind: ColumnKind) -> Bounds:
    return a.low - b.high, a.high - b.low


def _product(a: Extent, b: Extent, kind: ColumnKind) -> Bounds:
    return _corners(a, b, lambda x, y: x * y)


def _quotient(a: Extent, b: Extent, kind: ColumnKind) -> Bounds:
    if not b.low <= 0 <= b.high:
        return _corners(a, b, lambda x, y: x / y)
    if b.kind is ColumnKind.INT:  # defined only where abs(b) >= 1
        return -float(a.most), float(a.most)
    return -math.inf, math.inf


def _floor_quotient(a: Extent, b: Extent, kind: ColumnKind) -> Bounds:
    if kind is ColumnKind.INT:
        if b.low <= 0 <= b.high:
            return -a.most, a.most
        return _corners(a, b, lambda x, y: x // y)
    low, high = _quotient(a, b, kind)
    return low - 1, high + 1


def _remainder(a: Extent, b: Extent, kind: ColumnKind) -> Bounds:
    return min(b.low, 0), max(b.high, 0)


_BOUNDS: Mapping[str, Callable[[Extent, Extent, ColumnKind], Bounds]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "/": _quotient,
    "//": _floor_quotient,
    "%": _remainder,
}


def _power(a: Extent, b: Extent) -> Extent | None:
    """Return the extent of whole powers of whole numbers; the last bit of other powers depends on the library."""
    if (
        not (a.kind is b.kind is ColumnKind.INT)
        or b.low < 0
        or int(a.most).bit_length() * b.high > 128
    ):
        return None
    most = max(1, int(a.most) ** int(b.high))
    if most > INT64:
        return None
    return Extent(ColumnKind.INT, 0 if a.low >= 0 else -most, most)
