"""A known constraint written as text: ``"bx * by <= 1024"``, ``"pos(loops, 'k') > pos(loops, 'i')"``.

The syntax and the meaning are Python's, restricted to numbers, strings, bools and names of parameters;
``+ - * / // % **``, comparisons also in chains, ``and or not``, ``in`` a list or a ``range``, ``a if test else b``;
``min max abs ceil floor round int sqrt log log2 log10``; for permutations ``pos(p, element)`` (the element's place,
outermost 0) and ``at(p, place)`` (the element there; -1 is the innermost). A parameter whose name is not a Python
identifier is written ``value('unroll-loops')``, or ``pos('loop-order', element)``.

Integers are exact at any size up to 4,096 bits. A configuration on which the text cannot be computed - division by
zero, a logarithm of 0, text among numbers - does not satisfy it, not even under ``not``. As in Python, parts that
``and``, ``or`` and ``if`` do not reach are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Column, Mask
from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.bounds import find_bounds
from baco_like.constraints.language.columns import plain_values
from baco_like.constraints.language.partial_evaluation import Term, find_known_terms
from baco_like.constraints.language.products import find_products
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.unmatched_literals import (
    UnmatchedLiteral,
    find_unmatched_literals,
)
from baco_like.constraints.language.vector import Inexact, to_truth
from baco_like.constraints.language.vectorised import vectorise
from baco_like.constraints.language.writer import comparison, write
from baco_like.parameters.protocol import Parameter, is_permutation

Holds = Callable[[Mapping[str, Column]], Mask]


@final
@dataclass(frozen=True, init=False)
class Expression:
    """A constraint over named parameters, given as text; the text is never executed.

    Args:
        text: The condition.
        parameters: Every parameter that may be named.

    Attributes:
        text: The text, unchanged.
        parameters: Names of the parameters it reads, in the order of the text.

    Raises:
        ExpressionError: The text is not in the language.
    """

    text: str
    parameters: tuple[str, ...]
    _tree: Node = field(repr=False, compare=False)
    _read: Mapping[str, Parameter] = field(repr=False, compare=False)
    _holds: Holds = field(repr=False, compare=False)

    def __init__(self, text: str, parameters: Mapping[str, Parameter]) -> None:
        self._set(text, read(text, parameters), parameters)

    def _set(self, text: str, node: Node, parameters: Mapping[str, Parameter]) -> None:
        names = tree.names(node)
        reads = {name: parameters[name] for name in names}
        made = {
            "text": text,
            "parameters": names,
            "_tree": node,
            "_read": reads,
            "_holds": _compile(node, reads),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _of(cls, text: str, node: Node, parameters: Mapping[str, Parameter]) -> Expression:
        made = object.__new__(cls)
        made._set(text, node, parameters)
        return made

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Expression, (self.text, dict(self._read))

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether the condition is true; False for rows on which it cannot be computed.

        Args:
            columns: At least the columns of `parameters`, as made by `Parameter.column`. Without any, the answer has
                one row.
        """
        return self._holds(columns)

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the numbers of one configuration: ``4096`` for ``bx * by <= 1024``, ``32 <= 16`` for ``a <= b``.

        Raises:
            ConfigError: A value is not in its parameter's domain.
        """
        columns = {name: one.column(one.encode([config[name]])) for name, one in self._read.items()}
        row = [plain_values(one, columns[name])[0] for name, one in self._read.items()]
        return _explained(self, self._tree, row)

    def conjuncts(self) -> tuple[Expression, ...]:
        """Return equivalent constraints, one for each part joined by ``and`` or by a chain.

        A chain of comparisons is split only if some part then reads fewer parameters.
        """
        return tuple(
            self if part is self._tree else self._of(self._text_of(part), part, self._read)
            for part in _conjuncts(self._tree)
        )

    def _text_of(self, node: Node) -> str:
        if node.end > node.start:
            return self.text[node.start : node.end]
        return write(node, {n: p.elements for n, p in self._read.items() if is_permutation(p)})

    def elements(self, name: str) -> frozenset[object] | None:
        """Return the elements of permutation ``name`` whose positions are read; None if ``at`` reads any of them."""
        parameter = self._read.get(name)
        if not is_permutation(parameter):
            return frozenset()
        nodes = [one for one in tree.walk(self._tree) if isinstance(one, tree.Position | tree.At)]
        mine = [one for one in nodes if one.name == name]
        if any(isinstance(one, tree.At) for one in mine):
            return None
        return frozenset(
            parameter.elements[p.element] for p in mine if isinstance(p, tree.Position)
        )

    def known_terms(self, known: frozenset[str]) -> list[Term] | None:
        """Return the parts that decide the condition once these parameters are known; see `partial_evaluation`."""
        return find_known_terms(self._tree, known, self._read)

    def products(self) -> list[tuple[str, ...]]:
        """Return the factors of every product of parameters in the condition; see `language.products`."""
        return find_products(self._tree)

    def bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a parameter by its comparisons with constants; see `language.bounds`."""
        return find_bounds(self._tree, name)

    def unmatched_literals(self) -> list[UnmatchedLiteral]:
        """Return parameters and values that they are compared with and never have."""
        return find_unmatched_literals(self._tree, self._read)

    def precedences(self, name: str) -> tuple[tuple[object, object], ...] | None:
        """Return pairs (earlier, later) of elements if the condition only orders elements of one permutation.

        None if it contains anything else, such as a position or another parameter.
        """
        parameter = self._read.get(name)
        if len(self.parameters) != 1 or not is_permutation(parameter):
            return None
        pairs: list[tuple[object, object]] = []
        for part in _conjuncts(self._tree):
            found = _precedence(part)
            if found is None:
                return None
            pairs += [(parameter.elements[a], parameter.elements[b]) for a, b in found]
        return tuple(pairs)


def parse(text: str, parameters: Mapping[str, Parameter]) -> Expression:
    """Return the constraint of a text; the same as ``Expression(text, parameters)``.

    Raises:
        ExpressionError: The text is not in the language.
    """
    return Expression(text, parameters)


def _compile(node: Node, parameters: Mapping[str, Parameter]) -> Holds:
    """Return the fast evaluation if it is exact, else the evaluation row by row."""
    try:
        vector = to_truth(vectorise(node, parameters))
    except Inexact:
        return partial(_row_by_row, exact.function(node, tuple(parameters)), parameters)

    def holds(columns: Mapping[str, Column]) -> Mask:
        with np.errstate(all="ignore"):
            value, undefined = vector.run(columns)
        good = value if undefined is None else value & ~undefined
        mask = np.asarray(good, dtype=np.bool_)
        n = len(next(iter(columns.values()))) if columns else 1
        return mask if mask.shape == (n,) else np.full(n, mask)

    return holds


def _row_by_row(
    function: exact.Function, parameters: Mapping[str, Parameter], columns: Mapping[str, Column]
) -> Mask:
    if not parameters:
        return np.array([_true(function, ())])
    values = [plain_values(one, columns[name]) for name, one in parameters.items()]
    return np.fromiter((_true(function, row) for row in zip(*values, strict=True)), dtype=np.bool_)


def _true(function: exact.Function, row: exact.Row) -> bool:
    try:
        return bool(function(row))
    except exact.UNDEFINED:
        return False


def _conjuncts(node: Node) -> list[Node]:
    match node:
        case tree.Junction(operator="and", parts=parts):
            return [one for part in parts for one in _conjuncts(part)]
        case tree.Comparison(operators=operators, rights=rights) if len(operators) > 1:
            lefts = (node.left, *rights)
            steps = [
                tree.Comparison(left, (sign,), (right,))
                for left, sign, right in zip(lefts, operators, rights, strict=False)
            ]
            whole = len(tree.names(node))
            return list(steps) if min(len(tree.names(step)) for step in steps) < whole else [node]
        case _:
            return [node]


def _precedence(node: Node) -> list[tuple[int, int]] | None:
    """Return pairs of elements (earlier, later), by index, of a chain of comparisons between positions."""
    if not isinstance(node, tree.Comparison):
        return None
    sides = (node.left, *node.rights)
    places = [side.element for side in sides if isinstance(side, tree.Position)]
    if len(places) < len(sides):
        return None
    pairs: list[tuple[int, int]] = []
    for left, sign, right in zip(places, node.operators, places[1:], strict=False):
        if left == right or sign not in ("<", "<=", ">", ">="):
            return None
        pairs.append((left, right) if sign[0] == "<" else (right, left))
    return pairs


def _explained(expression: Expression, node: Node, row: exact.Row) -> str:
    """Return the numbers of the part of a condition that fails."""
    parts = _conjuncts(node)
    if len(parts) > 1:
        failing = [
            part for part in parts if not _true(exact.function(part, expression.parameters), row)
        ]
        shown = failing[:1] or parts
        return ", ".join(
            f"{expression._text_of(part)}: {_explained(expression, part, row)}" for part in shown
        )
    try:
        exact.function(node, expression.parameters)(row)
        if isinstance(node, tree.Comparison):
            return _compared(node, expression.parameters, row)
    except exact.UNDEFINED as error:
        return f"{_values(expression.parameters, row)} ({error})"
    return _values(expression.parameters, row)


def _compared(node: tree.Comparison, names: tuple[str, ...], row: exact.Row) -> str:
    """Return a comparison's sides as numbers; constant sides are left out if only one side is computed."""
    fixed = tree.Literal | tree.Listed | tree.Span
    computed = [side for side in tree.children(node) if not isinstance(side, fixed)]
    if len(computed) == 1:
        return repr(exact.function(computed[0], names)(row))
    sides = [exact.function(side, names)(row) for side in tree.children(node)]
    return comparison(node, [repr(side) for side in sides])


def _values(names: tuple[str, ...], row: exact.Row) -> str:
    shown = (one.order if isinstance(one, exact.Arrangement) else one for one in row)
    return ", ".join(f"{name} = {value!r}" for name, value in zip(names, shown, strict=True))
