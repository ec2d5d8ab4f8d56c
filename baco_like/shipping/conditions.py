"""Known constraints that read the descriptors of a task, evaluated here and written as code for Python and C.

A shipped file chooses a configuration for sizes that were not tuned. The values of the parameters are known when the
file is written, and those of the descriptors when it is used. So each entry gets its own condition, in which only
descriptors are left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from baco_like.constraints import Expression
from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.analysis import where_known
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.sequences import read_value
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.writer import write
from baco_like.exceptions import RunFileError
from baco_like.parameters import Categorical, Parameter, Real, is_permutation, is_sequence
from baco_like.parameters.values import EXACT, is_number
from baco_like.shipping.c_text import c_number, c_string
from baco_like.spaces import Space

Task = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """A constraint in which the parameters have their values; only descriptors are left.

    Attributes:
        text: The constraint as the user wrote it.
        node: Its tree.
    """

    text: str
    node: Node

    def holds(self, task: Task) -> bool:
        """Return whether the condition is true for a task; False if it cannot be computed."""
        names = tree.names(self.node)
        try:
            return bool(exact.function(self.node, names)([task[name] for name in names]))
        except (KeyError, *exact.UNDEFINED):
            return False

    def to_python(self, names: Mapping[str, str]) -> str:
        """Return the condition as a Python expression.

        Args:
            names: The variable of each descriptor.
        """
        return write(_rename(self.node, names), {})

    def to_c(self, names: Mapping[str, str], prefix: str) -> str:
        """Return the condition as a C expression; the variable ``ok`` becomes 0 where it cannot be computed.

        Args:
            names: The variable of each descriptor; those of texts begin with ``t``.
            prefix: Beginning of the names of helper functions.

        Raises:
            RunFileError: C has no equivalent.
        """
        try:
            return _CWriter(names, prefix).truth(self.node)
        except _NoEquivalent as error:
            raise RunFileError(
                f"the constraint {self.text!r} cannot be written in C: {error}; rewrite it, or ship another format"
            ) from None


def read_conditions(
    space: Space, descriptors: Mapping[str, Sequence[Any]], extra: Iterable[str] = ()
) -> tuple[Expression, ...]:
    """Return the known constraints that read descriptors: those of the space, and further ones.

    Args:
        space: The space of the runs.
        descriptors: The values of each descriptor.
        extra: Further constraints.

    Raises:
        ExpressionError: A further constraint cannot be read.
        RunFileError: A constraint that reads descriptors is no text.
    """
    texts = []
    for constraint in space.given_constraints:
        if not descriptors.keys() & set(constraint.parameters):
            continue
        if not isinstance(constraint, Expression):
            raise RunFileError(
                f"the constraint {constraint.text!r} reads a descriptor and is no text; write it as an expression"
            )
        texts.append(constraint.text)
    parameters = with_descriptors(space, descriptors)
    return tuple(Expression(text, parameters) for text in [*texts, *extra])


def with_descriptors(
    space: Space, descriptors: Mapping[str, Sequence[Any]]
) -> dict[str, Parameter]:
    """Return the parameters of a space and those that let constraints name descriptors.

    Args:
        space: The space.
        descriptors: The known values of each descriptor; other tasks have others.
    """
    stand_ins = {
        name: Real(0.0, 1.0)
        if all(map(is_number, values))
        else Categorical(list(dict.fromkeys(values)))
        for name, values in descriptors.items()
    }
    return {**space.parameters, **stand_ins}


def bind(
    expression: Expression, config: Mapping[str, Any], parameters: Mapping[str, Parameter]
) -> Condition:
    """Return a constraint with the values of a configuration.

    Args:
        expression: The constraint.
        config: The configuration.
        parameters: The parameters of the space and of the descriptors, by `with_descriptors`.
    """
    return Condition(
        expression.text, _substitute(read(expression.text, parameters), config, parameters)
    )


def bind_absence(
    name: str,
    expression: Expression,
    config: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    absent: Collection[str],
) -> Condition:
    """Return the condition under which a configuration needs no value of a parameter that it lacks.

    Args:
        name: The conditional parameter.
        expression: The condition under which it is active.
        config: The configuration.
        parameters: As for `bind`.
        absent: The parameters that the configuration lacks.
    """
    never = {name: tree.Literal(False) for name in absent}
    active = where_known(read(expression.text, parameters), never)
    node = tree.Operation("not", (_substitute(active, config, parameters),))
    return Condition(f"{name} is inactive unless {expression.text}", node)


def _substitute(node: Node, config: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Node:
    match node:
        case tree.Name(name=name) if name in config:
            return tree.Literal(config[name])
        case tree.Reading(name=name) if name in config:
            parameter = parameters[name]
            assert is_permutation(parameter) or is_sequence(parameter)
            codes = tuple(i for e in config[name] if (i := parameter.index(e)) is not None)
            found = read_value(node, codes)
            if node.function in ("at", "last"):  # no element is never compared as equal
                return tree.Literal(parameter.elements[found - 1] if found else "")
            return tree.Literal(found)
        case tree.Operation() | tree.Comparison() | tree.Listed():
            return replace(
                node, parts=tuple(_substitute(part, config, parameters) for part in node.parts)
            )
    return node


def _rename(node: Node, names: Mapping[str, str]) -> Node:
    match node:
        case tree.Name(name=name):
            return tree.Name(names[name])
        case tree.Operation() | tree.Comparison() | tree.Listed():
            return replace(node, parts=tuple(_rename(part, names) for part in node.parts))
    return node


# C --------------------------------------------------------------------------------------------------------------------


class _NoEquivalent(Exception):
    """C has no equivalent of a part."""


_HELPERS = {
    "%": "mod",
    "/": "quotient",
    "//": "floor_quotient",
    "**": "power",
    "sqrt": "sqrt",
    "log": "log",
    "log2": "log2",
    "log10": "log10",
}
"""Helpers of the header that set ``ok`` to 0 where Python raises an error."""

_FUNCTIONS = {"abs": "fabs", "ceil": "ceil", "floor": "floor", "round": "rint", "int": "trunc"}
"""Functions of C; ``rint`` rounds halves to even numbers, as Python does."""


class _CWriter:
    """Writes a tree as C. Numbers are doubles, which hold whole numbers exactly up to 2**53."""

    def __init__(self, names: Mapping[str, str], prefix: str) -> None:
        self._names, self._prefix = names, prefix

    def truth(self, node: Node) -> str:
        """Return an expression whose value is 0 or 1."""
        match node:
            case tree.Operation(operator="and" | "or" as word, parts=parts):
                sign = " && " if word == "and" else " || "
                return "(" + sign.join(map(self.truth, parts)) + ")"
            case tree.Operation(operator="not", parts=(part,)):
                return f"!{self.truth(part)}"
            case tree.Operation(operator="if", parts=(body, test, otherwise)):
                return f"({self.truth(test)} ? {self.truth(body)} : {self.truth(otherwise)})"
            case tree.Comparison(operators=operators, parts=sides):
                steps = zip(operators, sides, sides[1:], strict=False)
                return "(" + " && ".join(self._compare(*step) for step in steps) + ")"
            case tree.Literal(value=str(text)):
                return str(int(bool(text)))
            case tree.Name(name=name) if self._is_text(node):
                return f"({self._names[name]}[0] != 0)"
        return f"({self.number(node)} != 0)"

    def number(self, node: Node) -> str:
        """Return an expression whose value is a number."""
        if self._is_text(node):
            raise _NoEquivalent("it computes with a text")
        match node:
            case tree.Literal(value=value):
                if value is None or isinstance(value, tuple):
                    raise _NoEquivalent(f"it reads {value!r}")
                if isinstance(value, int) and abs(value) > EXACT:
                    raise _NoEquivalent(f"{value} is beyond 2**53, up to where doubles are exact")
                return c_number(float(value))
            case tree.Name(name=name):
                return self._names[name]
            case tree.Comparison() | tree.Operation(operator="not"):
                return self.truth(node)
            case tree.Operation(operator="if", parts=(body, test, otherwise)):
                return f"({self.truth(test)} ? {self.number(body)} : {self.number(otherwise)})"
            case tree.Operation(operator="+" | "-" | "*" as sign, parts=(_, _, *_) as parts):
                return f"({f' {sign} '.join(map(self.number, parts))})"
            case tree.Operation(operator="unary -" | "unary +" as sign, parts=(part,)):
                return f"({sign[-1]}{self.number(part)})"
            case tree.Operation(operator="~", parts=(part,)):
                return f"{self._prefix}_bits({self.number(part)}, '^', -1, &ok)"
            case tree.Operation(operator="<<" | ">>" | "&" | "^" | "|" as sign, parts=parts):
                text, *further = map(self.number, parts)
                for operand in further:
                    text = f"{self._prefix}_bits({text}, '{sign[0]}', {operand}, &ok)"
                return text
            case tree.Operation(operator="min" | "max" as word, parts=(first, *others)):
                text = self.number(first)
                for other in others:
                    text = f"f{word}({text}, {self.number(other)})"
                return text
            case tree.Operation(operator=name, parts=parts) if name in _HELPERS:
                arguments = ", ".join(map(self.number, parts))
                return f"{self._prefix}_{_HELPERS[name]}({arguments}, &ok)"
            case tree.Operation(operator=name, parts=(part,)) if name in _FUNCTIONS:
                return f"{_FUNCTIONS[name]}({self.number(part)})"
            case tree.Operation(operator=name):
                raise _NoEquivalent(f"it uses the value of {name!r}")
        raise _NoEquivalent(f"it uses {type(node).__name__.lower()}")

    def _compare(self, sign: str, left: Node, right: Node) -> str:
        if sign in ("in", "not in"):
            text = self._contain(left, right)
            return text if sign == "in" else f"!{text}"
        are_texts = self._is_text(left), self._is_text(right)
        if all(are_texts):
            if sign not in ("==", "!="):
                raise _NoEquivalent("it orders texts")
            return f"(strcmp({self._text(left)}, {self._text(right)}) {sign} 0)"
        if any(are_texts):
            if sign not in ("==", "!="):
                raise _NoEquivalent("it compares a text with a number")
            return str(int(sign == "!="))  # as in Python, a text never equals a number
        return f"({self.number(left)} {sign} {self.number(right)})"

    def _contain(self, left: Node, right: Node) -> str:
        match right:
            case tree.Listed(parts=parts):
                tests = [self._compare("==", left, part) for part in parts]
                return "(" + (" || ".join(tests) or "0") + ")"
            case tree.Span(numbers=numbers) if numbers:
                value = self.number(left)
                low, high = min(numbers), max(numbers)
                step = c_number(float(abs(numbers.step)))
                begin, end = c_number(float(low)), c_number(float(high))
                inside = f"{value} >= {begin} && {value} <= {end}"
                return f"({inside} && fmod({value} - {begin}, {step}) == 0)"
            case tree.Span():
                return "0"
        raise _NoEquivalent("the right side of 'in' is no list")

    def _is_text(self, node: Node) -> bool:
        match node:
            case tree.Literal(value=value):
                return isinstance(value, str)
            case tree.Name(name=name):
                return self._names[name].startswith("t")
        return False

    def _text(self, node: Node) -> str:
        if isinstance(node, tree.Name):
            return self._names[node.name]
        assert isinstance(node, tree.Literal)
        return c_string(str(node.value))
