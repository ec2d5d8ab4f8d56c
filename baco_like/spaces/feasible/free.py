"""Factors of one parameter that no constraint ties to another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation_codes import (
    Ranks,
    adjacent_swaps,
    is_permutation,
    permutation_ranks,
    permutations_from_ranks,
)
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.spaces.feasible.distance import value_costs
from baco_like.spaces.feasible.domain import Domain
from baco_like.spaces.feasible.factor import FactorDefaults, Unranked
from baco_like.spaces.feasible.ragged import sort_by_owner
from baco_like.spaces.feasible.single_rows import ValueStep, is_small

_LISTED = 2**20
"""More values than this are never listed."""

_CELLS = 2**22


@dataclass(frozen=True, eq=False)
class FreeScalar(FactorDefaults):
    """All values of a scalar parameter with a finite cardinality; its codes are the indices."""

    columns: Ints
    parameter: Parameter

    @cached_property
    def count(self) -> int:
        """Number of values."""
        return int(self.parameter.cardinality)

    @override
    def steps(self) -> Sequence[ValueStep] | None:
        """Return the step of the parameter, or None if it has too many values."""
        ordered = self.parameter.kind is ParameterKind.ORDERED
        if not is_small(self.count, ordered):
            return None
        step = ValueStep.alone(
            int(self.columns[0]), ordered, np.arange(self.count, dtype=np.float64)
        )
        return None if step is None else (step,)

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a legal code."""
        return self.rank(codes) >= 0

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows, uniform on the parameter's scale."""
        return self.parameter.sample_uniform(n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Return the codes themselves, or -1 for codes that are not legal."""
        numbers = codes[:, 0]
        inside = (numbers >= 0) & (numbers < self.count)
        whole = np.where(inside, numbers, 0).astype(np.int64)
        return np.where(inside & (whole == numbers), whole, -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return ranks.astype(np.float64)[:, None]

    def used(self, column: int) -> Array | None:
        """Return all codes, unless there are too many to list."""
        return np.arange(self.count, dtype=np.float64) if self.count <= _LISTED else None

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return the closest index."""
        return np.clip(np.rint(codes), 0, self.count - 1)

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the indices next to a legal one (all others if unordered), or the closest one to another number."""
        legal = self.contains(codes)
        rows, owner = self.parameter.neighbours(codes[legal])
        steps = rows, np.flatnonzero(legal)[owner]
        return _or_nearest(steps, codes, legal, np.clip(np.rint(codes), 0, self.count - 1))


@dataclass(frozen=True, eq=False)
class ListedValues(FactorDefaults):
    """The listed values of one parameter: a constant, or the values that constraints on it alone allow."""

    columns: Ints
    domain: Domain

    @property
    def count(self) -> int:
        """Number of values."""
        return self.domain.size

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is one of the values."""
        return self.domain.positions(codes) >= 0

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        return self.unrank(rng.integers(0, self.count, n))

    def rank(self, codes: Codes) -> Ranks:
        """Return the positions in the list, or -1."""
        return self.domain.positions(codes)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return self.domain.codes[ranks]

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in a column."""
        return np.unique(self.domain.codes[:, column])

    @property
    @override
    def uses_every_value(self) -> bool:
        """Whether constraints leave all values of an ordered parameter."""
        return self.domain.is_complete

    @override
    def steps(self) -> Sequence[ValueStep] | None:
        """Return the step of the parameter, or None for a permutation or too many values."""
        if self.domain.width > 1:
            return None
        step = ValueStep.alone(int(self.columns[0]), self.domain.ordered, self.domain.codes[:, 0])
        return None if step is None else (step,)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row a value at the least distance."""
        chosen = np.empty(len(codes), dtype=np.int64)
        for begin, costs in self._costs(codes):
            tied = costs == costs.min(axis=1, keepdims=True)
            chosen[begin : begin + len(costs)] = np.argmax(tied * rng.random(costs.shape), axis=1)
        return self.domain.codes[chosen]

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return all values at the least positive distance of each row, their owners, and the distances."""
        rows, owners, distances = (
            [self.domain.codes[:0]],
            [np.empty(0, dtype=np.int64)],
            [np.empty(0)],
        )
        for begin, costs in self._costs(codes):
            costs[costs == 0] = np.inf
            least = costs.min(axis=1)
            owner, value = np.nonzero((costs == least[:, None]) & np.isfinite(costs))
            rows.append(self.domain.codes[value])
            owners.append(owner + begin)
            distances.append(least)
        return np.concatenate(rows), np.concatenate(owners), np.concatenate(distances)

    def _costs(self, codes: Codes) -> Iterator[tuple[int, Array]]:
        step = max(1, _CELLS // self.domain.size)
        for begin in range(0, len(codes), step):
            yield begin, value_costs(self.domain, codes[begin : begin + step])


@dataclass(frozen=True, eq=False)
class FreePermutation(FactorDefaults):
    """All permutations of m elements, never listed."""

    columns: Ints

    @cached_property
    def count(self) -> int:
        """The factorial of m."""
        return math.factorial(len(self.columns))

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a permutation."""
        return is_permutation(codes)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        m = len(self.columns)
        return rng.permuted(np.tile(np.arange(m, dtype=np.float64), (n, 1)), axis=1)

    def rank(self, codes: Codes) -> Ranks:
        """Return lexicographic ranks, or -1."""
        return np.where(is_permutation(codes), permutation_ranks(codes), -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return permutations_from_ranks(ranks, len(self.columns)).astype(np.float64)

    def used(self, column: int) -> Array | None:
        """Return all positions."""
        return np.arange(len(self.columns), dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return the permutation that sorts the elements by the given numbers."""
        return as_permutations(codes, rng)

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the adjacent swaps of a permutation; other rows have none (use `nearest`)."""
        legal = self.contains(codes)
        rows, owner = adjacent_swaps(codes[legal])
        return rows, np.flatnonzero(legal)[owner], np.where(legal, 1.0, np.inf)


@dataclass(frozen=True, eq=False)
class Continuous(Unranked, FactorDefaults):
    """A real parameter that no constraint reads; draws are uniform on its scale and ignore its prior."""

    columns: Ints
    parameter: Parameter

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is in the interval."""
        return self.parameter.legal(codes)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows."""
        return self.parameter.sample_uniform(n, rng)

    def used(self, column: int) -> Array | None:
        """Return None: reals are not listed."""
        return None

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return the closest number in the interval."""
        low, high = self.parameter.code_range
        return np.clip(codes, low, high)

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return no row for a number in the interval, else the closest number."""
        legal = self.contains(codes)
        nothing = np.empty((0, 1)), np.empty(0, dtype=np.int64)
        low, high = self.parameter.code_range
        return _or_nearest(nothing, codes, legal, np.clip(codes, low, high))


def as_permutations(codes: Codes, rng: Rng) -> Codes:
    """Return the permutations that sort the elements by the given numbers; ties are broken at random."""
    order = np.lexsort((rng.random(codes.shape), codes), axis=1)
    return np.argsort(order, axis=1).astype(np.float64)


def _or_nearest(
    steps: tuple[Codes, Ints], codes: Codes, legal: Mask, nearest: Codes
) -> tuple[Codes, Ints, Array]:
    """Return the steps of legal rows and the nearest legal row of the others, with owners and distances."""
    distance = np.where(legal, np.inf, np.abs(codes - nearest).sum(axis=1))
    distance[steps[1]] = 1.0
    rows, owner = sort_by_owner(
        np.concatenate([steps[0], nearest[~legal]]),
        np.concatenate([steps[1], np.flatnonzero(~legal)]),
    )
    return rows, owner, distance
