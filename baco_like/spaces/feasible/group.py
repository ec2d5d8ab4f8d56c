"""The factor held as a tree: several co-dependent parameters, or the listed values of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation_codes import Ranks
from baco_like.parameters.protocol import ParameterKind
from baco_like.spaces.feasible.distance import (
    closest_other_paths,
    nearest_paths,
    value_costs,
)
from baco_like.spaces.feasible.factor import FactorDefaults
from baco_like.spaces.feasible.ragged import thin
from baco_like.spaces.feasible.rules import ParameterDomain, whole_numbers
from baco_like.spaces.feasible.single_rows import ValueStep, is_small
from baco_like.spaces.feasible.tree import Tree, random_ranks

_LOOKED_UP = 2**20
"""Most entries of a table of positions; larger domains are searched."""

_SURPLUS = 16
"""Values of one level that are followed for each requested one: many lead to no feasible row."""


@dataclass(frozen=True, eq=False)
class TreeGroup(FactorDefaults):
    """The feasible combinations of co-dependent parameters.

    Attributes:
        columns: Code columns of the space, domain by domain.
        domains: The values that each level of the tree chooses from.
        tree: Feasible positions in the domains.
    """

    columns: Ints
    domains: tuple[ParameterDomain, ...]
    tree: Tree
    chooses_values = True  # each level chooses the value of one parameter

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

    @override
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
            np.unique(domain.codes[used, column])
            for domain, used in zip(self.domains, self.tree.used, strict=True)
            for column in range(domain.width)
        ]

    @property
    @override
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row."""
        used = zip(self.domains, self.tree.used, strict=True)
        return all(len(u) == d.total for d, u in used if d.ordered and d.width == 1)

    @override
    def steps(self) -> Sequence[ValueStep] | None:
        """Return the levels of the tree as steps, or None for permutations or parameters of too many values."""
        if not all(d.width == 1 and is_small(d.size, d.ordered) for d in self.domains):
            return None
        levels = zip(self.columns, self.domains, self.tree.levels, self._used, strict=True)
        return [
            ValueStep(int(column), domain, level, used) for column, domain, level, used in levels
        ]

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
        return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]

    def codes(self, positions: Ints) -> Codes:
        """Return the codes at these positions, ``(n, d)`` -> ``(n, w)``."""
        chosen = zip(self.domains, positions.T, strict=True)
        return np.concatenate([domain.codes[position] for domain, position in chosen], axis=1)

    def positions(self, codes: Codes) -> Ints:
        """Return positions in the domains, ``(n, w)`` -> ``(n, d)``, or -1."""
        if self._lookup is not None:
            low, span, start, table = self._lookup
            whole = whole_numbers(codes - low, span)
            return np.asarray(table[np.where(whole >= 0, whole + start, -1)])
        own = zip(self.domains, self.slices, strict=True)
        return np.stack([domain.positions(codes[:, at]) for domain, at in own], axis=1)

    @cached_property
    def _lookup(self) -> tuple[Array, Ints, Ints, Ints] | None:
        """One table of the positions of all domains' codes; None with permutations, fractions, or wide ranges.

        Returns:
            The least code of each domain, ``(d,)``; the greatest minus the least, plus 1, ``(d,)``; the first entry of
            each domain in the table, ``(d,)``; the position of every whole number from the least to the greatest code
            of each domain, or -1, then one more -1.
        """
        keys = [domain.keys for domain in self.domains]
        low = np.array([key[0] for key in keys])
        spans = np.array([key[-1] - key[0] + 1 for key in keys])
        scalars = all(domain.width == 1 for domain in self.domains)
        whole = all((key == np.rint(key)).all() for key in keys)
        if not (scalars and whole and spans.sum() <= _LOOKED_UP):
            return None
        span = spans.astype(np.int64)
        start = np.cumsum(span) - span
        table = np.full(int(span.sum()) + 1, -1, dtype=np.int64)
        for key, least, begin in zip(keys, low, start, strict=True):
            table[(key - least).astype(np.int64) + begin] = np.arange(len(key))
        return low, span, start, table

    def one_changes(self, codes: Codes, rng: Rng, limit: int | None) -> tuple[Codes, Ints, Mask]:
        """Return the feasible rows in which one parameter has another value, or two elements of a permutation swapped.

        All levels are changed in the same walk from the root to the leaves: a row's prefix offers only values with a
        path below, and rows that were changed above follow their own values.

        Args:
            codes: Rows, feasible or not, ``(n, w)``.
            rng: Random numbers.
            limit: Most random values of one parameter for a row; None means all.

        Returns:
            The rows, ``(m, w)``, their owners (not sorted), and which of the given rows are feasible, ``(n,)``.
        """
        n = len(codes)
        positions = self.positions(codes)
        # Unchanged rows come first, then the rows that were changed above, with the changed level and its new value.
        unchanged, owner = n, np.arange(n)
        depth, value, node = (np.zeros(n, dtype=np.int64) for _ in range(3))
        for i, (level, domain) in enumerate(zip(self.tree.levels, self.domains, strict=True)):
            own = positions[owner, i]
            edge, who = level.edges_of(node[:unchanged])
            new = level.value[edge] != own[who]
            if domain.kind is ParameterKind.PERMUTATION:  # they differ by one swap
                moved = domain.codes[level.value[edge]] != codes[owner[who], self.slices[i]]
                new &= moved.sum(axis=1) == 2
            edge, who = edge[new], who[new]
            if limit is not None and len(who) > _SURPLUS * limit:
                few = thin(who, rng, _SURPLUS * limit)
                edge, who = edge[few], who[few]
            unchanged_edge = level.edge(node, own)
            on = np.flatnonzero(unchanged_edge >= 0)
            unchanged = int(np.searchsorted(on, unchanged))
            node = level.child[np.concatenate([unchanged_edge[on], edge])].astype(np.int64)
            depth = np.concatenate([depth[on], np.full(len(who), i)])
            value = np.concatenate([value[on], level.value[edge]])
            owner = np.concatenate([owner[on], owner[who]])
        feasible = np.zeros(n, dtype=np.bool_)
        feasible[owner[:unchanged]] = True
        owner, depth, value = owner[unchanged:], depth[unchanged:], value[unchanged:]
        kept = thin(depth * n + owner, rng, limit)
        owner, depth, value = owner[kept], depth[kept], value[kept]
        rows = codes[owner]
        ends = np.searchsorted(depth, np.arange(len(self.domains) + 1)).tolist()
        for domain, at, begin, end in zip(self.domains, self.slices, ends, ends[1:], strict=False):
            rows[begin:end, at] = domain.codes[value[begin:end]]
        return rows, owner, feasible
