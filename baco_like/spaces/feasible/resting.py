"""Conditional parameters that no tree can list: reals, wide integers and long permutations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.constraints.conditions import RestingConstraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.permutation_codes import Ranks
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.feasible.feasible_set import FeasibleSet

ParameterPlaces = Mapping[str, tuple[Parameter, slice]]
"""Each parameter and its columns within the factor."""


@dataclass(frozen=True, eq=False)
class Resting:
    """Rows that are drawn as if every parameter were active; the inactive ones then get their resting value.

    Each combination of the other parameters is as likely whether such a parameter is active or not: a real, a wide
    integer or a long permutation counts as one value.

    Attributes:
        columns: Code columns of the space.
        inside: The rows without the rules for these parameters; its columns are those of the factor, in order.
        parameters: All parameters of the factor.
        rules: The rule of each such parameter.
    """

    columns: Ints
    inside: FeasibleSet
    parameters: ParameterPlaces
    rules: tuple[RestingConstraint, ...]
    count = None

    @property
    def acceptance(self) -> float:
        """Estimated share of draws that `sample` keeps."""
        return self.inside.acceptance

    @property
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row, as far as that is known."""
        return self.inside.uses_every_value

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is legal and feasible, and its inactive parameters rest."""
        good = self.inside.contains(codes)
        legal = np.flatnonzero(good)
        columns = self._columns(codes[legal])
        for rule in self.rules:
            good[legal] &= rule.holds(columns)
        return good

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows."""
        return self._rest(self.inside.sample(n, rng))

    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n rows of draws with uniform lengths."""
        return self._rest(self.inside.spread(n, rng))

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows of biased draws."""
        return self._rest(self.inside.walk(n, rng))

    def rank(self, codes: Codes) -> Ranks:
        """Refuse: the rows are not numbered."""
        raise SpaceError("configurations with conditional parameters of this size have no ranks")

    def unrank(self, ranks: Ranks) -> Codes:
        """Refuse: the rows are not numbered."""
        raise SpaceError("configurations with conditional parameters of this size have no ranks")

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in a column, or None if they are not listed."""
        return self.inside.used(column)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row a feasible row at the least distance of the active parameters."""
        return self._rest(self.inside.nearest(codes, rng))

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the rows that the closest ones without the rules become, their owners, and the distances."""
        rows, owner = self.inside.closest_others(codes)
        rows = self._rest(rows)
        new = (rows != codes[owner]).any(axis=1)
        rows, owner = rows[new], owner[new]
        distance = np.full(len(codes), np.inf)
        distance[owner] = np.abs(rows - codes[owner]).sum(axis=1)
        return rows, owner, distance

    def steps(self) -> None:
        """Return None: the rows are treated with arrays only."""

    def _columns(self, codes: Codes) -> dict[str, Array]:
        return {name: p.column(codes[:, at]) for name, (p, at) in self.parameters.items()}

    def _rest(self, codes: Codes) -> Codes:
        columns = self._columns(codes)
        for rule in self.rules:
            _, at = self.parameters[rule.name]
            codes[~rule.conditions.active(rule.name, columns), at] = rule.conditions.resting[
                rule.name
            ]
        return codes
