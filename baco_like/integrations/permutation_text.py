"""Permutations as texts such as ``"i,j,k"``, for tools that know only lists of choices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from baco_like.exceptions import SpaceError
from baco_like.parameters.permutation import Permutation
from baco_like.spaces.space import Space

MOST_ORDERS = 5040
"""Choices that stand for a permutation at most: those tools keep or walk over all of them."""


def order_text(order: Sequence[Any]) -> str:
    """Return an order as a text."""
    return ",".join(map(str, order))


def order_texts(name: str, parameter: Permutation, tool: str) -> list[str]:
    """Return the texts of all orders of a permutation.

    Raises:
        SpaceError: It has more than seven elements, or two orders of it would be one text.
    """
    if math.factorial(len(parameter.elements)) > MOST_ORDERS:
        raise SpaceError(
            f"parameter {name!r}: a permutation of {len(parameter.elements)} elements is too long for {tool}, "
            "which lists every order; at most 7, or use Optimizer by itself"
        )
    texts = [str(element) for element in parameter.elements]
    if len(set(texts)) < len(texts) or any("," in text for text in texts):
        raise SpaceError(f"parameter {name!r}: elements must differ as text and have no comma")
    return [order_text(order) for order in permutations(texts)]


def with_texts(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration whose permutations are texts; parameters may be missing."""
    return {
        name: order_text(value) if isinstance(space.parameters[name], Permutation) else value
        for name, value in config.items()
    }


def without_texts(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the part of a mapping that belongs to the space, its permutations as tuples; inverse of `with_texts`."""
    return {
        name: _order(parameter, values[name])
        if isinstance(parameter, Permutation)
        else values[name]
        for name, parameter in space.parameters.items()
        if name in values
    }


def _order(parameter: Permutation, value: Any) -> Any:
    """Return a text's order; what is no text of an order comes back as it is, for the space to refuse."""
    named = parameter.elements_from_texts(value.split(",")) if isinstance(value, str) else None
    return value if named is None else named
