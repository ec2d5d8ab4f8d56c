"""Conditions on one running value: a sum, a product, the least or the greatest of terms that read one parameter each.

Of ``a * b * c <= 1024`` or ``count(p, q, r) == 2``, a search that chooses one parameter after another needs only the
value of the terms so far. There may be few such values although there are many choices: 301 for 300 flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from baco_like.constraints.language import tree
from baco_like.constraints.language.analysis import MIRRORED, comparison_steps
from baco_like.constraints.language.exact import UNDEFINED, Function, function
from baco_like.constraints.language.partial_evaluation import operands
from baco_like.constraints.language.tree import Comparison, Literal, Name, Node, Operation
from baco_like.parameters.values import Category

_VALUE = Name("")
"""Stands for the value of the fold in the condition on it."""

Limit: TypeAlias = tuple[str, int | float]
"""A sign and a number: ``("<=", 20)`` for a value that is at most 20."""


@dataclass(frozen=True)
class Fold:
    """A condition on one running value.

    Attributes:
        sign: ``+``, ``*``, ``min`` or ``max``.
        terms: For each parameter the terms that read it, joined by the sign.
        constants: Terms that read no parameter.
        condition: The condition on the value.
    """

    sign: str
    terms: Mapping[str, Node]
    constants: tuple[Category, ...]
    condition: Node

    @cached_property
    def _truth(self) -> Function:
        return function(self.condition, [_VALUE.name])

    def holds(self, value: Category) -> bool:
        """Whether the condition is true for a value; False if it cannot be computed."""
        try:
            return bool(self._truth([value]))
        except UNDEFINED:
            return False

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """The comparisons with numbers that make the whole condition, or none; ``==`` gives two."""
        found: list[Limit] = []
        if not isinstance(self.condition, Comparison):
            return ()
        for sign, left, right in comparison_steps(self.condition):
            if right == _VALUE:
                sign, left, right = MIRRORED.get(sign, ""), right, left
            number = right.value if isinstance(right, Literal) else None
            if left != _VALUE or sign not in MIRRORED or not isinstance(number, int | float):
                return ()
            found += [(s, number) for s in (("<=", ">=") if sign == "==" else (sign,))]
        return tuple(found)

    @cached_property
    def multiple(self) -> int | None:
        """A whole number, not 0, that every factor of a feasible product of whole numbers divides, or None.

        1024 for ``1024 % (a * b) == 0`` and for ``a * b == 1024``.
        """
        if not isinstance(self.condition, Comparison) or self.condition.operators != ("==",):
            return None
        first, second = self.condition.parts
        for left, right in ((first, second), (second, first)):
            match left, right:
                case Operation("%", (Literal(number), value)), Literal(0):
                    pass
                case value, Literal(number):
                    pass
                case _:
                    continue
            if value == _VALUE and self.sign == "*" and type(number) is int and number != 0:
                return number
        return None

    @cached_property
    def modulus(self) -> int | None:
        """The number of which only the remainder of the value matters: 7 for ``(a * b) % 7 == 3``; or None."""
        uses = [node for node in tree.walk(self.condition) if _VALUE in tree.children(node)]
        match uses:
            case [Operation("%", (first, Literal(number)))] if first == _VALUE:
                if type(number) is int and number > 0 and self.sign in ("+", "*"):
                    return number
                return None
            case _:
                return None


def find_fold(node: Node) -> Fold | None:
    """Return the fold that a condition reads its parameters through, or None."""
    fold = _find(node)
    if fold is None and isinstance(node, Comparison) and len(node.operators) == 1:
        # The sides of `a + b <= c + d` are one sum that is compared with 0.
        left, right = node.parts
        if node.operators[0] in (*MIRRORED, "!=") and not isinstance(
            right, tree.Listed | tree.Span
        ):
            difference = Operation("+", (left, Operation("unary -", (right,))))
            fold = _find(Comparison(node.operators, (difference, Literal(0))))
    return fold


def _find(node: Node) -> Fold | None:
    reading = [part for part in tree.children(node) if tree.names(part)]
    if not isinstance(node, Operation | Comparison) or not reading:
        return None
    if len(reading) > 1:
        return _join(node) if isinstance(node, Operation) else None
    if isinstance(node, Operation) and node.operator in ("and", "or", "if"):
        return None  # parts that are not reached may be undefined
    fold = _find(reading[0])
    if fold is None:
        return None
    parts = (fold.condition if part is reading[0] else part for part in node.parts)
    return replace(fold, condition=replace(node, parts=tuple(parts)))


def _join(node: Operation) -> Fold | None:
    sign = "+" if node.operator == "-" else node.operator
    if sign not in ("+", "*", "min", "max"):
        return None
    constants: list[Category] = []
    terms: dict[str, list[Node]] = {}
    for operand in operands(node):
        match tree.names(operand):
            case ():
                constants.append(function(operand, ())(()))
            case (name,):
                terms.setdefault(name, []).append(operand)
            case _:
                return None
    joined = {n: Operation(sign, tuple(own)) if own[1:] else own[0] for n, own in terms.items()}
    return Fold(sign, joined, tuple(constants), _VALUE)
