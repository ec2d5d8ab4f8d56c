"""The parts of a condition that are known once some of its parameters have values.

With ``a`` and ``b`` known, ``a * b * c <= 1024`` needs only their product: any two choices with the same product leave
the same choices of ``c``. A search that keeps the product instead of both values has far fewer cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.columns import plain_values
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.vector import Columns, Inexact, Result, Vector
from baco_like.constraints.language.vectorised import vectorise
from baco_like.parameters.extent import ColumnKind, Extent
from baco_like.parameters.protocol import Parameter

_WHOLE = (ColumnKind.INT, ColumnKind.BOOL)


@dataclass(frozen=True)
class Term:
    """A part of a condition that reads known parameters only.

    Attributes:
        node: The part; equal parts of several conditions have equal nodes.
        names: The parameters it reads.
        vector: Its values as a function of their columns.
        by_row: Whether values are computed row by row, which is slow: numbers beyond 64 bits, logarithms.
    """

    node: Node
    names: frozenset[str]
    vector: Vector
    by_row: bool = False


def find_known_terms(
    node: Node, known: frozenset[str], parameters: Mapping[str, Parameter]
) -> list[Term] | None:
    """Return parts whose values decide, together with the other parameters, whether the condition holds.

    They are the largest parts that read known parameters only; of a sum or product of integers, which may be
    reordered, all known operands make one part.

    Returns:
        The parts, or None if the operands of a sum or product may be other numbers than integers.
    """
    try:
        parts = dict.fromkeys(_parts(node, known, parameters))
    except Inexact:
        return None
    return [_term(part, parameters) for part in parts]


def _term(part: Node, parameters: Mapping[str, Parameter]) -> Term:
    names = frozenset(tree.names(part))
    try:
        return Term(part, names, vectorise(part, parameters))
    except Inexact:
        return Term(part, names, _by_row(part, parameters), by_row=True)


def _by_row(part: Node, parameters: Mapping[str, Parameter]) -> Vector:
    """Return a part's values as Python objects, computed by `exact`."""
    read = tree.names(part)
    function = exact.function(part, read)

    def run(columns: Columns) -> Result:
        rows = zip(*(plain_values(parameters[name], columns[name]) for name in read), strict=True)
        found = [_value(function, row) for row in rows]
        defined = (0 if one is None else one for one in found)
        values = np.fromiter(defined, dtype=object, count=len(found))
        return values, np.array([one is None for one in found], dtype=np.bool_)

    return Vector(Extent(ColumnKind.OBJECT), run)


def _value(function: exact.Function, row: exact.Row) -> Any:
    try:
        return function(row)
    except exact.UNDEFINED:
        return None


def _parts(node: Node, known: frozenset[str], parameters: Mapping[str, Parameter]) -> list[Node]:
    read = tree.names(node)
    if known.isdisjoint(read):
        return []
    if known.issuperset(read):
        return [node]
    inside = tree.children(node)
    if isinstance(node, tree.Binary) and node.operator in ("+", "-", "*"):
        operands = _product(node) if node.operator == "*" else _sum(node)
        mine = [one for one in operands if tree.names(one) and known.issuperset(tree.names(one))]
        if len(mine) > 1 and all(vectorise(one, parameters).kind in _WHOLE for one in operands):
            operator = "*" if node.operator == "*" else "+"
            together = reduce(lambda left, right: tree.Binary(operator, left, right), mine)
            rest = [one for one in operands if one not in mine]
            return [together, *(part for one in rest for part in _parts(one, known, parameters))]
    return [part for one in inside for part in _parts(one, known, parameters)]


def _product(node: Node) -> list[Node]:
    """Return the factors of nested products."""
    if isinstance(node, tree.Binary) and node.operator == "*":
        return _product(node.left) + _product(node.right)
    return [node]


def _sum(node: Node, negative: bool = False) -> list[Node]:
    """Return the summands of nested sums and differences; subtracted ones get a minus sign."""
    if isinstance(node, tree.Binary) and node.operator in ("+", "-"):
        flip = negative != (node.operator == "-")
        return _sum(node.left, negative) + _sum(node.right, flip)
    return [tree.Unary("-", node)] if negative else [node]
