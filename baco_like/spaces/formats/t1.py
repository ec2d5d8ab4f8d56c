"""T1 files of the auto-tuning community: parameters with ``Values`` as Python text, and ``Conditions``.

They list every value, so they have neither intervals nor permutations. Other properties of a parameter (a logarithmic
scale, a prior, the type `Integer`) are stored next to its values under a separate key, which other tools ignore.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from baco_like.constraints.expression import Expression
from baco_like.constraints.language.exact import UNDEFINED
from baco_like.constraints.language.operators import COMPARE, FUNCTIONS, OPERATORS
from baco_like.constraints.language.reader import MAX_DEPTH, SIGNS, parse_expression
from baco_like.exceptions import ExpressionError, SpaceError
from baco_like.parameters import Categorical, Integer, Ordinal, Parameter, SteppedReal
from baco_like.parameters.registry import parameter_from_dict
from baco_like.parameters.values import plain
from baco_like.spaces.formats import description
from baco_like.spaces.formats.description import SpaceContents, SpaceDescription
from baco_like.spaces.inputs import make_named, parameter_from_values

_OWN = "BacoLike"
"""The key of a parameter's description by ``Parameter.to_dict``."""

_MOST_VALUES = 100_000

_KERNEL: Mapping[str, Any] = {
    "Language": "Hypertuner",
    "KernelName": "unknown",
    "KernelFile": "unknown",
    "GlobalSize": {"X": "1"},
    "LocalSize": {"X": "1"},
}
"""Members of ``KernelSpecification`` that the schema requires, for an unknown kernel."""


def read_t1(source: str | Path | Mapping[str, Any]) -> SpaceDescription:
    """Return the space of a T1 file.

    A default that is not a value of its parameter is left out, with a note. All other members are in ``settings``.

    Args:
        source: The path of a file, or its parsed contents.

    Raises:
        SpaceError: Something is missing or wrong; the message names it.
        OSError: The file cannot be read.
    """
    data = description.json_object(source, "T1 file")
    space = _member(data, "ConfigurationSpace", Mapping, "the file")
    notes: list[str] = []
    parameters: dict[str, Parameter] = {}
    for entry in _member(space, "TuningParameters", Sequence, "ConfigurationSpace"):
        name, parameter = _parameter(entry, notes)
        if name in parameters:
            raise SpaceError(f"parameter {name!r} occurs twice; remove one of them")
        parameters[name] = parameter
    conditions = space.get("Conditions") or []
    if not isinstance(conditions, list):
        raise SpaceError("Conditions must be a list")
    constraints = tuple(_condition(entry, parameters, notes) for entry in conditions)
    rest = {key: value for key, value in data.items() if key != "ConfigurationSpace"}
    return SpaceDescription(parameters, constraints, tuple(notes), rest)


def _member(data: Any, key: str, kind: type[Any], what: str) -> Any:
    found = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(found, kind) or (isinstance(found, str) and kind is not str):
        raise SpaceError(f"{what} has no {key!r}, or it is wrong: {found!r:.60}")
    return found


def _parameter(entry: Any, notes: list[str]) -> tuple[str, Parameter]:
    name = _member(entry, "Name", str, "a tuning parameter")
    if isinstance(entry.get(_OWN), Mapping):
        return name, make_named(name, parameter_from_dict, entry[_OWN])
    values, default = entry.get("Values"), entry.get("Default")
    if isinstance(values, str):
        values = make_named(name, list_of, values)
    if isinstance(default, list) and len(default) == 1:  # as some files write it
        (default,) = default
    return name, description.with_default(
        name, parameter_from_values(name, values), plain(default), notes
    )


def _condition(entry: Any, parameters: Mapping[str, Parameter], notes: list[str]) -> str:
    text = entry if isinstance(entry, str) else _member(entry, "Expression", str, "a condition")
    expression = Expression(text, parameters)
    declared = entry.get("Parameters") if isinstance(entry, Mapping) else None
    if isinstance(declared, list) and set(map(str, declared)) != set(expression.parameters):
        notes.append(
            f"condition {text!r} reads {', '.join(expression.parameters)}, but declares {', '.join(map(str, declared))}"
        )
    return text


def to_t1(
    space: SpaceContents, kernel: Mapping[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    """Return a space as the contents of a T1 file; `Space.from_t1` is the inverse.

    Args:
        space: Its parameters have lists of values and no conditions, its constraints are expressions.
        kernel: Entries of ``KernelSpecification`` that replace the defaults for an unknown kernel.
        **rest: Other members of the file, such as ``Search`` and ``Budget``.

    Raises:
        SpaceError: The space has a real, a permutation, an integer of more than 100,000 values, a conditional
            parameter, or a constraint that is not an expression.
    """
    for name, condition in space.conditions.texts.items():
        raise SpaceError(
            f"parameter {name!r}: it is active only when {condition!r:.80}, and a T1 file has a value of every "
            "parameter in every configuration; keep the space by Space.to_dict, or give the parameter a value that "
            f"means 'unused' and replace the condition by a constraint such as \"({condition:.80}) or {name} == ...\""
        )
    for constraint in space.constraints:
        if not isinstance(constraint, Expression):
            raise SpaceError(
                f"constraint {constraint.text!r:.80} is not an expression, and a T1 file has only expressions; "
                "write it as one"
            )
    parameters = [_write_parameter(name, parameter) for name, parameter in space.parameters.items()]
    conditions = [
        {"Expression": constraint.text, "Parameters": list(constraint.parameters)}
        for constraint in space.constraints
    ]
    return {
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": {**_KERNEL, **(kernel or {})},
        **rest,
    }


def _write_parameter(name: str, parameter: Parameter) -> dict[str, Any]:
    values = _values(name, parameter)
    kinds = {type(value) for value in values}
    kind = next((word for word, types in _TYPES.items() if kinds <= types), "string")
    text = repr(values)
    entry: dict[str, Any] = {"Name": name, "Type": kind}
    entry["Values"] = f"list({text})" if isinstance(values, range) else text
    if parameter.default is not None:
        entry["Default"] = parameter.default
    if _parameter(entry, [])[1] != parameter:
        entry[_OWN] = parameter.to_dict()
    return entry


_TYPES: Mapping[str, set[type]] = {"bool": {bool}, "int": {int}, "float": {int, float}}


def _values(name: str, parameter: Parameter) -> list[Any] | range:
    if isinstance(parameter, Ordinal | Categorical | SteppedReal) and parameter.values is not None:
        return list(parameter.values)
    if isinstance(parameter, Integer) and parameter.cardinality <= _MOST_VALUES:
        return range(parameter.low, parameter.high + 1)
    raise SpaceError(
        f"parameter {name!r}: a T1 file lists every value, and a {type(parameter).__name__} has no such list; "
        "make it an Ordinal, or keep the space by Space.to_dict"
    )


# Lists of values ----------------------------------------------------------------------------------------------------
#
# Python lists written as text, as in the ``Values`` of T1 files: ``"[1, 2] + list(range(4, 65, 4))"``.
#
# Allowed are literals, ``range``, ``list``, sums of lists, comprehensions over them, arithmetic and comparisons of
# numbers, up to a limited number of steps. The text is never executed as Python.


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
        body, _ = parse_expression(text)
        values = _LiteralReader().value(body, {}, 0)
        if not isinstance(values, _LISTS):
            raise ExpressionError("not a list", text, 1)
        return list(values)
    except ExpressionError as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise SpaceError(f"values {shown!r}, column {error.position}: {error.message}") from None


def _refuse(node: ast.AST, message: str) -> NoReturn:
    raise ExpressionError(message, "", getattr(node, "col_offset", 0) + 1)


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
        except ExpressionError:  # of a part
            raise
        except UNDEFINED as error:
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
            case ast.BinOp() if type(node.op) in SIGNS:
                left, right = value(node.left), value(node.right)
                if (
                    isinstance(node.op, ast.Add)
                    and type(left) is type(right)
                    and type(left) in _LISTS[:2]
                ):
                    return _check_length(left + right)
                return OPERATORS[SIGNS[type(node.op)]].exact(_number(left), _number(right))
            case ast.Compare() if all(type(operator) in SIGNS for operator in node.ops):
                left = value(node.left)
                for operator, comparator in zip(node.ops, node.comparators, strict=True):
                    right = value(comparator)
                    if not COMPARE[SIGNS[type(operator)]](left, right):
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
    if name not in FUNCTIONS:
        _refuse(node, f"unknown function {name!r:.40}")
    return OPERATORS[name].exact(*map(_number, arguments))


def _check_length(items: Any) -> Any:
    # The length of a range beyond 64 bits is an OverflowError, too.
    if len(items) > MAX_VALUES:
        raise OverflowError(f"more than {MAX_VALUES} values")
    return items


def _number(value: Any) -> Any:
    if not isinstance(value, bool | int | float):
        raise TypeError(f"{value!r:.40} is not a number")
    return value
