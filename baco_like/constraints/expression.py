"""A known constraint written as text: ``"bx * by <= 1024"``, ``"pos(loops, 'k') > pos(loops, 'i')"``.

The syntax and the meaning are Python's, restricted to numbers, strings, bools and names of parameters;
``+ - * / // % ** << >> & ^ | ~``, comparisons also in chains, ``and or not``, ``in`` a list or a ``range``,
``a if test else b``; ``min max sum count abs ceil floor round int sqrt log log2 log10``, also as ``math.ceil`` or
``np.ceil``, where ``sum`` adds its terms from the left and ``count`` gives the number of true conditions; for
permutations ``pos(p, element)`` (the element's place, outermost 0) and ``at(p, place)`` (the element there; -1 is the
innermost). A parameter whose name is not a Python identifier is written ``value('unroll-loops')``, or
``pos('loop-order', element)``.

Integers are exact at any size up to 4,096 bits. A configuration on which the text cannot be computed - division by
zero, a logarithm of 0, text among numbers - does not satisfy it, not even under ``not``. As in Python, parts that
``and``, ``or`` and ``if`` do not reach are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Column, Mask
from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.analysis import (
    Fold,
    Term,
    UnmatchedLiteral,
    find_bounds,
    find_fold,
    find_known_terms,
    find_ordered_names,
    find_products,
    find_quotients,
    find_unmatched_literals,
    where_known,
)
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.tree import Node, Reading
from baco_like.constraints.language.vectorised import Vector, compile_node, operations, to_truth
from baco_like.constraints.language.writer import write, write_comparison
from baco_like.parameters import Categorical
from baco_like.parameters.protocol import Parameter, is_permutation, is_sequence

_FLAG = Categorical([False, True])
"""A column that tells where a parameter is active."""


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

    def __init__(
        self, text: str, parameters: Mapping[str, Parameter], _node: Node | None = None
    ) -> None:
        node = read(text, parameters) if _node is None else _node
        names = tree.names(node)
        reads = {name: parameters[name] for name in names}
        self.__dict__.update(text=text, parameters=names, _tree=node, _read=reads)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Expression, (self.text, dict(self._read))

    @cached_property
    def _truth(self) -> Vector:
        return to_truth(compile_node(self._tree, self._read))

    @cached_property
    def cost(self) -> int:
        """Operations for one row; see `operations`."""
        return operations(self._tree, compile_node(self._tree, self._read))

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether the condition is true; False for rows on which it cannot be computed.

        Args:
            columns: At least the columns of `parameters`, as made by `Parameter.column`. Without any, the answer has
                one row.
        """
        with np.errstate(all="ignore"):
            value, undefined = self._truth.run(columns)
        mask = np.asarray(value if undefined is None else value & ~undefined, dtype=np.bool_)
        n = len(next(iter(columns.values()))) if columns else 1
        return mask if mask.shape == (n,) else np.full(n, mask)

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the numbers of one configuration: ``4096`` for ``bx * by <= 1024``, ``32 <= 16`` for ``a <= b``.

        Raises:
            ConfigError: A value is not in its parameter's domain.
        """
        columns = {name: p.column(p.encode([config[name]])) for name, p in self._read.items()}
        parts = self.conjuncts()
        if len(parts) > 1:
            failing = [part for part in parts if not part.holds(columns).all()][:1]
            return ", ".join(f"{part.text}: {part.explain(config)}" for part in failing or parts)
        row = [exact.row_values(p, columns[name])[0] for name, p in self._read.items()]
        own = (value.order if isinstance(value, exact.Arrangement) else value for value in row)
        shown = ", ".join(f"{k} = {v!r}" for k, v in zip(self.parameters, own, strict=True))
        try:
            exact.function(self._tree, self.parameters)(row)
            if isinstance(self._tree, tree.Comparison):
                return self._explain_comparison(self._tree, row)
        except exact.UNDEFINED as error:
            return f"{shown} ({error})"
        return shown or "it reads no parameter"

    def _explain_comparison(self, node: tree.Comparison, row: exact.Row) -> str:
        """Return a comparison's sides as numbers; constant sides are left out if only one side is computed."""
        sides = [repr(exact.function(side, self.parameters)(row)) for side in node.parts]
        computed = [bool(tree.names(side)) for side in node.parts]
        if sum(computed) == 1:
            return sides[computed.index(True)]
        return write_comparison(node.operators, sides)

    def conjuncts(self, *, every_chain: bool = False) -> tuple[Expression, ...]:
        """Return equivalent constraints, one for each part joined by ``and`` or by a chain.

        Args:
            every_chain: Whether every chain of comparisons is split, or only those of which a part reads fewer
                parameters.
        """
        return tuple(
            self if part is self._tree else Expression(self._text_of(part), self._read, part)
            for part in _conjuncts(self._tree, every_chain)
        )

    @cached_property
    def junction(self) -> tuple[str, tuple[Expression, ...]] | None:
        """``and`` or ``or`` with the expressions that it joins, whose text is the whole; None for other conditions."""
        words = {"and": "and", "&": "and", "or": "or", "|": "or"}
        node = self._tree
        if not isinstance(node, tree.Operation) or node.operator not in words:
            return None
        if node.operator in "&|" and not tree.is_condition(node):
            return None
        parts = tuple(Expression(self.text, self._read, part) for part in node.parts)
        return words[node.operator], parts

    def where_known(self, active: Mapping[str, str]) -> Expression:
        """Return a condition that holds where this one is true in three-valued logic; see `three_valued`.

        Args:
            active: For each parameter that may be inactive, the name of a column that tells where it is active.
        """
        flags = {name: tree.Name(flag) for name, flag in active.items()}
        read = {**self._read, **{flag: _FLAG for flag in active.values()}}
        return Expression(self.text, read, where_known(self._tree, flags))

    def joins_active(self, conditional: Collection[str]) -> Expression:
        """Return an equivalent condition in which comparisons with inactive parameters are false.

        Only ``and`` and ``or`` join these comparisons, so that tools without three-valued logic have the same result.

        Args:
            conditional: The parameters that may be inactive.
        """
        always = {name: tree.Literal(True) for name in conditional}
        return Expression(self.text, self._read, where_known(self._tree, always))

    def _text_of(self, node: Node) -> str:
        if node.end > node.start:
            return self.text[node.start : node.end]
        read = self._read.items()
        return write(node, {n: p.elements for n, p in read if is_permutation(p) or is_sequence(p)})

    def sides(self, columns: Mapping[str, Column]) -> tuple[Array, Array] | None:
        """Return both sides of an inequality for n rows, ``(n,)`` each, the one that must not be larger first.

        Args:
            columns: As for `holds`; at least one.

        Returns:
            NaN where a side cannot be computed. None if the condition is not a single ``<``, ``<=``, ``>`` or ``>=``.
        """
        node = self._tree
        if not isinstance(node, tree.Comparison) or node.operators[1:]:
            return None
        if node.operators[0] not in ("<", "<=", ">", ">="):
            return None
        n = len(next(iter(columns.values())))
        sides = []
        for part in node.parts:
            with np.errstate(all="ignore"):
                value, undefined = compile_node(part, self._read).run(columns)
            number = np.broadcast_to(np.asarray(value, dtype=float), (n,)).copy()
            if undefined is not None:
                number[np.broadcast_to(undefined, (n,))] = np.nan
            sides.append(number)
        low, high = sides if node.operators[0] in ("<", "<=") else sides[::-1]
        return low, high

    def elements(self, name: str) -> frozenset[object] | None:
        """Return the elements of permutation ``name`` whose positions are read; None if ``at`` reads any of them."""
        parameter = self._read.get(name)
        if not is_permutation(parameter):
            return frozenset()
        readings = self.readings(name)
        if any(node.function == "at" for node in readings):
            return None
        return frozenset(parameter.elements[node.arguments[0]] for node in readings)

    def readings(self, name: str) -> list[Reading]:
        """Return what the condition reads of a permutation or sequence, each once."""
        nodes = (node for node in tree.walk(self._tree) if isinstance(node, Reading))
        own = (node for node in nodes if node.name == name)
        return list({(node.function, node.arguments): node for node in own}.values())

    def known_terms(self, known: frozenset[str]) -> list[Term] | None:
        """Return the parts that decide the condition once these parameters are known; see `partial_evaluation`."""
        return find_known_terms(self._tree, known, self._read)

    @cached_property
    def fold(self) -> Fold | None:
        """The condition as one on a running sum, product, minimum or maximum, if it is one; see `folds`."""
        return find_fold(self._tree)

    def fold_numbers(self, name: str, column: Column) -> list[Any] | None:
        """Return the numbers that a parameter's values, ``(n,)``, add to the `fold`, or None if one is undefined."""
        assert self.fold is not None
        with np.errstate(all="ignore"):
            vector = compile_node(self.fold.terms[name], self._read)
            value, undefined = vector.run({name: column})
        if undefined is not None and np.any(undefined):
            return None
        numbers: list[Any] = np.broadcast_to(value, column.shape[:1]).tolist()
        return numbers

    def products(self) -> list[tuple[str, ...]]:
        """Return the factors of every product of parameters in the condition; see `find_products`."""
        return find_products(self._tree)

    def quotients(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Return the factors above and below every quotient in the condition; see `find_quotients`."""
        return find_quotients(self._tree)

    def bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a parameter by its comparisons with constants; see `find_bounds`."""
        return find_bounds(self._tree, name)

    def truths(self) -> list[str]:
        """Return the parameters whose value alone is a condition: ``p`` in ``p and q > 1``."""
        return [name for name in self.parameters if _is_truth(self._tree, name)]

    def unmatched_literals(self) -> list[UnmatchedLiteral]:
        """Return parameters and values that they are compared with and never have."""
        return find_unmatched_literals(self._tree, self._read)

    def ordered_names(self) -> list[str]:
        """Return the parameters that are compared by order: ``p`` in ``p <= q``."""
        return find_ordered_names(self._tree)


def _is_truth(node: Node, name: str) -> bool:
    if isinstance(node, tree.Operation) and node.operator in ("and", "or", "not", "if"):
        return any(_is_truth(part, name) for part in node.parts)
    return isinstance(node, tree.Name) and node.name == name


def _conjuncts(node: Node, every_chain: bool) -> list[Node]:
    match node:
        case tree.Operation(operator="and" | "&" as word, parts=parts) if word == "and" or (
            tree.is_condition(node)
        ):
            return [conjunct for part in parts for conjunct in _conjuncts(part, every_chain)]
        case tree.Comparison(operators=operators) if len(operators) > 1:
            steps = tree.chain_steps(node)
            whole = len(tree.names(node))
            fewest = min(len(tree.names(step)) for step in steps)
            return list(steps) if every_chain or fewest < whole else [node]
        case _:
            return [node]
