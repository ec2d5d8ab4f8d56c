"""Python's parser with limits on length, tokens and brackets, which are checked before the recursive parser runs."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping

from baco_like.constraints.language import exact

OPERATORS: Mapping[type[ast.AST], str] = {
    type(node): sign
    for sign in (*exact.ARITHMETIC, *exact.COMPARE)
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


class Refused(Exception):
    """A text is not accepted.

    Attributes:
        message: The reason.
        position: The place in the text, in characters from 1.
    """

    def __init__(self, message: str, position: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def parse_expression(text: str) -> tuple[ast.expr, int]:
    """Return Python's tree of an expression, and the number of blanks before it.

    Raises:
        Refused: The text is too long, too deeply nested, or not an expression.
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
        raise Refused(why, shift + max(1, offset)) from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise Refused(f"cannot be read ({str(error) or type(error).__name__})") from None


def _check_size(text: str) -> None:
    if not isinstance(text, str):
        raise Refused("not a string")
    if len(text) > MAX_LENGTH:
        raise Refused(f"longer than {MAX_LENGTH} characters", MAX_LENGTH + 1)
    if "\0" in text:
        raise Refused("a null character", text.index("\0") + 1)
    depth = 0
    for tokens, token in enumerate(re.finditer(r"\w+|[^\w\s]", text)):
        depth += (token.group() in "([{") - (token.group() in ")]}")
        if depth > MAX_DEPTH:
            raise Refused(f"nested more than {MAX_DEPTH} deep", token.start() + 1)
        if tokens >= MAX_TOKENS:
            raise Refused(f"more than {MAX_TOKENS} words and signs", token.start() + 1)
