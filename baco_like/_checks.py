"""Checks of whole numbers, used by all packages."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


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
