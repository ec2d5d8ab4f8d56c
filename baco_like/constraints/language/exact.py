"""Evaluation of a tree on one row of plain Python values, with exactly the results of Python.

This is the reference; `vectorised` is the fast evaluation of trees for which NumPy gives the same results.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node

MAX_BITS = 4096
"""Integers of more bits are not computed; the row counts as undefined."""

UNDEFINED = (ArithmeticError, ValueError, TypeError)
"""Errors of undefined rows: division by zero, logarithm of 0, a string among numbers, numbers too large."""

Row: TypeAlias = Sequence[Any]
"""The values of the parameters in the order of their names; an `Arrangement` for a permutation."""

Function: TypeAlias = Callable[[Row], Any]


@dataclass(frozen=True)
class Arrangement:
    """One value of a permutation.

    Attributes:
        positions: Position of every element, in the order of the elements.
        order: The elements, outermost first.
    """

    positions: tuple[int, ...]
    order: tuple[Any, ...]


def function(node: Node, names: Sequence[str]) -> Function:
    """Return the function that evaluates a tree on a row of the values of ``names``; it may raise `UNDEFINED`."""
    return _BUILDERS[type(node)](node, names)


def _literal(node: tree.Literal, names: Sequence[str]) -> Function:
    value = node.value
    return lambda row: value


def _name(node: tree.Name, names: Sequence[str]) -> Function:
    return operator.itemgetter(names.index(node.name))


def _position(node: tree.Position, names: Sequence[str]) -> Function:
    column, element = names.index(node.name), node.element
    return lambda row: row[column].positions[element]


def _at(node: tree.At, names: Sequence[str]) -> Function:
    column, place = names.index(node.name), node.place
    return lambda row: row[column].order[place]


def _unary(node: tree.Unary, names: Sequence[str]) -> Function:
    operand = function(node.operand, names)
    if node.operator == "not":
        return lambda row: not operand(row)
    sign = operator.neg if node.operator == "-" else operator.pos
    return lambda row: sign(number(operand(row)))


def _binary(node: tree.Binary, names: Sequence[str]) -> Function:
    left, right = function(node.left, names), function(node.right, names)
    compute = ARITHMETIC[node.operator]
    return lambda row: compute(number(left(row)), number(right(row)))


def number(value: Any) -> Any:
    """Return a number or bool unchanged; raise `TypeError` for text."""
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a number")
    return value


def _times(left: Any, right: Any) -> Any:
    return _bounded(left * right)


def _bounded(result: Any) -> Any:
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    return result


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and exponent > 0 and int(base).bit_length() * exponent > MAX_BITS + exponent:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("a root of a negative number")
    return _bounded(result)


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": _times,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
}


def _junction(node: tree.Junction, names: Sequence[str]) -> Function:
    *first, last = (function(part, names) for part in node.parts)
    stop = node.operator == "or"

    def evaluate(row: Row) -> Any:
        for part in first:
            value = part(row)
            if bool(value) == stop:
                return value
        return last(row)

    return evaluate


def _comparison(node: tree.Comparison, names: Sequence[str]) -> Function:
    first = function(node.left, names)
    steps = [
        (COMPARE[sign], function(right, names))
        for sign, right in zip(node.operators, node.rights, strict=True)
    ]

    def evaluate(row: Row) -> bool:
        left = first(row)
        for compare, right_of in steps:
            right = right_of(row)
            if not compare(left, right):
                return False
            left = right
        return True

    return evaluate


def _within(value: Any, collection: Any) -> bool:
    if not isinstance(collection, range):
        return value in collection
    # Python would iterate over the whole range for a float.
    return (
        not isinstance(value, str)
        and math.isfinite(value)
        and value == int(value)
        and int(value) in collection
    )


COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": _within,
    "not in": lambda value, collection: not _within(value, collection),
}


def _choice(node: tree.Choice, names: Sequence[str]) -> Function:
    test, body = function(node.test, names), function(node.body, names)
    otherwise = function(node.otherwise, names)
    return lambda row: body(row) if test(row) else otherwise(row)


def _listed(node: tree.Listed, names: Sequence[str]) -> Function:
    elements = [function(element, names) for element in node.elements]
    return lambda row: tuple(element(row) for element in elements)


def _span(node: tree.Span, names: Sequence[str]) -> Function:
    numbers = node.numbers
    return lambda row: numbers


def _call(node: tree.Call, names: Sequence[str]) -> Function:
    compute = FUNCTIONS[node.function]
    arguments = [function(argument, names) for argument in node.arguments]
    if len(arguments) == 1:
        (only,) = arguments
        return lambda row: compute(number(only(row)))
    return lambda row: compute(*[number(argument(row)) for argument in arguments])


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
    "int": int,
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
}
"""The functions of the language; `VARIADIC` ones take two or more numbers, the others one."""

VARIADIC = frozenset({"min", "max"})

_BUILDERS: Mapping[type[Any], Callable[..., Function]] = {
    tree.Literal: _literal,
    tree.Name: _name,
    tree.Position: _position,
    tree.At: _at,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.Junction: _junction,
    tree.Comparison: _comparison,
    tree.Choice: _choice,
    tree.Listed: _listed,
    tree.Span: _span,
    tree.Call: _call,
}
