"""Properties of a condition, found without evaluating it: bounds, products, comparisons with unknown values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias, TypeGuard

from baco_like.constraints.language import tree
from baco_like.constraints.language.exact import UNDEFINED, Function, function
from baco_like.constraints.language.tree import Comparison, Literal, Name, Node, Operation
from baco_like.constraints.language.vectorised import (
    Inexact,
    Vector,
    compile_node,
    operations,
    vectorise,
)
from baco_like.parameters import ColumnKind
from baco_like.parameters.protocol import Parameter, listed_values
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
        if isinstance(side, tree.Name) or _is_element(side)
        if isinstance(constant, tree.Literal)
    )
    return [pair for pair in dict.fromkeys(pairs) if _is_unmatched(pair[1], parameters[pair[0]])]


def find_ordered_names(node: Node) -> list[str]:
    """Return the parameters that are compared by order."""
    comparisons = (part for part in tree.walk(node) if isinstance(part, tree.Comparison))
    steps = (step for comparison in comparisons for step in comparison_steps(comparison))
    ordered = (side for sign, *sides in steps for side in sides if sign[0] in "<>")
    return list(dict.fromkeys(side.name for side in ordered if isinstance(side, tree.Name)))


def _is_element(node: Node) -> TypeGuard[tree.Reading]:
    return isinstance(node, tree.Reading) and node.function in ("at", "last")


def _is_unmatched(value: Category, parameter: Parameter) -> bool:
    domain = listed_values(parameter)
    if domain is None:
        return value is None or isinstance(value, str | tuple)
    numbers = is_number(value) and any(is_number(own) for own in domain)
    return not numbers and value not in domain


# Inactive parameters ------------------------------------------------------------------------------------------------
#
# Conditions that read inactive parameters: true, false or unknown, in the three-valued logic of Kleene.
#
# A comparison that contains an inactive parameter is unknown. ``and``, ``or``, ``not`` and ``if`` of unknown parts are
# known where every truth of these parts gives the same result (the strong logic of Kleene 1952, "Introduction to
# metamathematics", section 64): ``c == 'x' and p == 'a'`` is false where ``c`` is not 'x', also if ``p`` is inactive.
#
# Two conditions of ordinary logic express this: one that holds where the original is true, one where it is false.


_DUAL = {"and": "or", "or": "and", "&": "|", "|": "&"}


def where_known(node: Node, active: Mapping[str, Node], truth: bool = True) -> Node:
    """Return a condition that holds where another one is known to be true, or to be false.

    It computes no comparison with an inactive parameter, and skips the parts that Python's ``and``, ``or`` and ``if``
    skip.

    Args:
        node: The other condition.
        active: For each parameter that may be inactive, a condition that tells where it is active.
        truth: True or false.
    """
    reads = [active[name] for name in tree.names(node) if name in active]
    own = node if truth else _negate(node)
    if not reads:
        return own
    match node:
        case tree.Operation(operator="not", parts=(part,)):
            return where_known(part, active, not truth)
        case tree.Operation(operator=word, parts=parts) if word in _DUAL and (
            word in ("and", "or") or tree.is_condition(node)
        ):
            return _join(
                word if truth else _DUAL[word], [where_known(p, active, truth) for p in parts]
            )
        case tree.Operation(operator="if", parts=parts):
            return _choose(parts, active, truth)
        case tree.Comparison(operators=(_, _, *_)):
            steps = [where_known(step, active, truth) for step in tree.chain_steps(node)]
            return _join("and" if truth else "or", steps)
    return _join("and", [*reads, own])


def _negate(node: Node) -> Node:
    if isinstance(node, tree.Literal):
        return tree.Literal(not node.value)
    return tree.Operation("not", (node,))


def _choose(parts: tuple[Node, ...], active: Mapping[str, Node], truth: bool) -> Node:
    """Return where ``body if test else otherwise`` is known to be true, or to be false."""
    body, otherwise = (where_known(part, active, truth) for part in (parts[0], parts[2]))
    yes, no = (where_known(parts[1], active, known) for known in (True, False))
    if active.keys() & set(tree.names(parts[1])):  # where the test is unknown, both must agree
        no = _join("or", [no, body])
    return _join("or", [_join("and", [yes, body]), _join("and", [no, otherwise])])


def _join(word: str, parts: Iterable[Node]) -> Node:
    """Return the parts joined by ``and or & |``, without constants that change nothing."""
    stop = word in ("or", "|")
    kept: list[Node] = []
    for part in parts:
        if not isinstance(part, tree.Literal):
            kept.append(part)
        elif bool(part.value) is stop:  # it decides: later parts are not reached
            kept.append(tree.Literal(stop))
            break
    if not kept:
        return tree.Literal(not stop)
    return kept[0] if len(kept) == 1 else tree.Operation(word, tuple(kept))


# Known parts --------------------------------------------------------------------------------------------------------
#
# The parts of a condition that are known once some of its parameters have values.
#
# With ``a`` and ``b`` known, ``a * b * c <= 1024`` needs only their product: any two choices with the same product
# leave the same choices of ``c``. A search that keeps the product instead of both values has far fewer cases.


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


# Running values -----------------------------------------------------------------------------------------------------
#
# Conditions on one running value: a sum, a product, the least or the greatest of terms that read one parameter each.
#
# Of ``a * b * c <= 1024`` or ``count(p, q, r) == 2``, a search that chooses one parameter after another needs only the
# value of the terms so far. There may be few such values although there are many choices: 301 for 300 flags.


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
        return _join_terms(node) if isinstance(node, Operation) else None
    if isinstance(node, Operation) and node.operator in ("and", "or", "if"):
        return None  # parts that are not reached may be undefined
    fold = _find(reading[0])
    if fold is None:
        return None
    parts = (fold.condition if part is reading[0] else part for part in node.parts)
    return replace(fold, condition=replace(node, parts=tuple(parts)))


def _join_terms(node: Operation) -> Fold | None:
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
