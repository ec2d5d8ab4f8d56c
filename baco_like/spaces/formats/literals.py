"""Python lists written as text, as in the ``Values`` of T1 files: ``"[1, 2] + list(range(4, 65, 4))"``.

Allowed are literals, ``range``, ``list``, sums of lists, comprehensions over them, arithmetic and comparisons of
numbers, up to a limited number of steps. The text is never executed as Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from baco_like.constraints.language import exact
from baco_like.constraints.language.source import (
    BINARY,
    COMPARISONS,
    MAX_DEPTH,
    Refused,
    parse_expression,
)
from baco_like.exceptions import SpaceError

MAX_STEPS = 60_000
"""Most nodes evaluated for one text."""

MAX_VALUES = 100_000
"""Greatest length of any list, intermediate ones included."""

_OPERATORS: Mapping[type[ast.AST], str] = dict([*BINARY.items(), *COMPARISONS.items()])


def list_of(text: str) -> list[Any]:
    """Return the list that a text describes; its elements are ints, floats, strings and bools.

    Raises:
        SpaceError: The text is not such a list, or too much work; the message gives the column.
    """
    try:
        body, _ = parse_expression(text)
        values = _Reader(MAX_STEPS).value(body, {}, 0)
        if not isinstance(values, list | tuple | range):
            raise Refused("not a list")
        return [_scalar(one) for one in values]
    except Refused as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise SpaceError(f"values {shown!r}, column {error.position}: {error.message}") from None


def _scalar(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise Refused("a list inside the list")
    return value


def _refuse(node: ast.AST, message: str) -> NoReturn:
    raise Refused(message, getattr(node, "col_offset", 0) + 1)


Bound = Mapping[str, Any]
"""The variables of the comprehensions around a node."""


@dataclass
class _Reader:
    """Evaluates nodes until ``steps`` are used up."""

    steps: int

    def value(self, node: ast.AST, bound: Bound, depth: int) -> Any:
        self.steps -= 1
        if self.steps < 0 or depth > MAX_DEPTH:
            _refuse(
                node, "too much work" if self.steps < 0 else f"nested more than {MAX_DEPTH} deep"
            )
        reader = _READERS.get(type(node))
        if reader is None:
            _refuse(node, f"{type(node).__name__} is not allowed in a list of values")
        try:
            return reader(self, node, bound, depth + 1)
        except exact.UNDEFINED as error:
            _refuse(node, f"cannot be computed ({error})")

    def constant(self, node: ast.Constant, bound: Bound, depth: int) -> Any:
        if not isinstance(node.value, bool | int | float | str):
            _refuse(node, f"{node.value!r:.40} is not a number, string or bool")
        return node.value

    def name(self, node: ast.Name, bound: Bound, depth: int) -> Any:
        if node.id not in bound:
            _refuse(node, f"unknown name {node.id!r:.40}")
        return bound[node.id]

    def listed(self, node: ast.List | ast.Tuple | ast.Set, bound: Bound, depth: int) -> Any:
        return [self.value(one, bound, depth) for one in node.elts]

    def unary(self, node: ast.UnaryOp, bound: Bound, depth: int) -> Any:
        operand = self.value(node.operand, bound, depth)
        if isinstance(node.op, ast.Not):
            return not operand
        sign = {ast.USub: -1, ast.UAdd: 1}.get(type(node.op))
        if sign is None:
            _refuse(node, "this operator is not allowed")
        return sign * self._number(node, operand)

    def binary(self, node: ast.BinOp, bound: Bound, depth: int) -> Any:
        left, right = self.value(node.left, bound, depth), self.value(node.right, bound, depth)
        sign = _OPERATORS.get(type(node.op))
        if sign is None:
            _refuse(node, "this operator is not allowed")
        if sign == "+" and isinstance(left, list) and isinstance(right, list):
            return self._bounded(node, left + right)
        return exact.ARITHMETIC[sign](self._number(node, left), self._number(node, right))

    def comparison(self, node: ast.Compare, bound: Bound, depth: int) -> bool:
        left = self.value(node.left, bound, depth)
        for operator, given in zip(node.ops, node.comparators, strict=True):
            right = self.value(given, bound, depth)
            if type(operator) not in _OPERATORS:
                _refuse(node, "this comparison is not allowed")
            if not exact.COMPARE[_OPERATORS[type(operator)]](left, right):
                return False
            left = right
        return True

    def junction(self, node: ast.BoolOp, bound: Bound, depth: int) -> Any:
        value: Any = None
        for part in node.values:
            value = self.value(part, bound, depth)
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value

    def choice(self, node: ast.IfExp, bound: Bound, depth: int) -> Any:
        chosen = node.body if self.value(node.test, bound, depth) else node.orelse
        return self.value(chosen, bound, depth)

    def comprehension(
        self, node: ast.ListComp | ast.GeneratorExp, bound: Bound, depth: int
    ) -> list[Any]:
        elements: list[Any] = []
        self._loop(node, 0, bound, depth, elements)
        return elements

    def _loop(
        self,
        node: ast.ListComp | ast.GeneratorExp,
        level: int,
        bound: Bound,
        depth: int,
        elements: list[Any],
    ) -> None:
        if level == len(node.generators):
            elements.append(self.value(node.elt, bound, depth))
            self._bounded(node, elements)
            return
        loop = node.generators[level]
        if not isinstance(loop.target, ast.Name) or loop.is_async:
            _refuse(node, "a comprehension needs one plain variable")
        items = self.value(loop.iter, bound, depth)
        if not isinstance(items, list | range):
            _refuse(loop.iter, "not a list")
        for item in items:
            inner = {**bound, loop.target.id: item}
            if all(self.value(test, inner, depth) for test in loop.ifs):
                self._loop(node, level + 1, inner, depth, elements)

    def call(self, node: ast.Call, bound: Bound, depth: int) -> Any:
        if not isinstance(node.func, ast.Name) or node.keywords:
            _refuse(node, "only range, list, tuple, sorted and functions of numbers can be called")
        arguments = [self.value(one, bound, depth) for one in node.args]
        name = node.func.id
        if name == "range":
            return self._range(node, arguments)
        if name in ("list", "tuple", "sorted", "set"):
            if len(arguments) != 1 or not isinstance(arguments[0], list | range):
                _refuse(node, f"{name} takes one list")
            items = list(self._bounded(node, arguments[0]))
            return items if name in ("list", "tuple") else sorted(set(items))
        if name in exact.FUNCTIONS:
            return exact.FUNCTIONS[name](*[self._number(node, one) for one in arguments])
        _refuse(node, f"unknown function {name!r:.40}")

    def _range(self, node: ast.Call, arguments: list[Any]) -> range:
        whole = all(type(one) is int for one in arguments)
        if not whole or not 1 <= len(arguments) <= 3 or arguments[2:] == [0]:
            _refuse(node, "range takes one to three whole numbers, the last of three not 0")
        numbers: range = self._bounded(node, range(*arguments))
        return numbers

    def _bounded(self, node: ast.AST, items: Any) -> Any:
        # The length of a range beyond 64 bits is an OverflowError, which is refused like other arithmetic.
        if len(items) > MAX_VALUES:
            _refuse(node, f"more than {MAX_VALUES} values")
        return items

    def _number(self, node: ast.AST, value: Any) -> Any:
        if not isinstance(value, bool | int | float):
            _refuse(node, f"{value!r:.40} is not a number")
        return value


_READERS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Constant: _Reader.constant,
    ast.Name: _Reader.name,
    ast.List: _Reader.listed,
    ast.Tuple: _Reader.listed,
    ast.Set: _Reader.listed,
    ast.UnaryOp: _Reader.unary,
    ast.BinOp: _Reader.binary,
    ast.Compare: _Reader.comparison,
    ast.BoolOp: _Reader.junction,
    ast.IfExp: _Reader.choice,
    ast.ListComp: _Reader.comprehension,
    ast.GeneratorExp: _Reader.comprehension,
    ast.Call: _Reader.call,
}
