"""The operators and functions of the language: on Python's numbers, on NumPy columns, and how tightly they bind."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

MAX_BITS = 4096
"""Integers of more bits are not computed; the row counts as undefined."""

OR, AND, NOT, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, SIGN, POWER, ATOM = range(
    1, 14
)
"""How tightly operators bind; a conditional expression is 0."""


def _check_bits(result: Any) -> Any:
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    return result


def _times(left: Any, right: Any) -> Any:
    return _check_bits(left * right)


def _shift(value: Any, places: Any) -> Any:
    if value and places > MAX_BITS:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    return _check_bits(value << places) if value else value << min(places, 1)


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and exponent > 0 and int(base).bit_length() * exponent > MAX_BITS + exponent:
        raise OverflowError(f"a number of more than {MAX_BITS} bits")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("a root of a negative number")
    return _check_bits(result)


def _round(how: Callable[[Any], Any], value: Any) -> Any:
    return how(value).astype(np.int64)


def _extreme(better: Callable[[Any, Any], Any], *values: Any) -> Any:
    """Return the first best value, as Python does; `numpy.minimum` differs for -0.0."""
    return reduce(lambda best, other: np.where(better(other, best), other, best), values)


class Operator(NamedTuple):
    """An operator or function of numbers.

    Attributes:
        exact: Returns Python's result.
        vector: The same for columns; None if the last bit depends on the library, so that rows are computed one by one.
        binds: How tightly it binds; functions are atoms.
    """

    exact: Callable[..., Any]
    vector: Callable[..., Any] | None
    binds: int = ATOM


OPERATORS: Mapping[str, Operator] = {
    "+": Operator(operator.add, operator.add, SUM),
    "-": Operator(operator.sub, operator.sub, SUM),
    "*": Operator(_times, operator.mul, PRODUCT),
    "/": Operator(operator.truediv, np.true_divide, PRODUCT),
    "//": Operator(operator.floordiv, np.floor_divide, PRODUCT),
    "%": Operator(operator.mod, np.remainder, PRODUCT),
    "**": Operator(_power, np.power, POWER),
    "<<": Operator(_shift, np.left_shift, SHIFT),
    ">>": Operator(operator.rshift, np.right_shift, SHIFT),
    "&": Operator(operator.and_, operator.and_, BIT_AND),
    "^": Operator(operator.xor, operator.xor, BIT_XOR),
    "|": Operator(operator.or_, operator.or_, BIT_OR),
    "unary -": Operator(operator.neg, np.negative, SIGN),
    "unary +": Operator(operator.pos, operator.pos, SIGN),
    "~": Operator(lambda value: ~operator.index(value), np.invert, SIGN),
    "min": Operator(min, partial(_extreme, operator.lt)),
    "max": Operator(max, partial(_extreme, operator.gt)),
    "abs": Operator(abs, np.abs),
    "ceil": Operator(math.ceil, partial(_round, np.ceil)),
    "floor": Operator(math.floor, partial(_round, np.floor)),
    "round": Operator(round, partial(_round, np.rint)),
    "int": Operator(int, partial(_round, np.trunc)),
    "sqrt": Operator(math.sqrt, np.sqrt),
    "log": Operator(math.log, None),
    "log2": Operator(math.log2, None),
    "log10": Operator(math.log10, None),
}
"""By name; a further one is an entry here and where it works on arrays, a case in `vectorised.extent_of_result`.

A function of two or more numbers is in `VARIADIC`, too."""

BINARY = tuple(sign for sign, known in OPERATORS.items() if known.binds not in (SIGN, ATOM))
FUNCTIONS = tuple(name for name, known in OPERATORS.items() if known.binds == ATOM)
"""The functions; `VARIADIC` ones take two or more numbers, the others one."""

VARIADIC = frozenset({"min", "max"})

CHAINS = frozenset("+*&^|")
"""Operators that a node may have with more than two operands; they are computed from the left."""


def _within(value: Any, collection: Any) -> bool:
    if not isinstance(collection, range):
        return value in collection
    # Python would iterate over the whole range for a float.
    return (
        not isinstance(value, str)
        and math.isfinite(value)
        and value == int(value)
        and int(value) in collection
    )


COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": _within,
    "not in": lambda value, collection: not _within(value, collection),
}
