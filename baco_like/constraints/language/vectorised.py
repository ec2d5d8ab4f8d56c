"""Evaluation of a tree on whole NumPy columns, for trees on which NumPy gives exactly the results of Python.

Kinds and bounds of the parameters decide once, when the function is compiled, whether 64-bit integers can overflow,
an integer can lose digits as a double, or a power or logarithm (whose last bit differs between libraries) is used. If
so, `Inexact` is raised and the tree is evaluated row by row (`exact`).

A function returns values and, if some rows may be undefined, their mask; the values of undefined rows are arbitrary.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np

from baco_like._typing import Column, Mask
from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.operators import (
    BINARY,
    CHAINS,
    COMPARE,
    OPERATORS,
    VARIADIC,
)
from baco_like.constraints.language.sequences import read_column, read_positions
from baco_like.constraints.language.tree import Node
from baco_like.parameters.protocol import Parameter, is_permutation, is_sequence
from baco_like.parameters.values import EXACT, INT64, ColumnKind, Extent, extent_of

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
        """The type of its values; `ColumnKind.OBJECT` if they are computed row by row, which is slow."""
        return self.extent.kind


_ROW_COST = 64
"""Time of an operation on one row of Python values, relative to one on a NumPy column (measured: 40 to 80)."""

_LARGE_COST = 8
"""Time of an operation on integers of up to `operators.MAX_BITS` bits, relative to one on short integers."""

_TRUTH = Extent(ColumnKind.BOOL, 0, 1)
_NUMBERS = {ColumnKind.BOOL, ColumnKind.INT, ColumnKind.FLOAT, ColumnKind.NUMBER}


def compile_node(node: Node, parameters: Mapping[str, Parameter]) -> Vector:
    """Compile a tree to a function of the columns of these parameters: on whole columns or, if inexact, by row."""
    try:
        return vectorise(node, parameters)
    except Inexact:
        return _by_row(node, parameters)


def operations(node: Node, vector: Vector) -> int:
    """Return the work of a compiled tree on one row, relative to one operation on a NumPy column."""
    if vector.kind is not ColumnKind.OBJECT:
        return tree.size(node)
    large = any(_makes_large_numbers(part) for part in tree.walk(node))
    return tree.size(node) * _ROW_COST * (_LARGE_COST if large else 1)


def _makes_large_numbers(node: Node) -> bool:
    """Whether a node is a power or a shift to the left by more than 8, or by an unknown number."""
    if not isinstance(node, tree.Operation) or node.operator not in ("**", "<<"):
        return False
    exponent = node.parts[-1]
    value = exponent.value if isinstance(exponent, tree.Literal) else None
    return not isinstance(value, (int, float)) or abs(value) > 8


def _by_row(node: Node, parameters: Mapping[str, Parameter]) -> Vector:
    """Return a function that gives the values as Python objects, computed by `exact`."""
    names = tree.names(node)
    function = exact.function(node, names)

    def value_of(row: exact.Row) -> Any:
        try:
            return function(row)
        except exact.UNDEFINED:
            return None

    def run(columns: Columns) -> Result:
        read = [exact.row_values(parameters[name], columns[name]) for name in names]
        values = list(map(value_of, zip(*read, strict=True) if read else [()]))
        undefined = np.array([value is None for value in values], dtype=np.bool_)
        column = np.fromiter(values, dtype=object, count=len(values))
        column[undefined] = 0
        return column, undefined

    return Vector(Extent(ColumnKind.OBJECT), run)


def vectorise(node: Node, parameters: Mapping[str, Parameter]) -> Vector:
    """Compile a tree to a function of the columns of these parameters.

    Raises:
        Inexact: The tree must be evaluated row by row.
    """
    match node:
        case tree.Literal(value=value):
            vector = Vector(extent_of([value]), lambda columns: (value, None))
        case tree.Name(name=name):
            vector = Vector(parameters[name].extent, lambda columns: (columns[name], None))
        case tree.Reading():
            vector = _reading(node, parameters[node.name])
        case tree.Comparison():
            return _comparison(node, parameters)
        case tree.Operation(operator=name):
            return _operation(name, [vectorise(part, parameters) for part in node.parts])
        case _:
            raise Inexact
    if vector.kind is ColumnKind.OBJECT:
        raise Inexact
    return vector


def _reading(node: tree.Reading, parameter: Parameter) -> Vector:
    assert is_permutation(parameter) or is_sequence(parameter)
    is_whole = is_permutation(parameter)  # every place has an element
    read, name = read_positions if is_whole else read_column, node.name
    if node.function in ("in", "follows"):
        return Vector(
            _TRUTH, lambda columns: (read_column(node, columns[name]).astype(np.bool_), None)
        )
    if node.function not in ("at", "last"):
        extent = Extent(ColumnKind.INT, 0, parameter.width - is_whole)
        return Vector(extent, lambda columns: (read(node, columns[name]), None))
    extent = extent_of(parameter.elements)
    if extent.kind is ColumnKind.NUMBER:  # 1 and 1.0 would become the same element
        raise Inexact
    dtype = object if extent.kind is ColumnKind.STRING else None
    elements = np.array(parameter.elements, dtype=dtype)

    def run(columns: Columns) -> Result:
        code = read(node, columns[name])
        return elements[np.maximum(code - 1, 0)], None if is_whole else code == 0

    return Vector(extent, run)


def _operation(name: str, parts: list[Vector]) -> Vector:
    match name:
        case "and" | "or":
            return _junction(name, parts)
        case "if":
            body, test, otherwise = parts
            return _choice(to_truth(test), cast_to_common([body, otherwise]))
        case "not":
            return combine([to_truth(parts[0])], np.logical_not, _TRUTH)
        case _:
            return _computation(name, [number(part) for part in parts])


def _computation(name: str, operands: list[Vector]) -> Vector:
    """Return an operator or function of numbers.

    Raises:
        Inexact: The last bit depends on the library (logarithms), or the result may not fit 64 bits.
    """
    if name in VARIADIC:
        operands = cast_to_common(operands)
    extents = [operand.extent for operand in operands]
    compute = OPERATORS[name].vector
    extent = extent_of_result(name, extents) if compute is not None else None
    if compute is None or extent is None:
        raise Inexact
    if name in CHAINS:
        compute = partial(_from_left, compute)
    only_rounds = name in ("ceil", "floor", "int", "round")
    if name == "unary +" or (only_rounds and operands[0].kind is ColumnKind.INT):
        return operands[0]
    last = operands[-1].extent
    wrong: Callable[..., Mask] | None = None  # of the last operand
    if name in ("/", "//", "%") and last.low <= 0 <= last.high:
        wrong = np.equal
    elif name == "sqrt" or (name in ("<<", ">>") and last.low < 0):
        wrong = np.less
    return combine(operands, compute, extent, wrong and (lambda *values: wrong(values[-1], 0)))


def _from_left(compute: Callable[[Any, Any], Any], *values: Any) -> Any:
    return reduce(compute, values)


def _comparison(node: tree.Comparison, parameters: Mapping[str, Parameter]) -> Vector:
    left = vectorise(node.parts[0], parameters)
    steps: list[Vector] = []
    for sign, given in zip(node.operators, node.parts[1:], strict=True):
        if sign in ("in", "not in"):
            inside = _membership(left, given, parameters)
            steps.append(inside if sign == "in" else combine([inside], np.logical_not, _TRUTH))
        else:
            right = vectorise(given, parameters)
            steps.append(_compare(sign, left, right))
            left = right
    return steps[0] if len(steps) == 1 else _junction("and", steps)


def _compare(sign: str, left: Vector, right: Vector) -> Vector:
    """Return the result of one comparison.

    Raises:
        Inexact: Numbers against strings, or large integers against floats.
    """
    if {left.kind, right.kind} != {ColumnKind.STRING}:
        left, right = number(left), number(right)
        if (left.kind is ColumnKind.INT) != (right.kind is ColumnKind.INT):
            left, right = cast(left, ColumnKind.NUMBER), cast(right, ColumnKind.NUMBER)
    return combine([left, right], COMPARE[sign], _TRUTH)


_FEW = 8


def _membership(left: Vector, given: Node, parameters: Mapping[str, Parameter]) -> Vector:
    if isinstance(given, tree.Span):
        return _in_range(number(left), given.numbers)
    elements = tree.children(given)
    if not elements:
        raise Inexact
    values = [element.value for element in elements if isinstance(element, tree.Literal)]
    whole = all(type(value) is int and abs(value) <= EXACT for value in values)
    if len(elements) == len(values) > _FEW and whole and left.kind is ColumnKind.INT:
        return combine([left], partial(np.isin, test_elements=np.array(values)), _TRUTH)
    # Python builds the whole list first, so one undefined element is enough.
    equals = [_compare("==", left, vectorise(element, parameters)) for element in elements]
    return combine(equals, partial(_from_left, operator.or_), _TRUTH)


def _in_range(left: Vector, numbers: range) -> Vector:
    if not numbers or max(abs(numbers[0]), abs(numbers[-1]), left.extent.most) > EXACT:
        raise Inexact
    low, high = min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])
    start, step = numbers.start, abs(numbers.step)

    def inside(value: Any) -> Any:
        good = (value >= low) & (value <= high)
        if step > 1:
            good &= (value - start) % step == 0
        elif left.kind is not ColumnKind.INT:
            good &= np.floor(value) == value
        return good

    return combine([left], inside, _TRUTH)


def _junction(word: str, parts: list[Vector]) -> Vector:
    parts = cast_to_common(parts)
    plain = parts[0].kind is ColumnKind.BOOL
    join = operator.and_ if word == "and" else operator.or_

    def run(columns: Columns) -> Result:
        value, undefined = parts[0].run(columns)
        for part in parts[1:]:
            truth = value if plain else np.asarray(value).astype(np.bool_)
            go = truth if word == "and" else np.logical_not(truth)
            after, also = part.run(columns)
            if also is not None:  # an undefined part counts only in rows that reach it
                undefined = unite_masks(undefined, np.asarray(also & go))
            value = join(value, after) if plain else np.where(go, after, value)
        return value, undefined

    return Vector(join_extents(parts), run)


def _choice(test: Vector, branches: list[Vector]) -> Vector:
    def run(columns: Columns) -> Result:
        chosen, undefined = test.run(columns)
        results = [branch.run(columns) for branch in branches]
        for (_, also), taken in zip(results, (chosen, ~np.asarray(chosen)), strict=True):
            if also is not None:
                undefined = unite_masks(undefined, np.asarray(also & taken))
        return np.where(chosen, results[0][0], results[1][0]), undefined

    return Vector(join_extents(branches), run)


# Operations on vectors --------------------------------------------------------------------------------------------


def combine(
    vectors: Sequence[Vector],
    compute: Callable[..., Any],
    extent: Extent,
    undefined: Callable[..., Mask] | None = None,
) -> Vector:
    """Return a function of the values of all vectors, undefined wherever one of them is.

    Args:
        vectors: The arguments.
        compute: Returns the values.
        extent: Kind and bounds of these values.
        undefined: Returns the mask of further undefined rows.
    """
    runs = [vector.run for vector in vectors]

    def run(columns: Columns) -> Result:
        values, mask = [], None
        for run_part in runs:
            value, also = run_part(columns)
            values.append(value)
            mask = unite_masks(mask, also)
        if undefined is not None:
            mask = unite_masks(mask, undefined(*values))
        return compute(*values), mask

    return Vector(extent, run)


def unite_masks(a: Mask | None, b: Mask | None) -> Mask | None:
    """Return the union of two masks; None is the empty mask."""
    if a is None:
        return b
    return a if b is None else a | b


def to_truth(vector: Vector) -> Vector:
    """Return the truth of the values, as Python's ``bool``."""
    return vector if vector.kind is ColumnKind.BOOL else _astype(vector, np.bool_, _TRUTH)


def _astype(vector: Vector, dtype: type, extent: Extent) -> Vector:
    return combine([vector], lambda value: np.asarray(value).astype(dtype, copy=False), extent)


def cast(vector: Vector, kind: ColumnKind) -> Vector:
    """Return the same numbers as another kind.

    Raises:
        Inexact: The values are not numbers, or some would lose digits.
    """
    if vector.kind is kind:
        return vector
    if vector.kind not in _NUMBERS or (
        vector.kind is ColumnKind.INT and vector.extent.most > EXACT
    ):
        raise Inexact
    dtype = np.int64 if kind is ColumnKind.INT else np.float64
    return _astype(vector, dtype, Extent(kind, vector.extent.low, vector.extent.high))


def number(vector: Vector) -> Vector:
    """Return numbers unchanged and bools as integers."""
    if vector.kind not in _NUMBERS:
        raise Inexact
    return cast(vector, ColumnKind.INT) if vector.kind is ColumnKind.BOOL else vector


def cast_to_common(vectors: list[Vector]) -> list[Vector]:
    """Return vectors of one common kind, so that rows can be taken from either.

    Raises:
        Inexact: They have no common kind.
    """
    kinds = {vector.kind for vector in vectors}
    if len(kinds) == 1:
        return vectors
    if not kinds <= _NUMBERS:
        raise Inexact
    target = ColumnKind.INT if kinds <= {ColumnKind.BOOL, ColumnKind.INT} else ColumnKind.NUMBER
    return [cast(vector, target) for vector in vectors]


def join_extents(vectors: list[Vector]) -> Extent:
    """Return the least extent that holds the values of vectors of one kind."""
    kind = vectors[0].kind
    return Extent(kind, min(v.extent.low for v in vectors), max(v.extent.high for v in vectors))


# Kinds and bounds ---------------------------------------------------------------------------------------------------
#
# Bounds of results from the bounds of the operands, and whether NumPy gives the results of Python.


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
        case _ if name in BINARY:
            extent: Extent | None = a
            for operand in operands[1:]:
                extent = None if extent is None else _arithmetic(name, extent, operand)
            return extent
    return None


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
