"""A problem of the comparison: a space with the cost of every feasible configuration.

A configuration travels as its row, a tuple of values in the order of the parameters (a permutation is one value, the
tuple of its elements). Peers that know no permutations see one parameter that chooses among the feasible orders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Categorical, Integer, Permutation, Space
from baco_like.benchmarking.score import Baseline

Values = tuple[Any, ...]

OUTSIDE = -1
"""The number of a row that a known constraint excludes."""

RECORDED = Path(__file__).parents[2] / "recorded"


@dataclass(frozen=True, eq=False)
class Problem:
    """A space with the result of every configuration.

    Attributes:
        name: Label in rows and tables.
        group: ``gpu``, ``compiler``, ``synthetic`` or ``modelled``.
        space: With its known constraints, without defaults.
        rows: All feasible configurations.
        costs: Cost of each row, NaN for a failure, ``(n,)``.
    """

    name: str
    group: str
    space: Space
    rows: Sequence[Values]
    costs: np.ndarray

    @property
    def names(self) -> list[str]:
        return list(self.space.parameters)

    @cached_property
    def number(self) -> Mapping[Values, int]:
        """Numbers of the rows."""
        return {row: i for i, row in enumerate(self.rows)}

    @cached_property
    def choices(self) -> tuple[Values, ...]:
        """The values of each parameter; of a permutation the orders that occur."""
        listed = []
        for i, one in enumerate(self.space.parameters.values()):
            if isinstance(one, Permutation):
                listed.append(tuple(sorted({row[i] for row in self.rows})))
            else:
                own = range(one.low, one.high + 1) if isinstance(one, Integer) else one.values
                listed.append(tuple(own))
        return tuple(listed)

    @cached_property
    def unordered(self) -> tuple[bool, ...]:
        """Which parameters have values without an order: categoricals and permutations."""
        parameters = self.space.parameters.values()
        return tuple(isinstance(one, Categorical | Permutation) for one in parameters)

    @cached_property
    def start(self) -> tuple[int, ...] | None:
        """Indices into `choices` of the default configuration, which every peer measures first; None without one."""
        default = self.space.default_config
        if default is None:
            return None
        return tuple(
            own.index(default[name]) for name, own in zip(self.names, self.choices, strict=True)
        )

    @cached_property
    def baseline(self) -> Baseline:
        return Baseline.from_costs(self.costs)

    @property
    def best(self) -> float:
        """The least cost, or the best one known."""
        return float(np.nanmin(self.costs))

    def cost(self, number: int) -> float:
        """Return what a row costs, NaN if it fails."""
        return float(self.costs[number])

    @property
    def evaluations(self) -> int:
        """The methodology's budget."""
        return self.baseline.evaluations()[1]

    def row_of(self, indices: Sequence[int]) -> int:
        """Return the number of the row with these indices into `choices`, or `OUTSIDE`."""
        values = tuple(own[int(i)] for own, i in zip(self.choices, indices, strict=True))
        return self.number.get(values, OUTSIDE)
