"""The nodes of an expression; each knows its position in the text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from baco_like.constraints.language.operators import CHAINS
from baco_like.parameters.values import Category


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A node with its position in the text: from ``start`` up to ``end``, in characters from 0."""

    start: int = field(default=0, compare=False, repr=False)
    end: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Literal(_Placed):
    """A number, string or bool."""

    value: Category


@dataclass(frozen=True)
class Name(_Placed):
    """The value of a scalar parameter."""

    name: str


@dataclass(frozen=True)
class Reading(_Placed):
    """A reading of a permutation or a sequence; elements are indices among its elements, places count from 0.

    The functions are ``pos`` of an element and ``at`` of a place, and of sequences ``len``, ``count`` and ``in`` of an
    element, ``follows`` of two, and ``last``.
    """

    name: str
    function: str
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True)
class Operation(_Placed):
    """An operator or function with its operands, in the order of the text.

    * ``+ - * / // % ** << >> & ^ | ~`` and ``unary -``, ``unary +``: operators of numbers; those in
      `operators.CHAINS` have two or more operands, computed from the left;
    * ``min``, ``sqrt`` and all other `operators.FUNCTIONS`: functions of numbers;
    * ``not``;
    * ``and``, ``or``: two or more parts; as in Python, the first deciding part is the value;
    * ``if``: the three parts of ``body if test else otherwise``.
    """

    operator: str
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Comparison(_Placed):
    """One or more comparisons in a chain; the right side of ``in`` and ``not in`` is `Listed` or `Span`."""

    operators: tuple[str, ...]
    parts: tuple[Node, ...]
    """The sides, one more than there are operators."""


@dataclass(frozen=True)
class Listed(_Placed):
    """A tuple, list or set to the right of ``in``."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Span(_Placed):
    """A ``range`` to the right of ``in``."""

    numbers: range


Node: TypeAlias = Literal | Name | Reading | Operation | Comparison | Listed | Span


def children(node: Node) -> tuple[Node, ...]:
    """Return the parts of a node in the order of the text."""
    return node.parts if isinstance(node, Operation | Comparison | Listed) else ()


def is_condition(node: Node, flags: Collection[str] = ()) -> bool:
    """Return whether a node is a comparison, or made of comparisons by ``and or not & ^ |``.

    Args:
        node: The node.
        flags: Names that are conditions too.
    """
    match node:
        case Comparison() | Literal(value=bool()) | Operation(operator="not"):
            return True
        case Reading(function="in" | "follows"):
            return True
        case Operation(operator="and" | "or" | "&" | "^" | "|", parts=parts):
            return all(is_condition(part, flags) for part in parts)
        case Name(name=name):
            return name in flags
    return False


def chain_steps(node: Comparison) -> list[Comparison]:
    """Return the comparisons that a chain joins by ``and``: ``a < b`` and ``b < c`` for ``a < b < c``."""
    pairs = zip(node.operators, pairwise(node.parts), strict=True)
    return [Comparison((sign,), sides) for sign, sides in pairs]


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, in the order of the text."""
    yield node
    for child in children(node):
        yield from walk(child)


def size(node: Node) -> int:
    """Return the number of nodes of a tree; a sum of n operands, or the like, counts as n - 1 of two."""
    chains = (p for p in walk(node) if isinstance(p, Operation) and p.operator in CHAINS)
    return sum(1 for _ in walk(node)) + sum(len(part.parts) - 2 for part in chains)


def names(node: Node) -> tuple[str, ...]:
    """Return the parameters that an expression reads, each once, in the order of the text."""
    reads = (part for part in walk(node) if isinstance(part, Name | Reading))
    return tuple(dict.fromkeys(part.name for part in reads))
