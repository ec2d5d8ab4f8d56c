"""From a tree back to text, with the fewest parentheses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node

_CHOICE, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(10)
"""Precedence of each kind of node."""

_BINARY = {
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "//": _PRODUCT,
    "%": _PRODUCT,
    "**": _POWER,
}

Elements = Mapping[str, Sequence[Any]]


def write(node: Node, elements: Elements) -> str:
    """Return the text of a tree.

    Args:
        node: The tree.
        elements: The elements of every permutation that it reads.
    """
    match node:
        case tree.Literal(value=value):
            return repr(value)
        case tree.Name(name=name):
            return write_name(name)
        case tree.Position(name=name, element=element):
            return f"pos({write_name(name, '{!r}')}, {elements[name][element]!r})"
        case tree.At(name=name, place=place):
            return f"at({write_name(name, '{!r}')}, {place})"
        case tree.Span(numbers=numbers):
            return repr(numbers)
        case tree.Listed(elements=inner):
            return "[" + ", ".join(write(one, elements) for one in inner) + "]"
        case tree.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(write(one, elements) for one in arguments)})"
        case tree.Binary():
            return _binary(node, elements)
        case tree.Unary(operator="not", operand=operand):
            return f"not {_inside(operand, _NOT, elements)}"
        case tree.Unary(operator=sign, operand=operand):
            return f"{sign}{_inside(operand, _SIGN, elements)}"
        case tree.Junction(operator=word, parts=parts):
            tight = (_AND if word == "and" else _OR) + 1
            return f" {word} ".join(_inside(part, tight, elements) for part in parts)
        case tree.Comparison():
            return comparison(node, [_inside(one, _SUM, elements) for one in tree.children(node)])
        case tree.Choice(test=test, body=body, otherwise=otherwise):
            first = f"{_inside(body, _OR, elements)} if {_inside(test, _OR, elements)}"
            return f"{first} else {_inside(otherwise, _CHOICE, elements)}"


def write_name(name: str, quoted: str = "value({!r})") -> str:
    """Return a parameter's name, put into ``quoted`` if it is not a Python identifier (``unroll-loops``)."""
    plain = name.isidentifier() and not iskeyword(name)
    return name if plain else quoted.format(name)


def comparison(node: tree.Comparison, sides: Sequence[str]) -> str:
    """Return a comparison with these texts as its sides."""
    steps = zip(node.operators, sides[1:], strict=True)
    return sides[0] + "".join(f" {sign} {side}" for sign, side in steps)


def _binary(node: tree.Binary, elements: Elements) -> str:
    tight = _BINARY[node.operator]
    power = node.operator == "**"  # binds to the right, and its exponent may have a sign
    left = _inside(node.left, tight + power, elements)
    right = _inside(node.right, _SIGN if power else tight + 1, elements)
    return f"{left} {node.operator} {right}"


def _inside(node: Node, least: int, elements: Elements) -> str:
    """Return a node's text, in parentheses if it binds less tightly than ``least``."""
    text = write(node, elements)
    return text if _tightness(node) >= least else f"({text})"


def _tightness(node: Node) -> int:
    match node:
        case tree.Choice():
            return _CHOICE
        case tree.Junction(operator=word):
            return _AND if word == "and" else _OR
        case tree.Unary(operator=sign):
            return _NOT if sign == "not" else _SIGN
        case tree.Comparison():
            return _COMPARISON
        case tree.Binary(operator=sign):
            return _BINARY[sign]
        case tree.Literal(value=value):
            return _SIGN if not isinstance(value, bool | str) and value < 0 else _ATOM
        case _:
            return _ATOM
