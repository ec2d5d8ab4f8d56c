"""Random spaces with their configurations found by testing all combinations in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from baco_like.exceptions import SpaceError
from baco_like.parameters import Permutation
from baco_like.spaces.space import Space

MOST = 600
"""Combinations of a case, give or take a factor: enough for every kind of space, and few for plain Python."""

Rule = tuple[str, Callable[[dict[str, Any]], bool]]

ON_NUMBERS = [
    ("{0} * {1} <= 30", lambda a, b, c: a * b <= 30),
    ("{0} % {1} == 0", lambda a, b, c: a % b == 0),
    ("{0} + {1} + {2} < 18", lambda a, b, c: a + b + c < 18),
    ("{0} != {1}", lambda a, b, c: a != b),
    ("{0} <= {1} and {1} <= {2}", lambda a, b, c: a <= b <= c),
    ("{0} * {1} % {2} == 0 or {0} == 1", lambda a, b, c: a * b % c == 0 or a == 1),
    ("{0} > 3", lambda a, b, c: a > 3),
    ("{0} + {1} - {2} in (1, 3, 5)", lambda a, b, c: a + b - c in (1, 3, 5)),
    ("{0} * {1} * {2} <= 60", lambda a, b, c: a * b * c <= 60),
    ("{0} / {1} <= {2} / 2", lambda a, b, c: a / b <= c / 2),
    ("not {0} // ({1} - {2}) > 1", lambda a, b, c: b != c and not a // (b - c) > 1),
    ("{0} == 1 or {0} % ({1} - {2}) == 0", lambda a, b, c: a == 1 or (b != c and a % (b - c) == 0)),
    ("{0} * {1} < 9 if {2} > 4 else {0} < 6", lambda a, b, c: a * b < 9 if c > 4 else a < 6),
]
ON_ORDERS = [
    ("pos(p, '{0}') < pos(p, '{1}')", lambda p, a, b, x: p.index(a) < p.index(b)),
    ("pos(p, '{0}') != 0", lambda p, a, b, x: p.index(a) != 0),
    ("pos(p, '{0}') < {2}", lambda p, a, b, x: p.index(a) < x),
    ("pos(p, '{0}') - pos(p, '{1}') != 1", lambda p, a, b, x: p.index(a) - p.index(b) != 1),
]


@dataclass(frozen=True)
class Case:
    """A space and its configurations by brute force."""

    parameters: dict[str, Any]
    constraints: list[str]
    everything: list[dict[str, Any]]
    feasible: list[bool]

    def space(self) -> Space:
        return Space(self.parameters, self.constraints)

    def space_or_none(self) -> Space | None:
        """Return the space, or None where it refuses because nothing satisfies the constraints (checked here)."""
        if any(self.feasible):
            return self.space()
        with pytest.raises(SpaceError):
            self.space()
        return None


@st.composite
def cases(draw: st.DrawFn, satisfiable: bool = False) -> Case:
    """Draw a small space of numbers and perhaps a word and a permutation, with constraints on them."""
    numbers = {
        f"x{i}": sorted(draw(st.sets(st.integers(1, 12), min_size=1, max_size=5)))
        for i in range(draw(st.integers(1, 5)))
    }
    parameters: dict[str, Any] = dict(numbers)
    if draw(st.booleans()):
        parameters["word"] = ["red", "green", "blue"][: draw(st.integers(1, 3))]
    elements = list("abcd")[: draw(st.integers(2, 4))]
    if draw(st.integers(0, 2)) == 0:
        parameters["p"] = Permutation(elements)
    while len(numbers) > 1 and len(combinations(parameters)) > MOST:
        del parameters[numbers.popitem()[0]]
    rules = [draw(_number_rule(list(numbers))) for _ in range(draw(st.integers(0, 4)))]
    if "p" in parameters:
        rules += [
            draw(_order_rule(elements, list(numbers))) for _ in range(draw(st.integers(0, 2)))
        ]
    names = draw(st.permutations(list(parameters)))
    parameters = {name: parameters[name] for name in names}
    everything = combinations(parameters)
    feasible = [all(holds(config) for _, holds in rules) for config in everything]
    if satisfiable and not any(feasible):
        rules, feasible = [], [True] * len(everything)
    return Case(parameters, [text for text, _ in rules], everything, feasible)


def combinations(parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every configuration without the constraints."""
    domains = [
        list(itertools.permutations(given.elements)) if isinstance(given, Permutation) else given
        for given in parameters.values()
    ]
    return [dict(zip(parameters, row, strict=True)) for row in itertools.product(*domains)]


@st.composite
def _number_rule(draw: st.DrawFn, names: list[str]) -> Rule:
    text, holds = draw(st.sampled_from(ON_NUMBERS))
    a, b, c = (draw(st.sampled_from(names)) for _ in range(3))
    return text.format(a, b, c), lambda config: holds(config[a], config[b], config[c])


@st.composite
def _order_rule(draw: st.DrawFn, elements: list[str], names: list[str]) -> Rule:
    text, holds = draw(st.sampled_from(ON_ORDERS))
    a, b = draw(st.permutations(elements))[:2]
    x = draw(st.sampled_from(names))
    return text.format(a, b, x), lambda config: holds(config["p"], a, b, config[x])


def index_distances(space: Space, row: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the sum over parameters of index differences; words differ by 1, permutations by half their moves."""
    total = np.zeros(len(rows))
    for name, at in space.columns.items():
        moved = np.abs(rows[:, at] - row[at]).sum(axis=1)
        if space.parameters[name].width > 1:
            moved = moved / 2
        elif name == "word":
            moved = (moved > 0).astype(float)
        total += moved
    return total
