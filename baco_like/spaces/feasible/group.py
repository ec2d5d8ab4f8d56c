"""A factor of several co-dependent parameters, held as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation_codes import Ranks
from baco_like.spaces.feasible.distance import closest_other_paths, nearest_paths, value_costs
from baco_like.spaces.feasible.domain import Domain, Lookup, build_lookup
from baco_like.spaces.feasible.one_change import one_changes
from baco_like.spaces.feasible.ranking import random_ranks
from baco_like.spaces.feasible.single_rows import ValueStep, is_small
from baco_like.spaces.feasible.tree import Tree


@dataclass(frozen=True, eq=False)
class TreeGroup:
    """The feasible combinations of co-dependent parameters.

    Attributes:
        columns: Code columns of the space, domain by domain.
        domains: The values that each level of the tree chooses from.
        tree: Feasible positions in the domains.
    """

    columns: Ints
    domains: tuple[Domain, ...]
    tree: Tree
    acceptance = 1.0

    @property
    def count(self) -> int:
        """Exact number of combinations."""
        return self.tree.count

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is in the tree."""
        return self.tree.contains(self.positions(codes))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        return self.unrank(random_ranks(self.count, n, rng))

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows from root to leaf (biased)."""
        return self.codes(self.tree.walk(n, rng))

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks, or -1."""
        return self.tree.rank(self.positions(codes))

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return self.codes(self.tree.unrank(ranks))

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in a column."""
        return self._used[column]

    @cached_property
    def _used(self) -> list[Array]:
        return [
            np.unique(domain.codes[self.tree.used[level], column])
            for level, domain in enumerate(self.domains)
            for column in range(domain.width)
        ]

    @property
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row."""
        used = self.tree.used
        return all(
            d.is_complete and len(u) == d.size
            for d, u in zip(self.domains, used, strict=True)
            if d.ordered and d.width == 1
        )

    def steps(self) -> Sequence[ValueStep] | None:
        """Return the levels of the tree as steps, or None for permutations or parameters of too many values."""
        if not all(
            domain.width == 1 and is_small(domain.size, domain.ordered) for domain in self.domains
        ):
            return None
        return tuple(
            ValueStep(
                int(column),
                domain.ordered,
                domain.codes[:, 0],
                level.start,
                level.value,
                level.child.astype(np.intp),  # `take` reads this type without conversion
                tuple(used.tolist()),
            )
            for column, domain, level, used in zip(
                self.columns, self.domains, self.tree.levels, self._used, strict=True
            )
        )

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, legal or not, a feasible row at the least distance."""
        return self.codes(nearest_paths(self.tree, self._edge_costs, codes, rng))

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return all feasible rows at the least positive distance of each row, their owners, and the distances."""
        paths, owner, distance = closest_other_paths(self.tree, self._edge_costs, codes)
        return self.codes(paths), owner, distance

    def _edge_costs(self, codes: Codes) -> list[Array]:
        return [
            value_costs(domain, codes[:, at])[:, level.value]
            for level, domain, at in zip(self.tree.levels, self.domains, self.slices, strict=True)
        ]

    @cached_property
    def slices(self) -> Sequence[slice]:
        """The columns of each domain within the group."""
        ends = np.cumsum([domain.width for domain in self.domains]).tolist()
        return [
            slice(end - domain.width, end) for domain, end in zip(self.domains, ends, strict=True)
        ]

    def positions(self, codes: Codes) -> Ints:
        """Return positions in the domains, ``(n, w)`` -> ``(n, d)``, or -1."""
        if self._lookup is not None:
            return self._lookup.positions(codes)
        rows = np.empty((len(codes), len(self.domains)), dtype=np.int64)
        for i, (domain, at) in enumerate(zip(self.domains, self.slices, strict=True)):
            rows[:, i] = domain.positions(codes[:, at])
        return rows

    @cached_property
    def _lookup(self) -> Lookup | None:
        return build_lookup(self.domains)

    def one_changes(self, codes: Codes, rng: Rng, limit: int | None) -> tuple[Codes, Ints, Mask]:
        """Return the feasible rows in which one parameter has another value, or two elements of a permutation swapped.

        Args:
            codes: Rows, feasible or not, ``(n, w)``.
            rng: Random numbers.
            limit: Most random values of one parameter for a row; None means all.

        Returns:
            The rows, ``(m, w)``, their owners (not sorted), and which of the given rows are feasible, ``(n,)``.
        """
        changes = one_changes(
            self.tree, self.positions(codes), partial(self._single, codes), rng, limit
        )
        rows = codes[changes.owner]
        ends = np.searchsorted(changes.level, np.arange(len(self.domains) + 1)).tolist()
        for domain, at, begin, end in zip(self.domains, self.slices, ends, ends[1:], strict=False):
            rows[begin:end, at] = domain.codes[changes.value[begin:end]]
        return rows, changes.owner, changes.feasible

    def _single(self, codes: Codes, level: int, value: Ints, owner: Ints) -> Mask | None:
        """Whether a value is one change away: any scalar (None), of permutations those that differ by one swap."""
        domain = self.domains[level]
        if domain.width == 1:
            return None
        moved = domain.codes[value] != codes[owner, self.slices[level]]
        return np.asarray(moved.sum(axis=1) == 2)

    def codes(self, positions: Ints) -> Codes:
        """Return the codes at these positions, ``(n, d)`` -> ``(n, w)``."""
        rows = np.empty((len(positions), len(self.columns)), dtype=np.float64)
        for i, (domain, at) in enumerate(zip(self.domains, self.slices, strict=True)):
            rows[:, at] = domain.codes[positions[:, i]]
        return rows
