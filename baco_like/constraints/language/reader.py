"""From text to a tree: Python's parser reads the text, and every node of its result must be allowed.

Only constant parts are evaluated, by `exact`. Length, tokens and nesting are checked before recursive functions see
them.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.source import (
    BINARY,
    COMPARISONS,
    MAX_DEPTH,
    Refused,
    parse_expression,
)
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import ExpressionError
from baco_like.parameters.extent import ColumnKind
from baco_like.parameters.protocol import Parameter, PermutationParameter, is_permutation

_BITWISE: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.BitAnd: ("&", "and"),
    ast.BitOr: ("|", "or"),
}
_UNARY: Mapping[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not"}


@dataclass(frozen=True)
class Dialect:
    """The differences of a text from the language of constraints.

    Attributes:
        bitwise: Whether ``& | ~`` between comparisons mean ``and or not``, as in numexpr.
        aliases: Names that are replaced by a node (BaCO's ``p_0`` and ``p_i0``).
    """

    bitwise: bool = False
    aliases: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class _Context:
    text: str
    parameters: Mapping[str, Parameter]
    dialect: Dialect
    lines: tuple[int, ...]
    """Start of each line of the parsed part in the text."""

    def column(self, line: int, byte: int) -> int:
        """Return the position in the text, in characters, of a byte position in the parsed lines."""
        start = self.lines[line - 1]
        return start + len(self.text[start : start + byte].encode()[:byte].decode(errors="ignore"))

    def span(self, node: ast.expr) -> tuple[int, int]:
        end_line, end_byte = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.column(node.lineno, node.col_offset), self.column(end_line, end_byte)

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        line, byte = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        raise ExpressionError(message, self.text, self.column(line, byte) + 1)


def read(text: str, parameters: Mapping[str, Parameter], dialect: Dialect | None = None) -> Node:
    """Return the tree of an expression.

    Args:
        text: The user's text.
        parameters: Every parameter that may be named.
        dialect: Differences of the text from the language; by default none.

    Raises:
        ExpressionError: The text is not in the language; the message gives the reason and ``position`` the place.
    """
    try:
        body, shift = parse_expression(text)
    except Refused as error:
        raise ExpressionError(error.message, str(text), error.position) from None
    lines = (shift, *(shift + found.end() for found in re.finditer(r"\r\n|\r|\n", text[shift:])))
    context = _Context(text, parameters, dialect or Dialect(), lines)
    node = _read(body, context, 0)
    if isinstance(node, tree.Listed | tree.Span):
        raise ExpressionError("a list is not a constraint", text, 1)
    return node


def _read(node: ast.expr, context: _Context, depth: int) -> Node:
    if depth > MAX_DEPTH:
        context.refuse(node, f"nested more than {MAX_DEPTH} deep")
    reader = _READERS.get(type(node))
    if reader is None:
        context.refuse(node, _REFUSED.get(type(node), f"{type(node).__name__} is not allowed"))
    read_node = reader(node, context, depth + 1)
    if not isinstance(read_node, tree.Literal | tree.Listed) and all(
        map(_fixed, tree.children(read_node))
    ):
        read_node = _fold_constant(node, read_node, context)
    start, end = context.span(node)
    return replace(read_node, start=start, end=end)


def _fixed(node: Node) -> bool:
    """Whether a node has the same value for every row."""
    if isinstance(node, tree.Listed):
        return all(map(_fixed, node.elements))
    return isinstance(node, tree.Literal | tree.Span)


def _fold_constant(node: ast.expr, read_node: Node, context: _Context) -> Node:
    """Return the value of a node without parameters, so that it is computed only once."""
    if isinstance(read_node, tree.Name | tree.Position | tree.At | tree.Span):
        return read_node
    try:
        value = exact.function(read_node, ())(())
    except exact.UNDEFINED as error:
        context.refuse(node, f"cannot be computed ({error})")
    if isinstance(value, float) and not math.isfinite(value):
        context.refuse(node, "cannot be computed (too large)")
    return tree.Literal(value)


def _constant(node: ast.Constant, context: _Context, depth: int) -> Node:
    value = node.value
    if not isinstance(value, bool | int | float | str):
        context.refuse(node, f"{value!r:.40} is not a number, string or bool")
    if isinstance(value, float) and not math.isfinite(value):
        context.refuse(node, "the number is too large")
    if isinstance(value, int) and value.bit_length() > exact.MAX_BITS:
        context.refuse(node, f"the number has more than {exact.MAX_BITS} bits")
    return tree.Literal(value)


def _name(node: ast.Name, context: _Context, depth: int) -> Node:
    alias = context.dialect.aliases.get(node.id)
    if node.id not in context.parameters and alias is not None:
        return alias
    return _parameter(node, node.id, context)


def _parameter(node: ast.expr, name: str, context: _Context) -> Node:
    if name not in context.parameters:
        context.refuse(node, f"unknown name {name!r}; {_known(context)}")
    if is_permutation(context.parameters[name]):
        shown = write_name(name, "{!r}")
        context.refuse(
            node, f"{name!r} is a permutation; use pos({shown}, element) or at({shown}, place)"
        )
    return tree.Name(name)


def _known(context: _Context) -> str:
    names = list(context.parameters)
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    quoted = [name for name in names if write_name(name) != name]
    hint = (
        f"; names that Python does not allow are written {write_name(quoted[0])}" if quoted else ""
    )
    return f"the parameters are {shown}{hint}"


def _unary(node: ast.UnaryOp, context: _Context, depth: int) -> Node:
    operand = _value(node.operand, context, depth)
    if isinstance(node.op, ast.Invert):
        if not (context.dialect.bitwise and _is_condition(operand, context)):
            context.refuse(node, "'~' is not allowed; write 'not'")
        return tree.Unary("not", operand)
    return tree.Unary(_UNARY[type(node.op)], operand)


def _binary(node: ast.BinOp, context: _Context, depth: int) -> Node:
    kind = type(node.op)
    left, right = _value(node.left, context, depth), _value(node.right, context, depth)
    if kind in BINARY:
        return tree.Binary(BINARY[kind], left, right)
    if kind not in _BITWISE:
        context.refuse(node, f"the operator {kind.__name__} is not allowed")
    sign, word = _BITWISE[kind]
    if not context.dialect.bitwise:
        context.refuse(node, f"{sign!r} is not allowed; write {word!r}")
    if not (_is_condition(left, context) and _is_condition(right, context)):
        context.refuse(node, f"{sign!r} joins conditions; put each side in parentheses")
    return _merge_junction(word, (left, right))


def _merge_junction(operator: str, parts: tuple[Node, ...]) -> tree.Junction:
    """Return a junction with nested parts of the same kind merged, so that long chains are not deep."""
    flat: list[Node] = []
    for part in parts:
        same = isinstance(part, tree.Junction) and part.operator == operator
        flat.extend(part.parts if isinstance(part, tree.Junction) and same else (part,))
    return tree.Junction(operator, tuple(flat))


def _is_condition(node: Node, context: _Context) -> bool:
    match node:
        case tree.Comparison() | tree.Unary(operator="not") | tree.Literal(value=bool()):
            return True
        case tree.Junction(parts=parts):
            return all(_is_condition(part, context) for part in parts)
        case tree.Name(name=name):
            return context.parameters[name].extent.kind is ColumnKind.BOOL
        case _:
            return False


def _junction(node: ast.BoolOp, context: _Context, depth: int) -> Node:
    operator = "and" if isinstance(node.op, ast.And) else "or"
    return _merge_junction(operator, tuple(_value(part, context, depth) for part in node.values))


def _comparison(node: ast.Compare, context: _Context, depth: int) -> Node:
    left = _value(node.left, context, depth)
    operators: list[str] = []
    rights: list[Node] = []
    for number, (operator, given) in enumerate(zip(node.ops, node.comparators, strict=True)):
        sign = COMPARISONS.get(type(operator))
        if sign is None:
            context.refuse(node, "'is' is not allowed; write '=='")
        right = _read(given, context, depth)
        collection = isinstance(right, tree.Listed | tree.Span)
        if collection != (sign in ("in", "not in")):
            context.refuse(
                given, f"{sign!r} needs {'a value' if collection else 'a list or a range'}"
            )
        if collection and number < len(node.ops) - 1:
            context.refuse(given, "a list must be the last of a chain of comparisons")
        operators.append(sign)
        rights.append(right)
    return tree.Comparison(left, tuple(operators), tuple(rights))


def _choice(node: ast.IfExp, context: _Context, depth: int) -> Node:
    return tree.Choice(
        *(_value(part, context, depth) for part in (node.test, node.body, node.orelse))
    )


def _listed(node: ast.Tuple | ast.List | ast.Set, context: _Context, depth: int) -> Node:
    return tree.Listed(tuple(_value(element, context, depth) for element in node.elts))


def _value(node: ast.expr, context: _Context, depth: int) -> Node:
    """Return a node that is a single value, not a collection."""
    read_node = _read(node, context, depth)
    if isinstance(read_node, tree.Listed | tree.Span):
        context.refuse(node, "a list is allowed only to the right of 'in'")
    return read_node


def _call(node: ast.Call, context: _Context, depth: int) -> Node:
    if not isinstance(node.func, ast.Name):
        context.refuse(node, f"only these functions can be called: {_FUNCTIONS}")
    name = node.func.id
    if name not in _CALLS:
        context.refuse(node, f"unknown function {name!r:.40}; there are {_FUNCTIONS}")
    if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
        context.refuse(node, f"{name} takes plain arguments only")
    return _CALLS[name](node, name, context, depth)


def _function(node: ast.Call, name: str, context: _Context, depth: int) -> Node:
    arguments = [_read(one, context, depth) for one in node.args]
    many = name in exact.VARIADIC
    if many and len(arguments) == 1 and isinstance(arguments[0], tree.Listed):
        arguments = list(arguments[0].elements)
    if any(isinstance(one, tree.Listed | tree.Span) for one in arguments):
        context.refuse(node, f"{name} takes numbers")
    if (len(arguments) < 2) if many else (len(arguments) != 1):
        context.refuse(node, f"{name} takes {'two or more numbers' if many else 'one number'}")
    return tree.Call(name, tuple(arguments))


def _range(node: ast.Call, name: str, context: _Context, depth: int) -> Node:
    numbers = [_constant_argument(one, context, depth) for one in node.args]
    whole = [one for one in numbers if isinstance(one, int) and not isinstance(one, bool)]
    if (
        not 1 <= len(numbers) <= 3
        or len(whole) < len(numbers)
        or (len(whole) == 3 and whole[2] == 0)
    ):
        context.refuse(node, "range takes one to three whole numbers, the last of three not 0")
    return tree.Span(range(*whole))


def _constant_argument(node: ast.expr, context: _Context, depth: int) -> object:
    argument = _value(node, context, depth)
    if not isinstance(argument, tree.Literal):
        context.refuse(node, "a constant is needed here, not a parameter")
    return argument.value


def _named(node: ast.Call, name: str, context: _Context, depth: int) -> Node:
    target = _quoted(node.args[0]) if len(node.args) == 1 else None
    if target is None:
        context.refuse(node, f"{name} takes the name of one parameter, in quotes")
    return _parameter(node, target, context)


def _quoted(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _target(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else _quoted(node)


def _permutation(
    node: ast.Call, name: str, context: _Context, depth: int
) -> tuple[str, PermutationParameter, object]:
    target = _target(node.args[0]) if len(node.args) == 2 else None
    if target is None:
        what = "an element" if name == "pos" else "a place"
        context.refuse(node, f"{name} takes a permutation and {what}")
    parameter = context.parameters.get(target)
    if parameter is None:
        context.refuse(node.args[0], f"unknown name {target!r}; {_known(context)}")
    if not is_permutation(parameter):
        context.refuse(node.args[0], f"{target!r} is not a permutation")
    return target, parameter, _constant_argument(node.args[1], context, depth)


def _position(node: ast.Call, name: str, context: _Context, depth: int) -> Node:
    target, parameter, element = _permutation(node, name, context, depth)
    index = parameter.index(element)
    if index is None:
        context.refuse(
            node.args[1], f"{element!r} is not an element of {target!r}: {parameter.elements}"
        )
    return tree.Position(target, index)


def _at(node: ast.Call, name: str, context: _Context, depth: int) -> Node:
    target, parameter, place = _permutation(node, name, context, depth)
    m = len(parameter.elements)
    if not isinstance(place, int) or isinstance(place, bool) or not -m <= place < m:
        context.refuse(
            node.args[1], f"places of {target!r} are 0 to {m - 1}, or -{m} to -1 from the end"
        )
    return tree.At(target, place % m)


def _where(node: ast.Call, name: str, context: _Context, depth: int) -> Node:
    if not context.dialect.bitwise or len(node.args) != 3:
        context.refuse(node, "where is not allowed; write 'a if test else b'")
    return tree.Choice(*(_value(one, context, depth) for one in node.args))


_CALLS: Mapping[str, Callable[[ast.Call, str, _Context, int], Node]] = {
    **dict.fromkeys(exact.FUNCTIONS, _function),
    "range": _range,
    "value": _named,
    "pos": _position,
    "at": _at,
    "where": _where,
}
_FUNCTIONS = ", ".join(name for name in _CALLS if name != "where")
_READERS: Mapping[type[ast.expr], Callable[..., Node]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _junction,
    ast.Compare: _comparison,
    ast.IfExp: _choice,
    ast.Tuple: _listed,
    ast.List: _listed,
    ast.Set: _listed,
    ast.Call: _call,
}
_REFUSED: Mapping[type[ast.expr], str] = {
    ast.Attribute: "attributes are not allowed",
    ast.Subscript: "subscripts are not allowed; for a permutation use at(p, place)",
    ast.Lambda: "lambda is not allowed; give a callable instead of a string",
    ast.ListComp: "comprehensions are not allowed",
    ast.SetComp: "comprehensions are not allowed",
    ast.DictComp: "comprehensions are not allowed",
    ast.GeneratorExp: "comprehensions are not allowed",
    ast.JoinedStr: "f-strings are not allowed",
    ast.NamedExpr: "':=' is not allowed; write '=='",
}
