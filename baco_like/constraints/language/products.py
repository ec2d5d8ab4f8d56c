"""The products of parameters in a condition: the number of threads in ``bx * by <= 1024``."""

from __future__ import annotations

from collections.abc import Iterator

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node


def find_products(node: Node) -> list[tuple[str, ...]]:
    """Return the factors of every product of two or more names, sorted, each product once.

    Constant factors are ignored. A product inside a larger product is part of it; products inside a sum are separate:
    ``(bx * tx + 2) * (by * ty + 2)`` has two products.
    """
    found = (tuple(sorted(factors)) for factors in _products(node))
    return list(dict.fromkeys(factors for factors in found if len(set(factors)) > 1))


def _products(node: Node) -> Iterator[list[str]]:
    factors = _factors(node)
    if factors is not None:
        yield factors
        return
    for child in tree.children(node):
        yield from _products(child)


def _factors(node: Node) -> list[str] | None:
    """Return the names that are multiplied, or None if the node is not a product of names and numbers."""
    if isinstance(node, tree.Name):
        return [node.name]
    if isinstance(node, tree.Literal):
        return []
    if isinstance(node, tree.Binary) and node.operator == "*":
        left, right = _factors(node.left), _factors(node.right)
        return None if left is None or right is None else left + right
    return None
