"""Evaluation of a tree on one row of plain Python values, with exactly the results of Python.

This is the reference; `vectorised` is the fast evaluation of trees for which NumPy gives the same results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from baco_like._typing import Column
from baco_like.constraints.language import tree
from baco_like.constraints.language.operators import CHAINS, COMPARE, OPERATORS
from baco_like.constraints.language.sequences import read_value
from baco_like.constraints.language.tree import Node
from baco_like.parameters import ColumnKind, Parameter
from baco_like.parameters.protocol import is_permutation, is_sequence
from baco_like.parameters.values import is_number

UNDEFINED = (ArithmeticError, ValueError, TypeError)
"""Errors of undefined rows: division by zero, logarithm of 0, a string among numbers, numbers too large."""

Row: TypeAlias = Sequence[Any]
"""The values of the parameters in the order of their names; an `Arrangement` for a permutation or a sequence."""

Function: TypeAlias = Callable[[Row], Any]


@dataclass(frozen=True)
class Arrangement:
    """One value of a permutation or a sequence.

    Attributes:
        codes: The indices of its elements, the first or outermost one first.
        order: These elements.
    """

    codes: tuple[int, ...]
    order: tuple[Any, ...]


def row_values(parameter: Parameter, column: Column) -> list[Any]:
    """Return the Python values of a column; those of permutations and sequences are `Arrangement` objects."""
    if is_permutation(parameter):
        column = np.argsort(column, axis=1)
    values: list[Any] = column.tolist()
    if is_permutation(parameter) or is_sequence(parameter):
        codes = [tuple(code for code in row if code >= 0) for row in values]
        return [Arrangement(row, tuple(parameter.elements[i] for i in row)) for row in codes]
    if parameter.values is not None and parameter.extent.kind is ColumnKind.NUMBER:
        own = {float(value): value for value in parameter.values if is_number(value)}
        return [own[value] for value in values]
    return values


def function(node: Node, names: Sequence[str]) -> Function:
    """Return the function that evaluates a tree on a row of the values of ``names``; it may raise `UNDEFINED`."""
    parts = [function(part, names) for part in tree.children(node)]
    match node:
        case tree.Literal(value=constant) | tree.Span(numbers=constant):
            return lambda row: constant
        case tree.Name(name=name):
            return operator.itemgetter(names.index(name))
        case tree.Reading(name=name, function=reading):
            column = names.index(name)
            if reading in ("at", "last"):
                return lambda row: _element(node, row[column])
            return lambda row: read_value(node, row[column].codes)
        case tree.Listed():
            return lambda row: tuple(part(row) for part in parts)
        case tree.Comparison(operators=operators):
            return _comparison([COMPARE[sign] for sign in operators], parts)
        case tree.Operation(operator="and" | "or" as word):
            return _junction(word == "or", parts)
        case tree.Operation(operator="not"):
            return lambda row: not parts[0](row)
        case tree.Operation(operator="if"):
            body, test, otherwise = parts
            return lambda row: body(row) if test(row) else otherwise(row)
        case tree.Operation(operator=name):
            compute = OPERATORS[name].exact
            if name in CHAINS and len(parts) > 2:
                return lambda row: reduce(compute, [number(part(row)) for part in parts])
            return _computation(compute, parts)


def _element(node: tree.Reading, value: Arrangement) -> Any:
    """Return an element of a permutation or sequence; raise `ValueError` if there is none."""
    code = read_value(node, value.codes)
    if code == 0:
        raise ValueError(f"{value.order} has no such element")
    return value.order[value.codes.index(code - 1)]


def number(value: Any) -> Any:
    """Return a number or bool unchanged; raise `TypeError` for a text, a tuple or None."""
    if value is None or isinstance(value, str | tuple):
        raise TypeError(f"{value!r} is not a number")
    return value


def _computation(compute: Callable[..., Any], operands: list[Function]) -> Function:
    if len(operands) == 1:  # one or two operands are read faster than a list of them
        (only,) = operands
        return lambda row: compute(number(only(row)))
    if len(operands) == 2:
        left, right = operands
        return lambda row: compute(number(left(row)), number(right(row)))
    return lambda row: compute(*[number(operand(row)) for operand in operands])


def _junction(stop: bool, parts: list[Function]) -> Function:
    *first, last = parts

    def evaluate(row: Row) -> Any:
        for part in first:
            value = part(row)
            if bool(value) == stop:
                return value
        return last(row)

    return evaluate


def _comparison(compares: list[Callable[[Any, Any], bool]], sides: list[Function]) -> Function:
    first, *rights = sides
    steps = list(zip(compares, rights, strict=True))

    def evaluate(row: Row) -> bool:
        left = first(row)
        for compare, right_of in steps:
            right = right_of(row)
            if not compare(left, right):
                return False
            left = right
        return True

    return evaluate
