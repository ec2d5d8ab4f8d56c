"""Problems whose configurations are valued one at a time: their spaces are too large to list, or need a model."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from baco_like import Permutation, Space

from .problem import OUTSIDE, Problem, Values

Evaluate = Callable[[Mapping[str, Any]], float]
"""Returns the cost of a configuration, NaN if it fails."""

DRAWS = 20_000
"""Random configurations that estimate the expectation of random search."""

MOST_ORDERS = 5040
"""Packages without permutations choose from the feasible orders, up to this many."""


@dataclass(frozen=True, eq=False)
class ValuedProblem(Problem):
    """A problem with a function instead of a table; ``costs`` are those of uniform draws.

    Attributes:
        evaluate: The function.
        optimum: The least cost, or the best one known.
    """

    evaluate: Evaluate = field(kw_only=True)
    optimum: float = field(kw_only=True)

    @cached_property
    def number(self) -> "Numbers":
        """Numbers of the configurations, in the order of the first requests."""
        return Numbers(self.space, self.evaluate)

    @cached_property
    def choices(self) -> tuple[Values, ...]:
        """The values of each parameter, as in `Problem`.

        Raises:
            ValueError: A permutation has too many orders to choose from.
        """
        listed = []
        for name, parameter in self.space.parameters.items():
            if not isinstance(parameter, Permutation):
                listed.append(tuple(self.space.values(name)))
                continue
            if math.factorial(len(parameter.elements)) > MOST_ORDERS:
                raise ValueError(f"{self.name}: {name!r} has too many orders to list as choices")
            listed.append(tuple(permutations(parameter.elements)))
        return tuple(listed)

    def cost(self, number: int) -> float:
        return self.number.costs[number]

    @property
    def best(self) -> float:
        return self.optimum


class Numbers:
    """Numbers configurations in the order of the first requests, and keeps their costs.

    Args:
        space: Says which configurations are feasible.
        evaluate: Returns the cost of one.

    Attributes:
        costs: By number.
    """

    def __init__(self, space: Space, evaluate: Evaluate) -> None:
        self._space, self._evaluate = space, evaluate
        self._numbers: dict[Values, int] = {}
        self.costs: list[float] = []

    def __getitem__(self, row: Values) -> int:
        if row not in self._numbers:
            config = dict(zip(self._space.parameters, row, strict=True))
            if not self._space.contains(config):
                return OUTSIDE
            self._numbers[row] = len(self.costs)
            self.costs.append(self._evaluate(config))
        return self._numbers[row]

    def get(self, row: Values, _: int = OUTSIDE) -> int:
        return self[row]


def random_configs(space: Space) -> list[dict[str, Any]]:
    """Return uniform draws that estimate the expectation of random search."""
    return list(space.decode(space.feasible.sample(DRAWS, np.random.default_rng(0))))


def valued(
    name: str,
    group: str,
    space: Space,
    evaluate: Evaluate,
    optimum: float,
    costs: np.ndarray | None = None,
) -> ValuedProblem:
    """Return a problem with the costs of `random_configs`, which are found where they are not given."""
    if costs is None:
        costs = np.array([evaluate(config) for config in random_configs(space)])
    least = min(optimum, float(np.nanmin(costs)))
    size = space.feasible.count
    rows = range(10**9 if size is None else min(int(size), 10**9))
    return ValuedProblem(name, group, space, rows, costs, evaluate=evaluate, optimum=least)
