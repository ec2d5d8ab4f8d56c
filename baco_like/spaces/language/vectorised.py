"""A tree as a function of whole NumPy columns, for trees on which that gives exactly what Python gives.

Kinds and bounds of the parameters decide once, when the function is made, whether 64-bit integers can overflow, an
integer can lose digits as a double, or a power or logarithm (whose last bit differs between libraries) is read. If
so, `Inexact` says that the tree must be evaluated row by row (`exact`).

A function returns values and, where some rows may be undefined, a mask of those; their values mean nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from baco_like._typing import Column, Mask
from baco_like.spaces.language import intervals, tree
from baco_like.spaces.language.columns import EXACT, Extent, Kind, extent, extent_of, finite
from baco_like.spaces.language.tree import Node
from baco_like.spaces.parameter import Parameter
from baco_like.spaces.permutation import Permutation

Columns: TypeAlias = Mapping[str, Column]
Result: TypeAlias = tuple[Any, Mask | None]
"""Values ``(n,)``, or one value for all rows, and where they are undefined ``(n,)`` (None: nowhere)."""


class Inexact(Exception):
    """NumPy would not give what Python gives."""


@dataclass(frozen=True)
class Vector:
    """A node as a function of columns, with what is known of its values."""

    extent: Extent
    run: Callable[[Columns], Result]

    @property
    def kind(self) -> Kind:
        """The type of its values."""
        return self.extent.kind


_NUMBERS = (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.NUMBER)


def vectorise(node: Node, parameters: Mapping[str, Parameter]) -> Vector:
    """Return the function of a tree over columns of these parameters.

    Raises:
        Inexact: It must be evaluated row by row.
    """
    builder = _BUILDERS.get(type(node))
    if builder is None:
        raise Inexact
    return builder(node, parameters)


def truth(vector: Vector) -> Vector:
    """Return whether the values count as true."""
    if vector.kind is Kind.BOOL:
        return vector

    def run(columns: Columns) -> Result:
        value, undefined = vector.run(columns)
        return np.asarray(value).astype(np.bool_), undefined

    return Vector(Extent(Kind.BOOL, 0, 1), run)


def _either(a: Mask | None, b: Mask | None) -> Mask | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _cast(vector: Vector, kind: Kind) -> Vector:
    """Return the same numbers as another kind of numbers.

    Raises:
        Inexact: They are no numbers, or some would lose digits.
    """
    if vector.kind is kind:
        return vector
    if vector.kind not in _NUMBERS or (vector.kind is Kind.INT and vector.extent.most > EXACT):
        raise Inexact
    target = np.int64 if kind is Kind.INT else np.float64

    def run(columns: Columns) -> Result:
        value, undefined = vector.run(columns)
        return np.asarray(value).astype(target, copy=False), undefined

    return Vector(Extent(kind, vector.extent.low, vector.extent.high), run)


def _number(vector: Vector) -> Vector:
    """Return numbers as they are and bools as integers."""
    if vector.kind not in _NUMBERS:
        raise Inexact
    return _cast(vector, Kind.INT) if vector.kind is Kind.BOOL else vector


def _literal(node: tree.Literal, parameters: Mapping[str, Parameter]) -> Vector:
    value = node.value
    found = extent_of([value])
    if found.kind is Kind.OBJECT:
        raise Inexact
    return Vector(found, lambda columns: (value, None))


def _name(node: tree.Name, parameters: Mapping[str, Parameter]) -> Vector:
    name = node.name
    found = extent(parameters[name])
    if found.kind is Kind.OBJECT:
        raise Inexact
    return Vector(found, lambda columns: (columns[name], None))


def _position(node: tree.Position, parameters: Mapping[str, Parameter]) -> Vector:
    name, element = node.name, node.element
    last = parameters[name].width - 1
    return Vector(Extent(Kind.INT, 0, last), lambda columns: (columns[name][:, element], None))


def _at(node: tree.At, parameters: Mapping[str, Parameter]) -> Vector:
    name, place = node.name, node.place
    parameter = parameters[name]
    assert isinstance(parameter, Permutation)
    found = extent_of(parameter.elements)
    if found.kind in (Kind.OBJECT, Kind.NUMBER):
        raise Inexact
    table = np.empty(len(parameter.elements), dtype=object if found.kind is Kind.STRING else None)
    table[:] = parameter.elements
    if found.kind in (Kind.INT, Kind.BOOL):
        table = np.array(parameter.elements)
    return Vector(found, lambda columns: (table[np.argmax(columns[name] == place, axis=1)], None))


def _unary(node: tree.Unary, parameters: Mapping[str, Parameter]) -> Vector:
    operand = vectorise(node.operand, parameters)
    if node.operator == "not":
        return _mapped(truth(operand), np.logical_not, Extent(Kind.BOOL, 0, 1))
    operand = _number(operand)
    if node.operator == "+":
        return operand
    return _mapped(operand, np.negative, intervals.negated(operand.extent))


def _mapped(vector: Vector, compute: Callable[[Any], Any], found: Extent) -> Vector:
    def run(columns: Columns) -> Result:
        value, undefined = vector.run(columns)
        return compute(value), undefined

    return Vector(found, run)


def _binary(node: tree.Binary, parameters: Mapping[str, Parameter]) -> Vector:
    left = _number(vectorise(node.left, parameters))
    right = _number(vectorise(node.right, parameters))
    found = intervals.arithmetic(node.operator, left.extent, right.extent)
    if found is None:
        raise Inexact
    compute = _ARITHMETIC[node.operator]
    if node.operator in ("/", "//", "%") and right.extent.low <= 0 <= right.extent.high:
        return Vector(found, _dividing(left, right, compute))
    return Vector(found, _computing(left, right, compute))


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "**": np.power,
}


def _computing(
    left: Vector, right: Vector, compute: Callable[[Any, Any], Any]
) -> Callable[[Columns], Result]:
    run_left, run_right = left.run, right.run

    def run(columns: Columns) -> Result:
        a, undefined = run_left(columns)
        b, also = run_right(columns)
        return compute(a, b), _either(undefined, also)

    return run


def _dividing(
    left: Vector, right: Vector, compute: Callable[[Any, Any], Any]
) -> Callable[[Columns], Result]:
    def run(columns: Columns) -> Result:
        a, undefined = left.run(columns)
        b, also = right.run(columns)
        zero = np.asarray(b) == 0
        return compute(a, np.where(zero, 1, b)), _either(_either(undefined, also), zero)

    return run


def _comparison(node: tree.Comparison, parameters: Mapping[str, Parameter]) -> Vector:
    left = vectorise(node.left, parameters)
    steps: list[Vector] = []
    for sign, given in zip(node.operators, node.rights, strict=True):
        if sign in ("in", "not in"):
            steps.append(_membership(left, given, sign, parameters))
        else:
            right = vectorise(given, parameters)
            steps.append(_compared(sign, left, right))
            left = right
    return steps[0] if len(steps) == 1 else _junction_of("and", steps)


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compared(sign: str, left: Vector, right: Vector) -> Vector:
    """Return one comparison.

    Raises:
        Inexact: Numbers against strings, or large integers against floats.
    """
    found = Extent(Kind.BOOL, 0, 1)
    if left.kind is Kind.STRING and right.kind is Kind.STRING:
        return Vector(found, _computing(left, right, _COMPARE[sign]))
    left, right = _number(left), _number(right)
    if (left.kind is Kind.INT) != (right.kind is Kind.INT):
        left, right = _cast(left, Kind.NUMBER), _cast(right, Kind.NUMBER)
    return Vector(found, _computing(left, right, _COMPARE[sign]))


_FEW = 8


def _membership(
    left: Vector, given: Node, sign: str, parameters: Mapping[str, Parameter]
) -> Vector:
    if isinstance(given, tree.Span):
        found = _in_range(_number(left), given.numbers)
    else:
        assert isinstance(given, tree.Listed)
        found = _in_listed(left, given, parameters)
    return found if sign == "in" else _mapped(found, np.logical_not, found.extent)


def _in_listed(left: Vector, given: tree.Listed, parameters: Mapping[str, Parameter]) -> Vector:
    values = [one.value for one in given.elements if isinstance(one, tree.Literal)]
    whole = all(type(value) is int and abs(value) <= EXACT for value in values)
    if (
        len(values) == len(given.elements)
        and len(values) > _FEW
        and whole
        and left.kind is Kind.INT
    ):
        table = np.array(values)
        return _mapped(left, lambda value: np.isin(value, table), Extent(Kind.BOOL, 0, 1))
    equals = [_compared("==", left, vectorise(one, parameters)) for one in given.elements]
    found = Extent(Kind.BOOL, 0, 1)

    def run(columns: Columns) -> Result:
        results = [one.run(columns) for one in equals]
        value: Any = np.zeros(1, dtype=np.bool_)
        undefined: Mask | None = None
        for (
            one,
            also,
        ) in results:  # Python makes the whole list first, so one undefined element is enough
            value, undefined = value | one, _either(undefined, also)
        return value, undefined

    if not equals:
        raise Inexact
    return Vector(found, run)


def _in_range(left: Vector, numbers: range) -> Vector:
    if len(numbers) == 0 or max(abs(numbers[0]), abs(numbers[-1]), left.extent.most) > EXACT:
        raise Inexact
    low, high = min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])
    start, step = numbers.start, abs(numbers.step)

    def inside(value: Any) -> Any:
        good = (value >= low) & (value <= high)
        if step > 1:
            good &= (value - start) % step == 0
        elif left.kind is not Kind.INT:
            good &= np.floor(value) == value
        return good

    return _mapped(left, inside, Extent(Kind.BOOL, 0, 1))


def _common(vectors: list[Vector]) -> list[Vector]:
    """Return vectors of one kind, for rows of which some take one and some another.

    Raises:
        Inexact: There is none.
    """
    kinds = {vector.kind for vector in vectors}
    if len(kinds) == 1:
        return vectors
    if not kinds <= set(_NUMBERS):
        raise Inexact
    target = Kind.INT if kinds <= {Kind.BOOL, Kind.INT} else Kind.NUMBER
    return [_cast(vector, target) for vector in vectors]


def _spanning(vectors: list[Vector]) -> Extent:
    kind = vectors[0].kind
    return Extent(kind, min(v.extent.low for v in vectors), max(v.extent.high for v in vectors))


def _junction(node: tree.Junction, parameters: Mapping[str, Parameter]) -> Vector:
    return _junction_of(node.operator, [vectorise(part, parameters) for part in node.parts])


def _junction_of(word: str, parts: list[Vector]) -> Vector:
    parts = _common(parts)
    plain = parts[0].kind is Kind.BOOL
    combine = operator.and_ if word == "and" else operator.or_

    def run(columns: Columns) -> Result:
        value, undefined = parts[0].run(columns)
        going: Any = value if plain else np.asarray(value).astype(np.bool_)
        for part in parts[1:]:
            after, also = part.run(columns)
            go = going if word == "and" else np.logical_not(going)
            if also is not None:  # an undefined part counts only where it is reached
                undefined = _either(undefined, np.asarray(also & go))
            value = combine(value, after) if plain else np.where(go, after, value)
            going = value if plain else np.asarray(value).astype(np.bool_)
        return value, undefined

    return Vector(_spanning(parts), run)


def _choice(node: tree.Choice, parameters: Mapping[str, Parameter]) -> Vector:
    test = truth(vectorise(node.test, parameters))
    body, otherwise = _common(
        [vectorise(node.body, parameters), vectorise(node.otherwise, parameters)]
    )

    def run(columns: Columns) -> Result:
        chosen, undefined = test.run(columns)
        a, first = body.run(columns)
        b, second = otherwise.run(columns)
        if first is not None:
            undefined = _either(undefined, np.asarray(first & chosen))
        if second is not None:
            undefined = _either(undefined, np.asarray(second & ~np.asarray(chosen)))
        return np.where(chosen, a, b), undefined

    return Vector(_spanning([body, otherwise]), run)


def _call(node: tree.Call, parameters: Mapping[str, Parameter]) -> Vector:
    arguments = [_number(vectorise(one, parameters)) for one in node.arguments]
    if node.function in ("min", "max"):
        return _extreme(node.function, _common(arguments))
    (only,) = arguments
    if node.function == "abs":
        return _mapped(only, np.abs, intervals.absolute(only.extent))
    if node.function == "sqrt":
        return _root(_cast(only, Kind.FLOAT) if only.kind is Kind.INT else only)
    if node.function in _ROUNDING:
        return _rounded(node.function, only)
    raise Inexact


def _extreme(function: str, arguments: list[Vector]) -> Vector:
    better = operator.lt if function == "min" else operator.gt

    def run(columns: Columns) -> Result:
        value, undefined = arguments[0].run(columns)
        for argument in arguments[1:]:
            other, also = argument.run(columns)
            undefined = _either(undefined, also)
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
        return np.sqrt(np.where(negative, 0.0, value)), _either(undefined, negative)

    return Vector(found, run)


_ROUNDING: Mapping[str, Callable[[Any], Any]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "int": np.trunc,
    "round": np.rint,
}


def _rounded(function: str, only: Vector) -> Vector:
    if only.kind is Kind.INT:
        return only
    if not finite(only.extent.low, only.extent.high) or only.extent.most > EXACT:
        raise Inexact
    compute = _ROUNDING[function]
    low, high = int(np.floor(only.extent.low)), int(np.ceil(only.extent.high))
    return _mapped(only, lambda value: compute(value).astype(np.int64), Extent(Kind.INT, low, high))


_BUILDERS: Mapping[type[Any], Callable[..., Vector]] = {
    tree.Literal: _literal,
    tree.Name: _name,
    tree.Position: _position,
    tree.At: _at,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.Junction: _junction,
    tree.Comparison: _comparison,
    tree.Choice: _choice,
    tree.Call: _call,
}
