"""Read docstrings: the meanings of arguments are written there only."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


@cache
def meanings_of(make: Callable[..., Any]) -> Mapping[str, str]:
    """Return the texts in ``Args:`` or ``Attributes:`` of a docstring, with those of base classes, as Markdown."""
    meanings: dict[str, str] = {}
    for part in reversed(make.__mro__ if isinstance(make, type) else (make,)):
        text = inspect.cleandoc(part.__doc__ or "")
        for block in re.findall(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", text, re.MULTILINE):
            for name, meaning in re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", block, re.MULTILINE):
                plain = re.sub(r"`+([^`]+)`+", r"`\1`", " ".join(meaning.split()))
                meanings[name] = plain.rstrip(".")
    return meanings
