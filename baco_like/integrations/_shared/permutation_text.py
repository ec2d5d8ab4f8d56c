"""Permutations as texts such as ``"i,j,k"``, for tools whose parameters are lists of choices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import permutations
from typing import Any

from baco_like.exceptions import SpaceError
from baco_like.parameters.permutation import Permutation
from baco_like.spaces.space import Space

MAX_ORDERS = 5040
"""Largest number of choices for one permutation (7 elements): the tools hold or iterate over all of them."""


def order_texts(name: str, parameter: Permutation, tool: str) -> list[str]:
    """Return the texts of all orders of a permutation.

    Args:
        name: Name of the parameter, for error messages.
        parameter: The permutation.
        tool: Name of the tool, for error messages.

    Raises:
        SpaceError: The permutation has more than seven elements, or two orders have the same text.
    """
    if math.factorial(len(parameter.elements)) > MAX_ORDERS:
        raise SpaceError(
            f"parameter {name!r}: {tool} lists every order of a permutation, so at most 7 elements are supported, "
            f"not {len(parameter.elements)}; use Optimizer directly"
        )
    texts = [str(element) for element in parameter.elements]
    if len(set(texts)) < len(texts) or any("," in text for text in texts):
        raise SpaceError(
            f"parameter {name!r}: {tool} needs elements that differ as text and contain no comma, not {texts}"
        )
    return [",".join(order) for order in permutations(texts)]


def write_permutations(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration, or a part of it, with its permutations as texts."""
    return {
        name: ",".join(map(str, value))
        if isinstance(space.parameters[name], Permutation)
        else value
        for name, value in config.items()
    }


def read_permutations(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the values that belong to the space, with permutations as tuples; the inverse of `write_permutations`.

    A text that is not an order is returned unchanged, so that the space rejects it.
    """
    config = {name: values[name] for name in space.names if name in values}
    for name, value in config.items():
        parameter = space.parameters[name]
        if isinstance(parameter, Permutation) and isinstance(value, str):
            config[name] = parameter.elements_from_texts(value.split(",")) or value
    return config
