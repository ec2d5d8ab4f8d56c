"""The parts of a condition that are known once some of its parameters have values.

With ``a`` and ``b`` known, ``a * b * c <= 1024`` needs only their product: any two choices with the same product leave
the same choices of ``c``. A search that keeps the product instead of both values has far fewer cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node, Operation
from baco_like.constraints.language.vectorised import (
    Inexact,
    Vector,
    compile_node,
    operations,
    vectorise,
)
from baco_like.parameters import ColumnKind, Parameter

_WHOLE = {ColumnKind.INT, ColumnKind.BOOL}


@dataclass(frozen=True)
class Term:
    """A part of a condition that reads known parameters only.

    Attributes:
        node: The part; equal parts of several conditions have equal nodes.
        names: The parameters it reads.
        vector: Its values as a function of their columns.
    """

    node: Node
    names: frozenset[str]
    vector: Vector

    @property
    def cost(self) -> int:
        """Operations for one row; see `operations`."""
        return operations(self.node, self.vector)

    @property
    def by_row(self) -> bool:
        """Whether values are computed row by row, which is slow: numbers beyond 64 bits, logarithms."""
        return self.vector.kind is ColumnKind.OBJECT


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
    return [
        Term(part, frozenset(tree.names(part)), compile_node(part, parameters)) for part in parts
    ]


def _parts(node: Node, known: frozenset[str], parameters: Mapping[str, Parameter]) -> list[Node]:
    read = tree.names(node)
    if known.isdisjoint(read):
        return []
    if known.issuperset(read):
        return [node]
    if isinstance(node, Operation) and node.operator in ("+", "-", "*"):
        all_operands = operands(node)
        mine = [o for o in all_operands if tree.names(o) and known.issuperset(tree.names(o))]
        if len(mine) > 1 and all(vectorise(o, parameters).kind in _WHOLE for o in all_operands):
            sign = "*" if node.operator == "*" else "+"
            together = Operation(sign, tuple(mine))
            rest = [operand for operand in all_operands if operand not in mine]
            return [together, *(part for o in rest for part in _parts(o, known, parameters))]
    return [part for child in tree.children(node) for part in _parts(child, known, parameters)]


def operands(node: Operation) -> list[Node]:
    """Return the summands of nested sums and differences, or the operands of nested calls of another operator."""
    return _sum(node) if node.operator in ("+", "-") else _nested(node, node.operator)


def _nested(node: Node, sign: str) -> list[Node]:
    if isinstance(node, Operation) and node.operator == sign:
        return [operand for part in node.parts for operand in _nested(part, sign)]
    return [node]


def _sum(node: Node, negative: bool = False) -> list[Node]:
    """Return the summands of nested sums and differences; subtracted ones get a minus sign."""
    match node:
        case Operation(operator="+", parts=parts):
            return [term for part in parts for term in _sum(part, negative)]
        case Operation(operator="-", parts=(left, right)):
            return _sum(left, negative) + _sum(right, not negative)
        case Operation(operator="unary -", parts=(part,)):
            return _sum(part, not negative)
    return [Operation("unary -", (node,))] if negative else [node]
