"""Python lists written as text, as in the ``Values`` of T1 files: ``"[1, 2] + list(range(4, 65, 4))"``.

Allowed are literals, ``range``, ``list``, sums of lists, comprehensions over them, arithmetic and comparisons of
numbers, up to a limited number of steps. The text is never executed as Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from baco_like.constraints.language import exact, source
from baco_like.constraints.language.source import MAX_DEPTH, OPERATORS, Refused
from baco_like.exceptions import SpaceError

MAX_STEPS = 60_000
"""Most nodes evaluated for one text."""

MAX_VALUES = 100_000
"""Greatest length of any list, intermediate ones included."""


def list_of(text: str) -> list[Any]:
    """Return the list that a text describes; its elements are values of a `Categorical`.

    Raises:
        SpaceError: The text is not such a list, or too much work; the message gives the column.
    """
    try:
        body, _ = source.parse_expression(text)
        values = _LiteralReader().value(body, {}, 0)
        if not isinstance(values, _LISTS):
            raise Refused("not a list")
        return list(values)
    except Refused as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise SpaceError(f"values {shown!r}, column {error.position}: {error.message}") from None


def _refuse(node: ast.AST, message: str) -> NoReturn:
    raise Refused(message, getattr(node, "col_offset", 0) + 1)


_LISTS = list, tuple, range

Bound = Mapping[str, Any]
"""The variables of the comprehensions around a node."""


class _LiteralReader:
    """Evaluates nodes until `MAX_STEPS` are used up."""

    def __init__(self) -> None:
        self._steps = 0

    def value(self, node: ast.AST, bound: Bound, depth: int) -> Any:
        self._steps += 1
        if self._steps > MAX_STEPS:
            _refuse(node, "too much work")
        if depth > MAX_DEPTH:
            _refuse(node, f"nested more than {MAX_DEPTH} deep")
        try:
            return self._evaluate(node, bound, depth + 1)
        except exact.UNDEFINED as error:
            _refuse(node, f"cannot be computed ({error})")

    def _evaluate(self, node: ast.AST, bound: Bound, depth: int) -> Any:
        def value(part: ast.AST) -> Any:
            return self.value(part, bound, depth)

        match node:
            case ast.Constant(value=None | bool() | int() | float() | str()):
                return node.value
            case ast.Name():
                if node.id not in bound:
                    _refuse(node, f"unknown name {node.id!r:.40}")
                return bound[node.id]
            case ast.List() | ast.Set():
                return [value(element) for element in node.elts]
            case ast.Tuple():
                return tuple(map(value, node.elts))
            case ast.UnaryOp(op=ast.Not()):
                return not value(node.operand)
            case ast.UnaryOp(op=ast.USub()):
                return -_number(value(node.operand))
            case ast.UnaryOp(op=ast.UAdd()):
                return +_number(value(node.operand))
            case ast.BinOp() if type(node.op) in OPERATORS:
                left, right = value(node.left), value(node.right)
                if (
                    isinstance(node.op, ast.Add)
                    and type(left) is type(right)
                    and type(left) in _LISTS[:2]
                ):
                    return _check_length(left + right)
                return exact.ARITHMETIC[OPERATORS[type(node.op)]](_number(left), _number(right))
            case ast.Compare() if all(type(operator) in OPERATORS for operator in node.ops):
                left = value(node.left)
                for operator, comparator in zip(node.ops, node.comparators, strict=True):
                    right = value(comparator)
                    if not exact.COMPARE[OPERATORS[type(operator)]](left, right):
                        return False
                    left = right
                return True
            case ast.BoolOp():
                for part in node.values:
                    result = value(part)
                    if bool(result) == isinstance(node.op, ast.Or):
                        break
                return result
            case ast.IfExp():
                return value(node.body if value(node.test) else node.orelse)
            case ast.ListComp() | ast.GeneratorExp():
                environments = self._bindings(node.generators, bound, depth)
                return [self.value(node.elt, inner, depth) for inner in environments]
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                return _call(node, name, [value(argument) for argument in node.args])
        _refuse(node, f"{type(node).__name__} is not allowed in a list of values")

    def _bindings(
        self, loops: Sequence[ast.comprehension], bound: Bound, depth: int
    ) -> Iterator[Bound]:
        """Yield the variables of each iteration of nested loops."""
        if not loops:
            yield bound
            return
        loop, *inner_loops = loops
        if not isinstance(loop.target, ast.Name) or loop.is_async:
            _refuse(loop.target, "a comprehension needs one plain variable")
        items = self.value(loop.iter, bound, depth)
        if not isinstance(items, _LISTS):
            _refuse(loop.iter, "not a list")
        for item in items:
            inner = {**bound, loop.target.id: item}
            if all(self.value(test, inner, depth) for test in loop.ifs):
                yield from self._bindings(inner_loops, inner, depth)


def _call(node: ast.Call, name: str, arguments: list[Any]) -> Any:
    if name == "range":
        if not all(type(argument) is int for argument in arguments):
            raise TypeError("range takes whole numbers")
        return _check_length(range(*arguments))
    if name in ("list", "tuple", "sorted", "set"):
        if len(arguments) != 1 or not isinstance(arguments[0], _LISTS):
            raise TypeError(f"{name} takes one list")
        items = list(_check_length(arguments[0]))
        return items if name in ("list", "tuple") else sorted(set(items))
    if name not in exact.FUNCTIONS:
        _refuse(node, f"unknown function {name!r:.40}")
    return exact.FUNCTIONS[name](*map(_number, arguments))


def _check_length(items: Any) -> Any:
    # The length of a range beyond 64 bits is an OverflowError, too.
    if len(items) > MAX_VALUES:
        raise OverflowError(f"more than {MAX_VALUES} values")
    return items


def _number(value: Any) -> Any:
    if not isinstance(value, bool | int | float):
        raise TypeError(f"{value!r:.40} is not a number")
    return value
