"""Bounds of results from the bounds of the operands, and whether NumPy gives the results of Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from baco_like.parameters.extent import ColumnKind, Extent
from baco_like.parameters.values import EXACT, INT64

Number = int | float
Bounds = tuple[Number, Number]


def extent_of_result(name: str, operands: Sequence[Extent]) -> Extent | None:
    """Return the extent of an operator's or function's results if NumPy on 64 bits agrees with Python, else None.

    They disagree for integers that overflow or lose digits as doubles, powers of floats, and floats of unknown
    bounds in ``//`` and ``%`` and in rounding.
    """
    a = operands[0]
    match name:
        case "unary +":
            return a
        case "unary -":
            return Extent(a.kind, -a.high, -a.low)
        case "abs":
            low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
            return Extent(a.kind, low, a.most)
        case "min":
            return Extent(a.kind, min(o.low for o in operands), min(o.high for o in operands))
        case "max":
            return Extent(a.kind, max(o.low for o in operands), max(o.high for o in operands))
        case "sqrt":
            loses_digits = a.kind is ColumnKind.INT and a.most > EXACT
            high = math.sqrt(max(a.high, 0))
            return None if loses_digits else Extent(ColumnKind.FLOAT, 0.0, high)
        case "ceil" | "floor" | "int" | "round":
            if a.kind is ColumnKind.INT:
                return a
            if not a.most <= EXACT:
                return None
            return Extent(ColumnKind.INT, math.floor(a.low), math.ceil(a.high))
        case "**":
            return _power(a, operands[1])
        case "~":
            return _whole(a.kind, -a.high - 1, -a.low - 1)
        case _:
            extent: Extent | None = a
            for operand in operands[1:]:
                extent = None if extent is None else _arithmetic(name, extent, operand)
            return extent


def _arithmetic(sign: str, a: Extent, b: Extent) -> Extent | None:
    if sign in ("<<", ">>", "&", "^", "|"):
        return _bitwise(sign, a, b)
    whole = a.kind is b.kind is ColumnKind.INT
    kind = ColumnKind.INT if whole else ColumnKind.NUMBER
    if sign == "/" or ColumnKind.FLOAT in (a.kind, b.kind):
        kind = ColumnKind.FLOAT
    try:
        low, high = _bounds(sign, a, b, kind)
    except OverflowError:  # an int too large to be converted to float
        return None
    if math.isnan(low) or math.isnan(high):
        return None
    if kind is ColumnKind.INT:
        return _whole(kind, low, high)
    most = max(abs(low), abs(high))
    if kind is ColumnKind.NUMBER or sign == "/":
        # Some rows are whole numbers that Python computes exactly; doubles do the same up to 2**53.
        wholes = [x.most for x in (a, b) if x.kind is not ColumnKind.FLOAT]
        if max(wholes, default=0) > EXACT or (kind is ColumnKind.NUMBER and most > EXACT):
            return None
    if sign in ("//", "%") and not all(map(math.isfinite, (a.low, a.high, b.low, b.high))):
        return None
    return Extent(kind, low, high)


def _bounds(sign: str, a: Extent, b: Extent, kind: ColumnKind) -> Bounds:
    divides_by_zero = b.low <= 0 <= b.high
    match sign:
        case "+":
            return a.low + b.low, a.high + b.high
        case "-":
            return a.low - b.high, a.high - b.low
        case "*":
            return _corners(a, b, operator.mul)
        case "%":
            return min(b.low, 0), max(b.high, 0)
        case "//" if kind is ColumnKind.INT:
            return (-a.most, a.most) if divides_by_zero else _corners(a, b, operator.floordiv)
        case "//":
            low, high = _bounds("/", a, b, kind)
            return low - 1, high + 1
        case _ if not divides_by_zero:
            return _corners(a, b, operator.truediv)
        case _ if b.kind is ColumnKind.INT:  # defined only where abs(b) >= 1
            return -float(a.most), float(a.most)
        case _:
            return -math.inf, math.inf


def _whole(kind: ColumnKind, low: Number, high: Number) -> Extent | None:
    """Return the extent of integers of 64 bits; None for other numbers."""
    fits = kind is ColumnKind.INT and max(abs(low), abs(high)) <= INT64
    return Extent(kind, int(low), int(high)) if fits else None


def _bitwise(sign: str, a: Extent, b: Extent) -> Extent | None:
    """Return the extent of shifts and bit operations; a negative shift is undefined."""
    if not a.kind is b.kind is ColumnKind.INT:
        return None
    low, high = int(min(a.low, b.low)), int(max(a.high, b.high))
    if sign in ("<<", ">>"):
        shifts = max(int(b.low), 0), int(b.high)
        if not shifts[0] <= shifts[1] <= 63:
            return None
        compute = operator.lshift if sign == "<<" else operator.rshift
        corners = [compute(int(x), y) for x in (a.low, a.high) for y in shifts]
        return _whole(a.kind, min(corners), max(corners))
    below = 1 << max(abs(low), high).bit_length()  # all operands are in [-below, below)
    if sign == "&" and max(a.low, b.low) >= 0:
        return Extent(a.kind, 0, min(x.high for x in (a, b) if x.low >= 0))
    return _whole(a.kind, -below if low < 0 else 0, below - 1)


def _corners(a: Extent, b: Extent, compute: Callable[[Number, Number], Number]) -> Bounds:
    corners = [compute(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if any(map(math.isnan, corners)):
        return math.nan, math.nan
    return min(corners), max(corners)


def _power(a: Extent, b: Extent) -> Extent | None:
    """Return the extent of whole powers of whole numbers; the last bit of other powers depends on the library."""
    whole = a.kind is b.kind is ColumnKind.INT
    if not whole or b.low < 0 or int(a.most).bit_length() * b.high > 128:
        return None
    most = max(1, int(a.most) ** int(b.high))
    return Extent(ColumnKind.INT, 0 if a.low >= 0 else -most, most) if most <= INT64 else None
