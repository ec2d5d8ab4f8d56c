"""Values that a condition compares a parameter with and that the parameter never has: most often a misspelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node
from baco_like.parameters.protocol import Parameter, is_permutation
from baco_like.parameters.values import Value, is_number

Stranger: TypeAlias = tuple[str, Value]
"""A parameter's name and the value that it is compared with."""

_EQUALITIES = frozenset({"==", "!=", "in", "not in"})


def strangers(node: Node, parameters: Mapping[str, Parameter]) -> list[Stranger]:
    """Return the constants that a parameter with listed values is tested for and never has.

    A number that is not among listed numbers is none: ``bx != 48`` may be meant for longer lists of them.
    """
    found = (pair for part in tree.walk(node) for pair in _tested(part))
    return [
        (name, value)
        for name, value in dict.fromkeys(found)
        if _is_stranger(value, _domain(parameters[name]))
    ]


def _tested(node: Node) -> Iterator[Stranger]:
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


def _is_stranger(value: Value, domain: Sequence[Value] | None) -> bool:
    if domain is None:
        return isinstance(value, str)
    numbers = is_number(value) and any(is_number(own) for own in domain)
    return not numbers and value not in domain
