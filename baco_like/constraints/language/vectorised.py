"""Evaluation of a tree on whole NumPy columns, for trees on which NumPy gives exactly the results of Python.

Kinds and bounds of the parameters decide once, when the function is compiled, whether 64-bit integers can overflow,
an integer can lose digits as a double, or a power or logarithm (whose last bit differs between libraries) is used. If
so, `Inexact` is raised and the tree is evaluated row by row (`exact`).

A function returns values and, if some rows may be undefined, their mask; the values of undefined rows are arbitrary.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baco_like._typing import Mask
from baco_like.constraints.language import intervals, tree
from baco_like.constraints.language.functions import apply_function
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.vector import (
    Columns,
    Inexact,
    Result,
    Vector,
    cast,
    cast_to_common,
    join_extents,
    map_values,
    number,
    to_truth,
    unite_masks,
)
from baco_like.parameters.extent import ColumnKind, Extent, extent_of
from baco_like.parameters.protocol import Parameter, is_permutation
from baco_like.parameters.values import EXACT


def vectorise(node: Node, parameters: Mapping[str, Parameter]) -> Vector:
    """Compile a tree to a function of the columns of these parameters.

    Raises:
        Inexact: The tree must be evaluated row by row.
    """
    builder = _BUILDERS.get(type(node))
    if builder is None:
        raise Inexact
    return builder(node, parameters)


def _literal(node: tree.Literal, parameters: Mapping[str, Parameter]) -> Vector:
    value = node.value
    extent = extent_of([value])
    if extent.kind is ColumnKind.OBJECT:
        raise Inexact
    return Vector(extent, lambda columns: (value, None))


def _name(node: tree.Name, parameters: Mapping[str, Parameter]) -> Vector:
    name = node.name
    extent = parameters[name].extent
    if extent.kind is ColumnKind.OBJECT:
        raise Inexact
    return Vector(extent, lambda columns: (columns[name], None))


def _position(node: tree.Position, parameters: Mapping[str, Parameter]) -> Vector:
    name, element = node.name, node.element
    last = parameters[name].width - 1
    return Vector(
        Extent(ColumnKind.INT, 0, last), lambda columns: (columns[name][:, element], None)
    )


def _at(node: tree.At, parameters: Mapping[str, Parameter]) -> Vector:
    name, place = node.name, node.place
    parameter = parameters[name]
    assert is_permutation(parameter)
    extent = extent_of(parameter.elements)
    if extent.kind in (ColumnKind.OBJECT, ColumnKind.NUMBER):
        raise Inexact
    table = np.empty(
        len(parameter.elements), dtype=object if extent.kind is ColumnKind.STRING else None
    )
    table[:] = parameter.elements
    if extent.kind in (ColumnKind.INT, ColumnKind.BOOL):
        table = np.array(parameter.elements)
    return Vector(extent, lambda columns: (table[np.argmax(columns[name] == place, axis=1)], None))


def _unary(node: tree.Unary, parameters: Mapping[str, Parameter]) -> Vector:
    operand = vectorise(node.operand, parameters)
    if node.operator == "not":
        return map_values(to_truth(operand), np.logical_not, Extent(ColumnKind.BOOL, 0, 1))
    operand = number(operand)
    if node.operator == "+":
        return operand
    return map_values(operand, np.negative, intervals.negated(operand.extent))


def _binary(node: tree.Binary, parameters: Mapping[str, Parameter]) -> Vector:
    left = number(vectorise(node.left, parameters))
    right = number(vectorise(node.right, parameters))
    extent = intervals.arithmetic(node.operator, left.extent, right.extent)
    if extent is None:
        raise Inexact
    compute = _ARITHMETIC[node.operator]
    if node.operator in ("/", "//", "%") and right.extent.low <= 0 <= right.extent.high:
        return Vector(extent, _dividing(left, right, compute))
    return Vector(extent, _computing(left, right, compute))


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
        return compute(a, b), unite_masks(undefined, also)

    return run


def _dividing(
    left: Vector, right: Vector, compute: Callable[[Any, Any], Any]
) -> Callable[[Columns], Result]:
    def run(columns: Columns) -> Result:
        a, undefined = left.run(columns)
        b, also = right.run(columns)
        zero = np.asarray(b) == 0
        return compute(a, np.where(zero, 1, b)), unite_masks(unite_masks(undefined, also), zero)

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
    """Return the result of one comparison.

    Raises:
        Inexact: Numbers against strings, or large integers against floats.
    """
    extent = Extent(ColumnKind.BOOL, 0, 1)
    if left.kind is ColumnKind.STRING and right.kind is ColumnKind.STRING:
        return Vector(extent, _computing(left, right, _COMPARE[sign]))
    left, right = number(left), number(right)
    if (left.kind is ColumnKind.INT) != (right.kind is ColumnKind.INT):
        left, right = cast(left, ColumnKind.NUMBER), cast(right, ColumnKind.NUMBER)
    return Vector(extent, _computing(left, right, _COMPARE[sign]))


_FEW = 8


def _membership(
    left: Vector, given: Node, sign: str, parameters: Mapping[str, Parameter]
) -> Vector:
    if isinstance(given, tree.Span):
        inside = _in_range(number(left), given.numbers)
    else:
        assert isinstance(given, tree.Listed)
        inside = _in_listed(left, given, parameters)
    return inside if sign == "in" else map_values(inside, np.logical_not, inside.extent)


def _in_listed(left: Vector, given: tree.Listed, parameters: Mapping[str, Parameter]) -> Vector:
    values = [one.value for one in given.elements if isinstance(one, tree.Literal)]
    whole = all(type(value) is int and abs(value) <= EXACT for value in values)
    if (
        len(values) == len(given.elements)
        and len(values) > _FEW
        and whole
        and left.kind is ColumnKind.INT
    ):
        table = np.array(values)
        return map_values(left, lambda value: np.isin(value, table), Extent(ColumnKind.BOOL, 0, 1))
    equals = [_compared("==", left, vectorise(one, parameters)) for one in given.elements]
    extent = Extent(ColumnKind.BOOL, 0, 1)

    def run(columns: Columns) -> Result:
        results = [one.run(columns) for one in equals]
        value: Any = np.zeros(1, dtype=np.bool_)
        undefined: Mask | None = None
        for (
            one,
            also,
        ) in results:  # Python builds the whole list first, so one undefined element is enough
            value, undefined = value | one, unite_masks(undefined, also)
        return value, undefined

    if not equals:
        raise Inexact
    return Vector(extent, run)


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

    return map_values(left, inside, Extent(ColumnKind.BOOL, 0, 1))


def _junction(node: tree.Junction, parameters: Mapping[str, Parameter]) -> Vector:
    return _junction_of(node.operator, [vectorise(part, parameters) for part in node.parts])


def _junction_of(word: str, parts: list[Vector]) -> Vector:
    parts = cast_to_common(parts)
    plain = parts[0].kind is ColumnKind.BOOL
    combine = operator.and_ if word == "and" else operator.or_

    def run(columns: Columns) -> Result:
        value, undefined = parts[0].run(columns)
        going: Any = value if plain else np.asarray(value).astype(np.bool_)
        for part in parts[1:]:
            after, also = part.run(columns)
            go = going if word == "and" else np.logical_not(going)
            if also is not None:  # an undefined part counts only in rows that reach it
                undefined = unite_masks(undefined, np.asarray(also & go))
            value = combine(value, after) if plain else np.where(go, after, value)
            going = value if plain else np.asarray(value).astype(np.bool_)
        return value, undefined

    return Vector(join_extents(parts), run)


def _choice(node: tree.Choice, parameters: Mapping[str, Parameter]) -> Vector:
    test = to_truth(vectorise(node.test, parameters))
    body, otherwise = cast_to_common(
        [vectorise(node.body, parameters), vectorise(node.otherwise, parameters)]
    )

    def run(columns: Columns) -> Result:
        chosen, undefined = test.run(columns)
        a, first = body.run(columns)
        b, second = otherwise.run(columns)
        if first is not None:
            undefined = unite_masks(undefined, np.asarray(first & chosen))
        if second is not None:
            undefined = unite_masks(undefined, np.asarray(second & ~np.asarray(chosen)))
        return np.where(chosen, a, b), undefined

    return Vector(join_extents([body, otherwise]), run)


def _call(node: tree.Call, parameters: Mapping[str, Parameter]) -> Vector:
    arguments = [number(vectorise(one, parameters)) for one in node.arguments]
    return apply_function(node.function, arguments)


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
