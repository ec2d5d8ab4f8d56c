"""Factors of one parameter that no constraint reads, and what all factors of a single permutation share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters import permutation_codes
from baco_like.parameters.bases import IndexedParameter
from baco_like.parameters.permutation_codes import Ranks, is_permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.spaces.feasible.feasible_set import Factor, FactorDefaults
from baco_like.spaces.feasible.group import ListedValues
from baco_like.spaces.feasible.ragged import sort_by_owner
from baco_like.spaces.feasible.rules import list_domain, whole_numbers
from baco_like.spaces.feasible.single_rows import ValueStep, is_small

_LISTED = 2**14
"""More values than this are never listed: a search then draws some, half of them near a row's own value."""

_NUMBERED = 2**20
"""Most values of a parameter whose draws are made together with those of others."""


@dataclass(frozen=True, eq=False)
class FreeScalar(FactorDefaults):
    """All values of a parameter; draws are uniform on its scale and ignore its prior.

    The code of a scalar is the value itself for a real, else its index. The values of several columns are not numbered.
    """

    columns: Ints
    parameter: Parameter

    @cached_property
    def count(self) -> int | None:
        """Number of values, or None for a real or several columns."""
        numbered = self.parameter.width == 1 and self.parameter.cardinality < math.inf
        return int(self.parameter.cardinality) if numbered else None

    @cached_property
    def whole_numbers(self) -> int | None:
        """`count`, unless it is very large or the parameter's type has its own rule for legal codes."""
        has_own_rule = getattr(type(self.parameter), "legal", None) is not IndexedParameter.legal
        return None if has_own_rule or (self.count or math.inf) > _NUMBERED else self.count

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The bounds of the legal codes, or None unless the parameter is a real."""
        parameter = self.parameter
        return (parameter.low, parameter.high) if isinstance(parameter, Real) else None

    @override
    def steps(self) -> Sequence[ValueStep] | None:
        """Return the step of the parameter, or None if it has too many values."""
        if self.count is None or not is_small(self.count, ordered=True):
            return None
        return ListedValues.of(self.columns, list_domain("", self.parameter)).steps()

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a legal code."""
        return self.parameter.legal(codes)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows."""
        return self.parameter.sample_uniform(n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Return the codes themselves, or -1 for codes that are not legal."""
        assert self.count is not None
        return whole_numbers(codes[:, 0], self.count)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return ranks.astype(np.float64)[:, None]

    def used(self, column: int) -> Array | None:
        """Return all codes, unless there are too many to list."""
        if self.count is None or self.count > _LISTED:
            return None
        return np.arange(self.count, dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng | None = None) -> Codes:
        """Return the closest code."""
        return np.clip(codes if self.count is None else np.rint(codes), *self.parameter.code_range)

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the neighbours of a legal code (a real has none), or the closest code to another number."""
        legal, closest = self.contains(codes), self.nearest(codes)
        rows, owner = self.parameter.neighbours(codes[legal])
        owner = np.flatnonzero(legal)[owner]
        distance = np.where(legal, np.inf, np.abs(codes - closest).sum(axis=1))
        distance[owner] = 1.0
        rows = np.concatenate([rows, closest[~legal]])
        owner = np.concatenate([owner, np.flatnonzero(~legal)])
        return *sort_by_owner(rows, owner), distance


class PermutationFactor(FactorDefaults):
    """Members of factors of a single permutation."""

    def closest_others(self: Factor, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the adjacent swaps that satisfy the rules; other rows than permutations have none."""
        legal = np.flatnonzero(is_permutation(codes))
        rows, owner = permutation_codes.adjacent_swaps(codes[legal])
        good = self.contains(rows)
        owner = legal[owner[good]]
        distance = np.full(len(codes), np.inf)
        distance[owner] = 1.0
        return rows[good], owner, distance


@dataclass(frozen=True, eq=False)
class FreePermutation(PermutationFactor):
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
        return rng.permuted(np.tile(self.used(0), (n, 1)), axis=1)

    def rank(self, codes: Codes) -> Ranks:
        """Return lexicographic ranks, or -1."""
        return np.where(is_permutation(codes), permutation_codes.permutation_ranks(codes), -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return permutation_codes.permutations_from_ranks(ranks, len(self.columns)).astype(
            np.float64
        )

    def used(self, column: int) -> Array:
        """Return all positions."""
        return np.arange(len(self.columns), dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return the permutations that sort the elements by the given numbers; ties are broken at random."""
        order = np.lexsort((rng.random(codes.shape), codes), axis=1)
        return np.argsort(order, axis=1).astype(np.float64)
