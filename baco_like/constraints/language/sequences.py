"""What expressions read of a sequence: functions of one value, and the same as running values from the last place on.

A permutation is read as the sequence of its elements; its columns hold the position of each element.

The running value at a place depends on the element there and on the running value behind it. So it serves both whole
columns and the trees of `feasible.group`, which have one node for each combination of running values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from baco_like._typing import Column, Ints
from baco_like.constraints.language.tree import Reading

_Step = Callable[[Ints, Ints, int, tuple[int, ...]], Any]


def _first_place(state: Ints, code: Ints, place: int, arguments: tuple[int, ...]) -> Any:
    """Return the place of an element, or the length as long as there is none."""
    length = np.where((state == 0) & (code >= 0), place + 1, state)
    return np.where(code == arguments[0], place, length)


def _adjacent(state: Ints, code: Ints, place: int, arguments: tuple[int, ...]) -> Any:
    """Return 1 if the second element is here, plus 2 if the pair is here or behind."""
    first, second = arguments
    return (code == second) + 2 * ((state >= 2) | ((code == first) & (state % 2 == 1)))


_STEPS: Mapping[str, _Step] = {
    "len": lambda state, code, place, _: np.where((state == 0) & (code >= 0), place + 1, state),
    "count": lambda state, code, _, arguments: state + (code == arguments[0]),
    "in": lambda state, code, _, arguments: state | (code == arguments[0]),
    "pos": _first_place,
    "follows": _adjacent,
    "at": lambda state, code, place, arguments: np.where(place == arguments[0], code + 1, state),
    "last": lambda state, code, _, __: np.where(state == 0, code + 1, state),
    "differs": lambda state, code, place, arguments: state | (code != arguments[place]),
}
"""The running value at a place: from the one behind it (0 at the end), the code of the element, the place and the
arguments of the function. That of ``at`` and ``last`` is the element's code plus 1; 0 means that there is none. No
expression has ``differs``: whether the value differs from that of these codes, one for each place."""

_AT_ONCE: Mapping[str, Callable[..., Any]] = {
    "len": lambda column: (column >= 0).sum(axis=1),
    "count": lambda column, element: (column == element).sum(axis=1),
    "in": lambda column, element: (column == element).any(axis=1),
}
"""The functions that need no pass over the places."""

_VALUES: Mapping[str, Callable[..., Any]] = {
    "len": len,
    "count": lambda codes, element: codes.count(element),
    "in": lambda codes, element: element in codes,
    "pos": lambda codes, element: codes.index(element) if element in codes else len(codes),
    "follows": lambda codes, *pair: pair in pairwise(codes),
    "at": lambda codes, place: codes[place] + 1 if place < len(codes) else 0,
    "last": lambda codes: codes[-1] + 1 if codes else 0,
}
"""The functions of a tuple of codes; those of elements give the code plus 1, or 0."""


def step(node: Reading, state: Ints, code: Ints, place: int) -> Ints:
    """Return the running values of a function at one place, ``(n,)``; 0 is the one behind the last place."""
    return np.asarray(_STEPS[node.function](state, code, place, node.arguments), dtype=np.int64)


def read_positions(node: Reading, column: Column) -> Ints:
    """Return the values of ``pos`` or ``at`` of permutations, ``(n, m)`` -> ``(n,)``; of elements the code plus 1."""
    (argument,) = node.arguments
    if node.function == "pos":
        return np.asarray(column[:, argument])
    return np.asarray(np.argmax(column == argument, axis=1) + 1)


def read_column(node: Reading, column: Column) -> Ints:
    """Return the values of a function of sequences, ``(n, m)`` -> ``(n,)``; of elements the code plus 1, or 0."""
    if node.function in _AT_ONCE:
        return np.asarray(_AT_ONCE[node.function](column, *node.arguments), dtype=np.int64)
    state = np.zeros(len(column), dtype=np.int64)
    for place in range(column.shape[1] - 1, -1, -1):
        state = step(node, state, column[:, place], place)
    return state // 2 if node.function == "follows" else state


def read_value(node: Reading, codes: tuple[int, ...]) -> Any:
    """Return the value of a function of one sequence; of an element its code plus 1, or 0."""
    return _VALUES[node.function](codes, *node.arguments)
