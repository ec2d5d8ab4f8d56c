"""From a tree back to text, with the fewest parentheses.

Journals keep these texts, so they must not depend on the version of Python, as those of `ast.unparse` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

from baco_like.constraints.language import tree
from baco_like.constraints.language.operators import (
    AND,
    ATOM,
    BIT_OR,
    COMPARISON,
    NOT,
    OPERATORS,
    OR,
    SIGN,
)
from baco_like.constraints.language.tree import Node

_PRECEDENCE: Mapping[str, int] = {
    **{"if": 0, "or": OR, "and": AND, "not": NOT},
    **{name: known.binds for name, known in OPERATORS.items()},
}
"""How tightly an operator binds."""

Elements = Mapping[str, Sequence[Any]]


def write(node: Node, elements: Elements, least: int = 0) -> str:
    """Return the text of a tree.

    Args:
        node: The tree.
        elements: The elements of every permutation and sequence that it reads.
        least: A node that binds less tightly is put in parentheses.
    """
    binds = ATOM
    match node:
        case tree.Literal(value=value):
            text = repr(value)
            binds = SIGN if text.startswith("-") else ATOM
        case tree.Name(name=name):
            text = write_name(name)
        case tree.Reading(name=name, function=function, arguments=arguments):
            shown = arguments if function == "at" else [elements[name][i] for i in arguments]
            text = f"{function}({', '.join([write_name(name, '{!r}'), *map(repr, shown)])})"
            if function == "in":
                binds, text = COMPARISON, f"{shown[0]!r} in {write_name(name)}"
        case tree.Span(numbers=numbers):
            text = repr(numbers)
        case tree.Listed(parts=parts):
            text = f"[{', '.join(write(part, elements) for part in parts)}]"
        case tree.Comparison(operators=operators, parts=parts):
            binds = COMPARISON
            text = write_comparison(operators, [write(p, elements, BIT_OR) for p in parts])
        case tree.Operation(operator=name, parts=parts):
            binds = _PRECEDENCE[name]
            text = _write_operation(name, binds, parts, elements)
    return text if binds >= least else f"({text})"


def _write_operation(name: str, binds: int, parts: tuple[Node, ...], elements: Elements) -> str:
    if binds == ATOM:
        return f"{name}({', '.join(write(part, elements) for part in parts)})"
    first, *others = parts
    if not others:
        sign = "not " if name == "not" else name.removeprefix("unary ")
        return sign + write(first, elements, binds)
    if name == "if":
        body, test = (write(part, elements, OR) for part in parts[:2])
        return f"{body} if {test} else {write(parts[2], elements)}"
    # Signs bind to the left, except that ** binds to the right and its exponent may have a sign.
    left = write(first, elements, binds + (name in ("or", "and", "**")))
    rights = [write(part, elements, SIGN if name == "**" else binds + 1) for part in others]
    if name == "+" and len(parts) > 2:  # `a - b + c`: a sum in which b has the sign "unary -"
        terms = zip(parts[1:], rights, strict=True)
        return left + "".join(_write_term(part, right) for part, right in terms)
    return f" {name} ".join([left, *rights])


def _write_term(part: Node, text: str) -> str:
    negative = isinstance(part, tree.Operation) and part.operator == "unary -"
    return f" - {text.removeprefix('-')}" if negative else f" + {text}"


def write_name(name: str, quoted: str = "value({!r})") -> str:
    """Return a parameter's name, put into ``quoted`` if it is not a Python identifier (``unroll-loops``)."""
    plain = name.isidentifier() and not iskeyword(name)
    return name if plain else quoted.format(name)


def write_comparison(operators: Iterable[str], sides: Sequence[str]) -> str:
    """Return a chain of comparisons with these texts as its sides."""
    steps = zip(operators, sides[1:], strict=True)
    return sides[0] + "".join(f" {sign} {side}" for sign, side in steps)
