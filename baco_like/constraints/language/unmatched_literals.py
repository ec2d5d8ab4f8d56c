"""Values that a condition compares a parameter with and that the parameter never has: usually misspellings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node
from baco_like.parameters.protocol import Parameter, is_permutation
from baco_like.parameters.values import Value, is_number

UnmatchedLiteral: TypeAlias = tuple[str, Value]
"""A parameter's name and the value that it is compared with."""

_EQUALITIES = frozenset({"==", "!=", "in", "not in"})


def find_unmatched_literals(
    node: Node, parameters: Mapping[str, Parameter]
) -> list[UnmatchedLiteral]:
    """Return the constants that a parameter with listed values is compared with and never has.

    Numbers are accepted for a parameter with numbers: ``bx != 48`` may be written for other lists of numbers.
    """
    pairs = (pair for part in tree.walk(node) for pair in _tested(part))
    return [
        (name, value)
        for name, value in dict.fromkeys(pairs)
        if _is_unmatched(value, _domain(parameters[name]))
    ]


def _tested(node: Node) -> Iterator[UnmatchedLiteral]:
    if not isinstance(node, tree.Comparison):
        return
    sides = pairwise((node.left, *node.rights))
    for sign, (left, right) in zip(node.operators, sides, strict=True):
        if sign not in _EQUALITIES:
            continue
        for one, other in ((left, right), (right, left)):
            if isinstance(one, tree.Name | tree.At):
                constants = other.elements if isinstance(other, tree.Listed) else (other,)
                yield from ((one.name, c.value) for c in constants if isinstance(c, tree.Literal))


def _domain(parameter: Parameter) -> Sequence[Value] | None:
    """Return the listed values or the elements of a permutation, or None for numbers between bounds."""
    return parameter.elements if is_permutation(parameter) else parameter.values


def _is_unmatched(value: Value, domain: Sequence[Value] | None) -> bool:
    if domain is None:
        return isinstance(value, str)
    numbers = is_number(value) and any(is_number(own) for own in domain)
    return not numbers and value not in domain
