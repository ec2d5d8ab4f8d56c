"""Plain values; checks of whole numbers, keywords, JSON's constants and the nesting of texts, used by all packages."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


def plain(value: Any) -> Any:
    """Return the Python value of a NumPy scalar, and anything else unchanged."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if type(value) in (int, float, str, bool):
        return value
    for kind in (str, float, int):  # np.str_, IntEnum and other subclasses; bool has none
        if isinstance(value, kind):
            return kind(value)
    return value


def as_tuple(value: Any) -> Any:
    """Return a tuple for a list, also inside it, as JSON and TOML have no tuples; anything else as `plain` does."""
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else plain(value)


def is_whole(value: Any, low: float = -np.inf, high: float = np.inf) -> bool:
    """Whether ``value`` is an int (not a bool, not a NumPy integer) from ``low`` to ``high``."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def whole_number(name: str, value: Any, low: int, error: type[Exception] = ValueError) -> int:
    """Return an argument as an int; NumPy integers are accepted, bools are not.

    Args:
        name: The argument, for the message.
        value: Its value.
        low: The smallest accepted value.
        error: Type of the exception.

    Raises:
        ValueError: Not a whole number, or below ``low``; or an exception of the type ``error``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, (bool, np.bool_)) or number < low:
        raise error(f"{name} must be a whole number from {low}, not {value!r}")
    return number


def reject_constant(text: str) -> Any:
    """Raise `ValueError` for NaN and infinities, which Python reads in JSON; for ``parse_constant``."""
    raise ValueError(f"{text} is not valid JSON")


_HIDES_BRACKETS = re.compile(
    r"""
    \"{3} .*? (?: \"{3,5} | \Z)  | \'{3} .*? (?: \'{3,5} | \Z)
    | \"[^"\n]*\"? | \'[^'\n]*\'? | \#[^\n]*
    """,
    re.DOTALL | re.VERBOSE,
)
"""The strings and comments of TOML; JSON has the first kind of one-line string only.

An unclosed string ends with its line or the text, so that no alternative scans the same characters twice.
"""

_LEVELS = np.zeros(256, np.int8)
_LEVELS[list(b"[{")] = 1
_LEVELS[list(b"]}")] = -1


def nesting_depth(text: str) -> int:
    """Return the deepest nesting of the brackets in a JSON or TOML text, in linear time.

    To be called before a parser, which needs stack for each level, and time and memory for each level of a key. In a
    text that is neither, only the part before the first mistake is counted correctly; parsers stop there.
    """
    bare = text.replace("\\\\", "").replace('\\"', "")  # no escaped quotes
    codes = _HIDES_BRACKETS.sub("", bare).encode("ascii", "replace")
    steps = _LEVELS[np.frombuffer(codes, np.uint8)]
    return int(np.cumsum(steps[steps != 0], dtype=np.int32).max(initial=0))


def explain_keywords(**values: type) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Name the value that has a keyword which the function lacks: its types by argument, as ``sharing=Sharing``."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = signature(function).parameters

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in kwargs.keys() - known.keys():
                for argument, kind in values.items():
                    if name in signature(kind).parameters:
                        raise TypeError(
                            f"{name!r} is not an argument of this call; write {argument}={kind.__name__}({name}=...)"
                        )
            return function(*args, **kwargs)

        return call

    return decorate
