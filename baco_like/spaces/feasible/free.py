"""Factors of one parameter that no constraint ties to another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.exceptions import SpaceError
from baco_like.spaces.feasible.domain import Domain
from baco_like.spaces.feasible.ranking import (
    Ranks,
    is_permutation,
    permutation_ranks,
    permutations_from_ranks,
)
from baco_like.spaces.parameter import Parameter


@dataclass(frozen=True)
class FreeScalar:
    """All values of a scalar parameter with a finite cardinality; its codes are the indices themselves."""

    columns: Ints
    count: int

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a legal code."""
        return self.rank(codes) >= 0

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        return self.unrank(rng.integers(0, self.count, n))

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: the tree has one level."""
        return self.sample(n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Return the codes themselves, or -1 where they are not legal."""
        numbers = codes[:, 0]
        inside = (numbers >= 0) & (numbers < self.count)
        whole = np.where(inside, numbers, 0).astype(np.int64)
        return np.where(inside & (whole == numbers), whole, -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return ranks.astype(np.float64)[:, None]

    def used(self, column: int) -> Array | None:
        """Return all codes, unless there are too many to list."""
        return np.arange(self.count, dtype=np.float64) if self.count <= 2**20 else None


@dataclass(frozen=True)
class Listed:
    """The listed values of one parameter: a constant, or what constraints on it alone leave."""

    columns: Ints
    domain: Domain

    @property
    def count(self) -> int:
        """How many values."""
        return self.domain.size

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is one of the values."""
        return self.domain.positions(codes) >= 0

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        return self.unrank(rng.integers(0, self.count, n))

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: the tree has one level."""
        return self.sample(n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Return the positions in the list, or -1."""
        return self.domain.positions(codes)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return self.domain.codes[ranks]

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in a column."""
        return np.unique(self.domain.codes[:, column])


@dataclass(frozen=True)
class FreePermutation:
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

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: every node of a level has equally many children."""
        return self.sample(n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Return lexicographic ranks, or -1."""
        return np.where(is_permutation(codes), permutation_ranks(codes), -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return permutations_from_ranks(ranks, len(self.columns)).astype(np.float64)

    def used(self, column: int) -> Array | None:
        """Return all positions."""
        return np.arange(len(self.columns), dtype=np.float64)


@dataclass(frozen=True)
class Continuous:
    """A real parameter that no constraint reads; "uniform" is its own prior, by default even on its scale."""

    columns: Ints
    parameter: Parameter

    @property
    def count(self) -> None:
        """There is no count."""
        return None

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is in the interval."""
        return self.parameter.legal(codes)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows."""
        return self.parameter.sample(n, rng)

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows: there is no tree."""
        return self.sample(n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Refuse: reals have no ranks."""
        raise SpaceError("reals have no ranks")

    def unrank(self, ranks: Ranks) -> Codes:
        """Refuse: reals have no ranks."""
        raise SpaceError("reals have no ranks")

    def used(self, column: int) -> Array | None:
        """Return None: reals are not listed."""
        return None
