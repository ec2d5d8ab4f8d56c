"""What a condition still needs to know of those of its parameters that have their values already.

With ``a`` and ``b`` known, ``a * b * c <= 1024`` needs their product and no more: any two choices with the same product
leave the same choices of ``c``. A search that keeps the product instead of both values has far fewer cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from baco_like.spaces.language import tree
from baco_like.spaces.language.columns import Kind
from baco_like.spaces.language.tree import Node
from baco_like.spaces.language.vector import Inexact, Vector
from baco_like.spaces.language.vectorised import vectorise
from baco_like.spaces.parameter import Parameter

_WHOLE = (Kind.INT, Kind.BOOL)


@dataclass(frozen=True)
class Term:
    """A part of a condition all of whose parameters are known.

    Attributes:
        node: The part; equal parts of several conditions have equal nodes.
        names: The parameters it reads.
        vector: Its values as a function of their columns.
    """

    node: Node
    names: frozenset[str]
    vector: Vector


def known_terms(
    node: Node, known: frozenset[str], parameters: Mapping[str, Parameter]
) -> list[Term] | None:
    """Return parts whose values decide, together with the other parameters, whether the condition holds.

    They are the largest parts that read known parameters only; of a sum or product of integers, which may be
    reordered, all known operands make one part.

    Returns:
        The parts, or None where one of them cannot be computed for whole columns.
    """
    try:
        return [
            Term(part, frozenset(tree.names(part)), vectorise(part, parameters))
            for part in dict.fromkeys(_parts(node, known, parameters))
        ]
    except Inexact:
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
    """Return the factors of a product of products."""
    if isinstance(node, tree.Binary) and node.operator == "*":
        return _product(node.left) + _product(node.right)
    return [node]


def _sum(node: Node, negative: bool = False) -> list[Node]:
    """Return the summands of sums and differences, those that are taken away with a minus sign."""
    if isinstance(node, tree.Binary) and node.operator in ("+", "-"):
        flip = negative != (node.operator == "-")
        return _sum(node.left, negative) + _sum(node.right, flip)
    return [tree.Unary("-", node)] if negative else [node]
