"""From text to a tree: Python's parser reads the text, and every node of its result must be allowed.

Only constant parts are evaluated, by `exact`. Length, tokens and nesting are checked before recursive functions see
them.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn
from unicodedata import normalize

from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.operators import (
    BINARY,
    COMPARE,
    FUNCTIONS,
    MAX_BITS,
    VARIADIC,
)
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import ExpressionError
from baco_like.parameters import ColumnKind, Parameter
from baco_like.parameters.protocol import is_permutation, is_sequence

SIGNS: Mapping[type[ast.AST], str] = {
    type(node): sign
    for sign in (*BINARY, *COMPARE)
    for node in ast.walk(ast.parse(f"a {sign} b"))
    if isinstance(node, ast.operator | ast.cmpop)
}
"""Binary operators and comparisons by the type of their node."""

_OF_C = {"&&": "and", "||": "or", "!": "not", "=": "=="}
"""Python's spelling of operators of C."""

MAX_LENGTH = 10_000
"""Most characters of a text."""

MAX_TOKENS = 3_000
"""Most names, numbers and signs of a text; Python's parser recurses per token and fails at 6,000."""

MAX_DEPTH = 100
"""Deepest nesting of nodes and brackets."""


def parse_expression(text: str) -> tuple[ast.expr, int]:
    """Return Python's tree of an expression, and the number of blanks before it.

    Raises:
        ExpressionError: The text is too long, too deeply nested, or not an expression.
    """
    _check_size(text)
    shift = len(text) - len(text.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of invalid escapes in strings
            return ast.parse(text.strip(), mode="eval").body, shift
    except SyntaxError as error:
        offset = error.offset or len(text.strip())  # 0: at the end
        why = error.msg or "not an expression"
        sign = re.search(r"&&|\|\||!(?!=)|(?<![=!<>])=(?!=)", text)
        if sign is not None:
            why += f"; write {_OF_C[sign.group()]!r} for {sign.group()!r}"
        raise ExpressionError(why, text, shift + max(1, offset)) from None
    except (ValueError, MemoryError, RecursionError) as error:
        why = f"cannot be read ({str(error) or type(error).__name__})"
        raise ExpressionError(why, text, 1) from None


def _check_size(text: str) -> None:
    if not isinstance(text, str):
        raise ExpressionError("not a string", str(text), 1)
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", text, MAX_LENGTH + 1)
    if "\0" in text:
        raise ExpressionError("a null character", text, text.index("\0") + 1)
    depth = 0
    for tokens, token in enumerate(re.finditer(r"\w+|[^\w\s]", text)):
        depth += (token.group() in "([{") - (token.group() in ")]}")
        if depth > MAX_DEPTH:
            raise ExpressionError(f"nested more than {MAX_DEPTH} deep", text, token.start() + 1)
        if tokens >= MAX_TOKENS:
            raise ExpressionError(
                f"more than {MAX_TOKENS} words and signs", text, token.start() + 1
            )


_CHAINS: Mapping[type[ast.operator], tuple[type[ast.operator], ...]] = {
    **dict.fromkeys((ast.Add, ast.Sub), (ast.Add, ast.Sub)),
    **{kind: (kind,) for kind in (ast.Mult, ast.BitAnd, ast.BitXor, ast.BitOr)},
}
"""Operators whose chains are read as one node, such as ``a + b - c``."""

_JUNCTIONS: Mapping[type[ast.operator], str] = {ast.BitAnd: "and", ast.BitOr: "or"}
_UNARY: Mapping[type[ast.unaryop], str] = {
    ast.USub: "unary -",
    ast.UAdd: "unary +",
    ast.Not: "not",
    ast.Invert: "~",
}
_OF_SEQUENCES = {"len": 0, "count": 1, "pos": 1, "follows": 2, "at": 1, "first": 0, "last": 0}
"""The functions of sequences, and how many elements or places they take."""

_CALLS = tuple(
    dict.fromkeys([*FUNCTIONS, "sum", "count", "range", "value", "pos", "at", *_OF_SEQUENCES])
)
_REFUSED: Mapping[type[ast.expr], str] = {
    ast.Attribute: "attributes are not allowed",
    ast.Subscript: "subscripts are for sequences, such as passes[0]; for a permutation use at(p, place), for a "
    "tuple a Python function",
    ast.Lambda: "lambda is not allowed; give a callable instead of a string",
    **dict.fromkeys(
        (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        "comprehensions are not allowed",
    ),
    ast.JoinedStr: "f-strings are not allowed",
    ast.NamedExpr: "':=' is not allowed; write '=='",
}


def read(
    text: str, parameters: Mapping[str, Parameter], aliases: Mapping[str, Node] | None = None
) -> Node:
    """Return the tree of an expression.

    Args:
        text: The user's text.
        parameters: Every parameter that may be named.
        aliases: If given, the text is in numexpr's dialect, in which ``& | ~`` between comparisons mean
            ``and or not``; these names are replaced by nodes (BaCO's ``p_0`` and ``p_i0``).

    Raises:
        ExpressionError: The text is not in the language; the message gives the reason and ``position`` the place.
    """
    try:
        return _read(text, parameters, aliases)
    except ExpressionError as error:
        hint = _hint_at_quotes(text, parameters)
        raise ExpressionError(error.message + hint, str(text), error.position) from None


def _hint_at_quotes(text: str, parameters: Mapping[str, Parameter]) -> str:
    """Return how to write a name that Python does not allow, if a text has one without quotes; else nothing."""
    for name in sorted(parameters, key=len, reverse=True):
        bare = rf"(?<![\w'\"]){re.escape(name)}(?![\w'\"])"
        spelled = "pos({!r}, element)" if is_permutation(parameters[name]) else "value({!r})"
        if write_name(name) != name and re.search(bare, str(text)[:MAX_LENGTH]):
            return f"; for the parameter {name!r} write {write_name(name, spelled)}"
    return ""


def _read(
    text: str, parameters: Mapping[str, Parameter], aliases: Mapping[str, Node] | None
) -> Node:
    body, shift = parse_expression(text)
    if not text.isascii():
        # Python reads names in Unicode's normal form NFKC; parameters keep their spelling.
        spelled = {normalize("NFKC", name): name for name in parameters}
        for named in ast.walk(body):
            if isinstance(named, ast.Name):
                named.id = spelled.get(named.id, named.id)
    breaks = re.finditer(r"\r\n|\r|\n", text[shift:])
    lines = (shift, *(shift + line_break.end() for line_break in breaks))
    node = _Reader(text, parameters, aliases, lines).read(body)
    if isinstance(node, tree.Listed | tree.Span):
        raise ExpressionError("a list is not a constraint", text, 1)
    return node


@dataclass
class _Reader:
    """Converts the nodes of Python's tree; ``depth`` is the nesting of the current one."""

    text: str
    parameters: Mapping[str, Parameter]
    aliases: Mapping[str, Node] | None
    lines: tuple[int, ...]
    """Start of each line of the parsed part in the text."""
    depth: int = 0

    def column(self, line: int, byte: int) -> int:
        """Return the position in the text, in characters, of a byte position in the parsed lines."""
        start = self.lines[line - 1]
        return start + len(self.text[start : start + byte].encode()[:byte].decode(errors="ignore"))

    def refuse(self, node: ast.expr, message: str) -> NoReturn:
        position = self.column(node.lineno, node.col_offset) + 1
        raise ExpressionError(message, self.text, position)

    def read(self, node: ast.expr) -> Node:
        if self.depth > MAX_DEPTH:
            self.refuse(node, f"nested more than {MAX_DEPTH} deep")
        self.depth += 1
        converted = self.convert(node)
        self.depth -= 1
        if isinstance(converted, tree.Operation | tree.Comparison):
            converted = self.fold_constant(node, converted)
        start = self.column(node.lineno, node.col_offset)
        end = self.column(node.end_lineno or 1, node.end_col_offset or 0)
        return replace(converted, start=start, end=end)

    def value(self, node: ast.expr) -> Node:
        """Return a node that is a single value, not a collection."""
        value = self.read(node)
        if isinstance(value, tree.Listed | tree.Span):
            self.refuse(node, "a list is allowed only to the right of 'in'")
        return value

    def compared(self, node: ast.expr) -> Node:
        """Return a value that is compared: a tuple of constants is one, too."""
        if not isinstance(node, ast.Tuple):
            return self.value(node)
        parts = [self.compared(element) for element in node.elts]
        constants = [part.value for part in parts if isinstance(part, tree.Literal)]
        if len(constants) < len(parts):
            self.refuse(node, "a tuple that is compared has constants only")
        return tree.Literal(tuple(constants))

    def fold_constant(self, node: ast.expr, converted: Node) -> Node:
        """Return the value of a node without parameters, so that it is computed only once."""
        if not all(map(_is_fixed, tree.children(converted))):
            return converted
        try:
            value = exact.function(converted, ())(())
        except exact.UNDEFINED as error:
            self.refuse(node, f"cannot be computed ({error})")
        if isinstance(value, float) and not math.isfinite(value):
            self.refuse(node, "cannot be computed (too large)")
        return tree.Literal(value)

    def convert(self, node: ast.expr) -> Node:
        match node:
            case ast.Constant(value=value):
                return self.literal(node, value)
            case ast.Name(id=name):
                if self.aliases and name in self.aliases and name not in self.parameters:
                    return self.aliases[name]
                return self.parameter(node, name)
            case ast.UnaryOp():
                return self.unary(node)
            case ast.BinOp(op=operator) if (
                self.aliases is not None and type(operator) in _JUNCTIONS
            ):
                return self.junction(node)
            case ast.BinOp(op=operator) if type(operator) in _CHAINS:
                return self.chain(node)
            case ast.BinOp():
                return self.binary(node)
            case ast.BoolOp(op=operator, values=parts):
                word = "and" if isinstance(operator, ast.And) else "or"
                return _merge_junction(word, tuple(map(self.value, parts)))
            case ast.Compare(ops=[ast.In() | ast.NotIn() as operator], comparators=[right]) if (
                target := self.sequence(right)
            ) is not None:
                found = self.reading(node, "in", target, [node.left])
                inside = isinstance(operator, ast.In)
                return found if inside else tree.Operation("not", (found,))
            case ast.Compare():
                return self.comparison(node)
            case ast.Subscript(value=value, slice=place) if (
                target := self.sequence(value)
            ) is not None:
                return self.reading(node, "at", target, [place])
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self.choice((test, body, otherwise))
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return tree.Listed(tuple(map(self.compared, elements)))
            case ast.Call():
                return self.call(node)
            case _:
                default = f"{type(node).__name__} is not allowed"
                self.refuse(node, _REFUSED.get(type(node), default))

    def choice(self, nodes: Sequence[ast.expr]) -> Node:
        test, body, otherwise = map(self.value, nodes)
        return tree.Operation("if", (body, test, otherwise))

    def literal(self, node: ast.Constant, value: object) -> Node:
        if not isinstance(value, bool | int | float | str | None):
            self.refuse(node, f"{value!r:.40} is not a number, string, bool or None")
        if isinstance(value, float) and not math.isfinite(value):
            self.refuse(node, "the number is too large")
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            self.refuse(node, f"the number has more than {MAX_BITS} bits")
        return tree.Literal(value)

    def parameter(self, node: ast.expr, name: str) -> Node:
        if is_sequence(self.known(node, name)):
            shown = write_name(name)
            self.refuse(
                node,
                f"{name!r} is a sequence; use len({shown}), count({shown}, element), element in {shown}, "
                f"pos({shown}, element), {shown}[0], last({shown}) or follows({shown}, element, element)",
            )
        if is_permutation(self.known(node, name)):
            shown = write_name(name, "{!r}")
            self.refuse(
                node, f"{name!r} is a permutation; use pos({shown}, element) or at({shown}, place)"
            )
        return tree.Name(name)

    def known(self, node: ast.expr, name: str) -> Parameter:
        """Return the parameter of this name."""
        if name in self.parameters:
            return self.parameters[name]
        names = list(self.parameters)
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        self.refuse(node, f"unknown name {name!r}; the parameters are {shown}")

    def unary(self, node: ast.UnaryOp) -> Node:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Invert) and self.aliases is not None:
            if not self.is_condition(operand):
                self.refuse(node, "'~' is for conditions; write 'not'")
            return tree.Operation("not", (operand,))
        if isinstance(node.op, ast.Invert) and self.is_condition(operand):
            self.refuse(node, "'~' of a condition is always true; write 'not'")
        return tree.Operation(_UNARY[type(node.op)], (operand,))

    def binary(self, node: ast.BinOp) -> Node:
        kind = type(node.op)
        operands = tuple(map(self.value, (node.left, node.right)))
        if kind not in SIGNS:
            self.refuse(node, f"the operator {kind.__name__} is not allowed")
        return tree.Operation(SIGNS[kind], operands)

    def chain(self, node: ast.BinOp) -> Node:
        """Return a sum, or the like, of any number of operands as one node, so that long ones are not deep."""
        signs = _CHAINS[type(node.op)]
        links: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp) and isinstance(first.op, signs):
            links.append(first)
            first = first.left
        parts = [self.value(first)]
        for link in reversed(links):
            right = self.value(link.right)
            if len(parts) == 1 and (link is node or (_is_fixed(parts[0]) and _is_fixed(right))):
                pair = tree.Operation(SIGNS[type(link.op)], (parts[0], right))
                parts = [self.fold_constant(link, pair)]
            else:
                negative = isinstance(link.op, ast.Sub)
                parts.append(tree.Operation("unary -", (right,)) if negative else right)
        whole = SIGNS[signs[0]]
        return tree.Operation(whole, tuple(parts)) if parts[1:] else parts[0]

    def junction(self, node: ast.BinOp) -> Node:
        """Return conditions that numexpr's ``&`` or ``|`` joins, or bits of numbers in parentheses."""
        operands = tuple(map(self.value, (node.left, node.right)))
        sign, are_conditions = SIGNS[type(node.op)], [*map(self.is_condition, operands)]
        if all(are_conditions):
            return _merge_junction(_JUNCTIONS[type(node.op)], operands)
        start = self.column(node.lineno, node.col_offset)
        end = self.column(node.end_lineno or 1, node.end_col_offset or 0)
        around = self.text[:start].rstrip()[-1:] + self.text[end:].lstrip()[:1]
        if any(are_conditions) or around != "()":
            self.refuse(node, f"{sign!r} joins conditions; put each side in parentheses")
        return tree.Operation(sign, operands)

    def is_condition(self, node: Node) -> bool:
        named = set(tree.names(node))
        kinds = {name: p.extent.kind for name, p in self.parameters.items() if name in named}
        return tree.is_condition(node, [n for n, k in kinds.items() if k is ColumnKind.BOOL])

    def comparison(self, node: ast.Compare) -> Node:
        sides = [self.compared(node.left)]
        operators: list[str] = []
        for operator, given in zip(node.ops, node.comparators, strict=True):
            sign = SIGNS.get(type(operator))
            if isinstance(given, ast.Constant) and given.value is None:
                sign = {ast.Is: "==", ast.IsNot: "!="}.get(type(operator), sign)
            if sign is None:
                self.refuse(node, "'is' is for None; write '=='")
            is_element = isinstance(given, ast.Tuple) and sign not in ("in", "not in")
            right = self.compared(given) if is_element else self.read(given)
            collection = isinstance(right, tree.Listed | tree.Span)
            if collection != (sign in ("in", "not in")):
                needed = "a value" if collection else "a list or a range"
                self.refuse(given, f"{sign!r} needs {needed}")
            if collection and given is not node.comparators[-1]:
                self.refuse(given, "a list must be the last of a chain of comparisons")
            operators.append(sign)
            sides.append(right)
        return tree.Comparison(tuple(operators), tuple(sides))

    def call(self, node: ast.Call) -> Node:
        listed = ", ".join(_CALLS)
        match node.func:
            case (
                ast.Name(id=name)
                | ast.Attribute(value=ast.Name(id="math" | "np" | "numpy"), attr=name)
            ):
                pass
            case _:
                self.refuse(node, f"only these functions can be called: {listed}")
        if name not in (*_CALLS, "where"):
            self.refuse(node, f"unknown function {name!r:.40}; there are {listed}")
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.refuse(node, f"{name} takes plain arguments only")
        target = self.sequence(node.args[0], quoted=True) if node.args else None
        if target is not None and name in _OF_SEQUENCES:
            return self.reading(node, name, target, node.args[1:])
        if name in ("len", "follows", "first", "last"):
            self.refuse(node, f"{name} takes a sequence{' or a set' if name == 'len' else ''}")
        match name, node.args:
            case "range", _:
                return self.range(node)
            case "value", [ast.Constant(value=str(target))]:
                return self.parameter(node, target)
            case "value", _:
                self.refuse(node, "value takes the name of one parameter, in quotes")
            case (("pos" | "at"), [ast.Name(id=target) | ast.Constant(value=str(target)), _]):
                if not is_permutation(self.known(node.args[0], target)):
                    self.refuse(node.args[0], f"{target!r} is not a permutation")
                return self.reading(node, name, target, node.args[1:])
            case (("pos" | "at"), _):
                what = "an element" if name == "pos" else "a place"
                self.refuse(node, f"{name} takes a permutation and {what}")
            case "where", [_, _, _] if self.aliases is not None:
                return self.choice(node.args)
            case "where", _:
                self.refuse(node, "where is not allowed; write 'a if test else b'")
            case _:
                return self.function(node, name)

    def function(self, node: ast.Call, name: str) -> Node:
        arguments = tuple(self.read(argument) for argument in node.args)
        variadic = name in VARIADIC or name in ("sum", "count")
        if variadic and len(arguments) == 1 and isinstance(arguments[0], tree.Listed):
            arguments = arguments[0].parts
        if any(isinstance(argument, tree.Listed | tree.Span) for argument in arguments):
            self.refuse(node, f"{name} takes numbers")
        fewest = 1 if name in ("sum", "count") else 2
        if (len(arguments) < fewest) if variadic else (len(arguments) != 1):
            least = "one or more" if fewest == 1 else "two or more"
            self.refuse(node, f"{name} takes {f'{least} numbers' if variadic else 'one number'}")
        if fewest == 2:
            return tree.Operation(name, arguments)
        if name == "count":
            one, zero = tree.Literal(1), tree.Literal(0)
            arguments = tuple(tree.Operation("if", (one, part, zero)) for part in arguments)
        return tree.Operation("+", arguments if arguments[1:] else (tree.Literal(0), *arguments))

    def range(self, node: ast.Call) -> Node:
        numbers = [self.constant_argument(argument) for argument in node.args]
        whole = [number for number in numbers if type(number) is int]
        if not 1 <= len(numbers) <= 3 or len(whole) < len(numbers) or whole[2:] == [0]:
            self.refuse(node, "range takes one to three whole numbers, the last of three not 0")
        return tree.Span(range(*whole))

    def constant_argument(self, node: ast.expr) -> object:
        argument = self.value(node)
        if not isinstance(argument, tree.Literal):
            self.refuse(node, "a constant is needed here, not a parameter")
        return argument.value

    def sequence(self, node: ast.expr, *, quoted: bool = False) -> str | None:
        """Return the name of the sequence that a node names, or None."""
        match node:
            case (
                ast.Name(id=name)
                | ast.Call(func=ast.Name(id="value"), args=[ast.Constant(value=str(name))])
            ):
                pass
            case ast.Constant(value=str(name)) if quoted:
                pass
            case _:
                return None
        return name if is_sequence(self.parameters.get(name)) else None

    def reading(self, node: ast.expr, name: str, target: str, given: Sequence[ast.expr]) -> Node:
        """Return the node of a function of the permutation or sequence ``target``."""
        parameter = self.parameters[target]
        assert is_permutation(parameter) or is_sequence(parameter)
        needed = _OF_SEQUENCES.get(name, 1)
        if len(given) != needed:
            self.refuse(node, f"{name} takes a sequence and {needed} more, got {len(given)} more")
        if is_sequence(parameter) and not parameter.ordered and name not in ("len", "count", "in"):
            shown = write_name(target)
            self.refuse(
                node, f"{target!r} is a set without order; use len({shown}) or element in {shown}"
            )
        arguments = [self.constant_argument(argument) for argument in given]
        if name == "first":
            return tree.Reading(target, "at", (0,))
        if name == "at":
            (place,), m = arguments, parameter.width
            low, ends = (
                (-m, f"-{m} to -1 from the end") if is_permutation(parameter) else (-1, "-1")
            )
            if type(place) is not int or not low <= place < m:
                self.refuse(given[0], f"places of {target!r} are 0 to {m - 1}, or {ends}")
            if place == -1 and is_sequence(parameter):
                return tree.Reading(target, "last")
            return tree.Reading(target, "at", (place % m,))
        indices = []
        for argument, value in zip(given, arguments, strict=True):
            index = parameter.index(value)
            if index is None:
                self.refuse(
                    argument, f"{value!r} is not an element of {target!r}: {parameter.elements}"
                )
            indices.append(index)
        return tree.Reading(target, name, tuple(indices))


def _is_fixed(node: Node) -> bool:
    """Whether a node has the same value for every row."""
    if isinstance(node, tree.Listed):
        return all(map(_is_fixed, node.parts))
    return isinstance(node, tree.Literal | tree.Span)


def _merge_junction(word: str, parts: Sequence[Node]) -> Node:
    """Return a junction with nested parts of the same kind merged, so that long chains are not deep."""
    merged: list[Node] = []
    for part in parts:
        same = isinstance(part, tree.Operation) and part.operator == word
        merged += tree.children(part) if same else (part,)
    return tree.Operation(word, tuple(merged))
