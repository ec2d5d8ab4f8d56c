"""Properties of a condition, found without evaluating it: bounds, products, comparisons with unknown values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias, TypeGuard

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node
from baco_like.parameters.protocol import Parameter, is_permutation, is_sequence
from baco_like.parameters.values import Category, is_number

UnmatchedLiteral: TypeAlias = tuple[str, Category]
"""A parameter's name and the value that it is compared with."""

MIRRORED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
"""The sign of each comparison with its sides exchanged."""


def comparison_steps(node: tree.Comparison) -> Iterator[tuple[str, Node, Node]]:
    """Yield the sign and the two sides of each comparison of a chain."""
    for sign, (left, right) in zip(node.operators, pairwise(node.parts), strict=True):
        yield sign, left, right


def find_bounds(node: Node, name: str) -> tuple[float, float]:
    """Return the least and the greatest number that comparisons of a parameter with constants allow.

    The bounds themselves may be allowed or not: 0.1 and 0.2 for ``0.1 < x <= 1e-3 * 200``. Other conditions, and
    comparisons joined by ``or``, give no bound.
    """
    bounds = [(-math.inf, math.inf)]
    if isinstance(node, tree.Operation) and node.operator == "and":
        bounds += [find_bounds(part, name) for part in node.parts]
    if isinstance(node, tree.Comparison):
        bounds += [_bounds_of_step(*step, name) for step in comparison_steps(node)]
    return max(low for low, _ in bounds), min(high for _, high in bounds)


def _bounds_of_step(sign: str, left: Node, right: Node, name: str) -> tuple[float, float]:
    low, high = -math.inf, math.inf
    if isinstance(right, tree.Name):
        sign, left, right = MIRRORED.get(sign, ""), right, left
    mine = isinstance(left, tree.Name) and left.name == name
    if mine and isinstance(right, tree.Literal) and is_number(right.value):
        number = float(right.value)
        low = number if sign in (">", ">=", "==") else low
        high = number if sign in ("<", "<=", "==") else high
    return low, high


def find_products(node: Node) -> list[tuple[str, ...]]:
    """Return the factors of every product of two or more names, sorted, each product once.

    For example the number of threads in ``bx * by <= 1024``. Constant factors are ignored. A product inside a larger
    product is part of it; products inside a sum are separate: ``(bx * tx + 2) * (by * ty + 2)`` has two products.
    """
    products = (tuple(sorted(factors)) for factors in _products(node))
    return list(dict.fromkeys(factors for factors in products if len(set(factors)) > 1))


def find_quotients(node: Node) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the factors above and below every quotient of products of names, sorted, each quotient once.

    A remainder names a quotient too: ``threads % warps == 0`` means that their quotient is whole. Constant factors are
    ignored; a quotient with names on one side only is left out, and so are names on both sides.
    """
    quotients = dict.fromkeys(
        _without_common(above, below)
        for part in tree.walk(node)
        if isinstance(part, tree.Operation) and part.operator in ("/", "//", "%")
        for above, below in [tuple(_factors(side) for side in part.parts)]
        if above is not None and below is not None
    )
    return [quotient for quotient in quotients if all(quotient)]


def _without_common(above: list[str], below: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    first, second = Counter(above), Counter(below)
    return tuple(sorted((first - second).elements())), tuple(sorted((second - first).elements()))


def _products(node: Node) -> Iterator[list[str]]:
    factors = _factors(node)
    if factors is not None:
        yield factors
        return
    for child in tree.children(node):
        yield from _products(child)


def _factors(node: Node) -> list[str] | None:
    """Return the names that are multiplied, or None if the node is not a product of names and numbers."""
    match node:
        case tree.Name(name=name):
            return [name]
        case tree.Literal():
            return []
        case tree.Operation(operator="*", parts=parts):
            factors = [found for part in parts if (found := _factors(part)) is not None]
            return sum(factors, list[str]()) if len(factors) == len(parts) else None
        case _:
            return None


def find_unmatched_literals(
    node: Node, parameters: Mapping[str, Parameter]
) -> list[UnmatchedLiteral]:
    """Return the constants that a parameter with listed values is compared with and never has: usually misspellings.

    Numbers are accepted for a parameter with numbers: ``bx != 48`` may be written for other lists of numbers.
    """
    comparisons = (part for part in tree.walk(node) if isinstance(part, tree.Comparison))
    steps = (step for comparison in comparisons for step in comparison_steps(comparison))
    sides = (
        (side, other)
        for sign, left, right in steps
        for side, other in ((left, right), (right, left))
        if sign in ("==", "!=", "in", "not in")
    )
    pairs = (
        (side.name, constant.value)
        for side, other in sides
        for constant in (other.parts if isinstance(other, tree.Listed) else (other,))
        if isinstance(side, tree.Name | tree.At) or _is_element(side)
        if isinstance(constant, tree.Literal)
    )
    return [pair for pair in dict.fromkeys(pairs) if _is_unmatched(pair[1], parameters[pair[0]])]


def _is_element(node: Node) -> TypeGuard[tree.Reading]:
    return isinstance(node, tree.Reading) and node.function in ("at", "last")


def _is_unmatched(value: Category, parameter: Parameter) -> bool:
    if is_permutation(parameter) or is_sequence(parameter):
        domain: Sequence[Category] | None = parameter.elements
    else:
        domain = parameter.values
    if domain is None:
        return value is None or isinstance(value, str | tuple)
    numbers = is_number(value) and any(is_number(own) for own in domain)
    return not numbers and value not in domain
