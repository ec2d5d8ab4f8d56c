"""Evaluation of a tree on one row of plain Python values, with exactly the results of Python.

This is the reference; `vectorised` is the fast evaluation of trees for which NumPy gives the same results.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from baco_like._typing import Column
from baco_like.constraints.language import tree
from baco_like.constraints.language.sequences import read_value
from baco_like.constraints.language.tree import Node
from baco_like.parameters import ColumnKind, Parameter, is_permutation, is_sequence
from baco_like.parameters.values import is_number

MAX_BITS = 4096
"""Integers of more bits are not computed; the row counts as undefined."""

UNDEFINED = (ArithmeticError, ValueError, TypeError)
"""Errors of undefined rows: division by zero, logarithm of 0, a string among numbers, numbers too large."""

Row: TypeAlias = Sequence[Any]
"""The values of the parameters in the order of their names; an `Arrangement` for a permutation or a sequence."""

Function: TypeAlias = Callable[[Row], Any]


@dataclass(frozen=True)
class Arrangement:
    """One value of a permutation or a sequence.

    Attributes:
        positions: Position of every element, in the order of the elements; of a sequence the codes of its elements.
        order: The elements, the first or outermost one first.
    """

    positions: tuple[int, ...]
    order: tuple[Any, ...]


def row_values(parameter: Parameter, column: Column) -> list[Any]:
    """Return the Python values of a column; those of permutations and sequences are `Arrangement` objects."""
    values: list[Any] = column.tolist()
    if is_permutation(parameter):
        inverses = np.argsort(column, axis=1).tolist()
        elements = parameter.elements
        return [
            Arrangement(tuple(positions), tuple(elements[i] for i in inverse))
            for positions, inverse in zip(values, inverses, strict=True)
        ]
    if is_sequence(parameter):
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
        case tree.Position(name=name, element=element):
            column = names.index(name)
            return lambda row: row[column].positions[element]
        case tree.At(name=name, place=place):
            column = names.index(name)
            return lambda row: row[column].order[place]
        case tree.Reading(name=name, function="at" | "last"):
            column = names.index(name)
            return lambda row: _element(node, row[column])
        case tree.Reading(name=name):
            column = names.index(name)
            return lambda row: read_value(node, row[column].positions)
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
            return _computation(_OPERATIONS[name], parts)


def _element(node: tree.Reading, value: Arrangement) -> Any:
    """Return an element of a sequence; raise `ValueError` if there is none."""
    code = read_value(node, value.positions)
    if code == 0:
        raise ValueError(f"{value.order} has no such element")
    return value.order[value.positions.index(code - 1)]


def number(value: Any) -> Any:
    """Return a number or bool unchanged; raise `TypeError` for a text, a tuple or None."""
    if value is None or isinstance(value, str | tuple):
        raise TypeError(f"{value!r} is not a number")
    return value


def _computation(compute: Callable[..., Any], operands: list[Function]) -> Function:
    if compute in _CHAINS and len(operands) > 2:
        return lambda row: reduce(compute, [number(operand(row)) for operand in operands])
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


def _times(left: Any, right: Any) -> Any:
    return _check_bits(left * right)


def _check_bits(result: Any) -> Any:
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    return result


def _shift(value: Any, places: Any) -> Any:
    if value and places > MAX_BITS:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    return _check_bits(value << places) if value else value << min(places, 1)


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and exponent > 0 and int(base).bit_length() * exponent > MAX_BITS + exponent:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("a root of a negative number")
    return _check_bits(result)


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": _times,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
    "<<": _shift,
    ">>": operator.rshift,
    "&": operator.and_,
    "^": operator.xor,
    "|": operator.or_,
}


_CHAINS = (operator.add, _times, operator.and_, operator.xor, operator.or_)
"""Operators that a node may have with more than two operands; they are computed from the left."""


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

_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **ARITHMETIC,
    **FUNCTIONS,
    "unary -": operator.neg,
    "unary +": operator.pos,
    "~": lambda value: ~operator.index(value),
}
