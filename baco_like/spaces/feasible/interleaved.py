"""Permutations under order rules with independent groups of elements: no rule connects two groups.

The orders of all elements are the orders of every group, interleaved in any way: their number is a multinomial
coefficient times the groups' numbers of orders, and a uniform draw is a uniform interleaving of uniform draws. The
number of nodes of a single tree would be the product of the groups' numbers of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.permutation_codes import Ranks, is_permutation, rank_dtype
from baco_like.spaces.feasible.extensions import (
    Extensions,
    OrderRules,
    PermutationFactor,
    build_extensions,
)
from baco_like.spaces.feasible.free import Box, sort_elements
from baco_like.spaces.feasible.rules import join_ranks, split_ranks


@dataclass(frozen=True, eq=False)
class Interleaved(PermutationFactor):
    """The permutations whose groups satisfy their own rules.

    Attributes:
        columns: Code columns of the space.
        groups: The orders of each group; its columns are the indices of its elements, increasing.
    """

    columns: Ints
    groups: tuple[Extensions | Box, ...]

    @cached_property
    def count(self) -> int:
        """Exact number of permutations."""
        return math.prod(self._counts)

    @cached_property
    def _counts(self) -> list[int]:
        """Number of interleavings, then of the orders of each group."""
        orders = math.factorial(len(self._label)) // math.prod(map(math.factorial, self._sizes))
        return [orders, *(group.count or 0 for group in self.groups)]

    @property
    def _sizes(self) -> list[int]:
        return [len(group.columns) for group in self.groups]

    @cached_property
    def _label(self) -> Ints:
        """The group of each element."""
        label = np.empty(len(self.columns), dtype=np.int64)
        for number, group in enumerate(self.groups):
            label[group.columns] = number
        return label

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a permutation that satisfies the rules."""
        good = is_permutation(codes)
        for group, own in zip(self.groups, self._own(codes), strict=True):
            good = good & group.contains(own)
        return good

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        labels = rng.permuted(np.tile(self._label, (n, 1)), axis=1)
        return self._join(labels, [group.sample(n, rng) for group in self.groups])

    @override
    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn position by position (biased): first a group, then its next element."""
        left = np.tile(self._sizes, (n, 1))
        labels = np.empty((n, len(self.columns)), dtype=np.int64)
        for place in range(len(self.columns)):
            labels[:, place] = np.where(left > 0, rng.random(left.shape), -1.0).argmax(axis=1)
            left[np.arange(n), labels[:, place]] -= 1
        return self._join(labels, [group.walk(n, rng) for group in self.groups])

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks, or -1: by the interleaving, then by the orders of the groups."""
        good = self.contains(codes)
        legal = np.where(good[:, None], codes, self.unrank(np.zeros(1, dtype=np.int64)))
        ranks = [self._interleaving_ranks(self._label[np.argsort(legal, axis=1)])]
        ranks += [group.rank(own) for group, own in zip(self.groups, self._own(legal), strict=True)]
        return np.where(good, join_ranks(ranks, self._counts), -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        ranks, *inner = split_ranks(ranks, self._counts)
        owns = [group.unrank(own) for group, own in zip(self.groups, inner, strict=True)]
        labels = np.empty((len(ranks), len(self.columns)), dtype=np.int64)
        self._interleaving_ranks(labels, ranks)
        return self._join(labels, owns)

    def used(self, column: int) -> Array | None:
        """Return the positions of an element in all rows: other groups may come before or after it."""
        group = self.groups[self._label[column]]
        within = group.used(group.columns.tolist().index(column))
        assert within is not None
        others = np.arange(len(self.columns) - len(group.columns) + 1)
        return np.unique(within[:, None] + others)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row a near feasible row: every group at the least distance, then interleaved.

        An element gets its target position, or the position after a predecessor with a later target. The nearest row
        of all is as hard to find as an optimal schedule of one machine under precedence.
        """
        target = np.empty(codes.shape)
        within = np.empty(codes.shape)
        for group in self.groups:
            targets = codes[:, group.columns]
            own = group.nearest(sort_elements(targets, rng), rng).astype(np.int64)
            in_order = np.take_along_axis(targets, np.argsort(own, axis=1), axis=1)
            latest = np.maximum.accumulate(in_order, axis=1)
            target[:, group.columns] = np.take_along_axis(latest, own, axis=1)
            within[:, group.columns] = own
        chance = rng.random((len(codes), len(self.groups)))[:, self._label]
        order = np.lexsort((within, chance, target), axis=1)
        return np.argsort(order, axis=1).astype(np.float64)

    # Groups and their interleaving ---------------------------------------------------------------------------------

    def _own(self, codes: Codes) -> list[Codes]:
        """Return the permutation of each group, ``(n, m)`` -> ``(n, size)`` each."""
        return [
            np.argsort(np.argsort(codes[:, group.columns], axis=1), axis=1).astype(np.float64)
            for group in self.groups
        ]

    def _join(self, labels: Ints, owns: Sequence[Codes]) -> Codes:
        """Return the rows with these groups by position, ``(n, m)``, and these permutations of the groups."""
        codes = np.empty(labels.shape)
        for number, (group, own) in enumerate(zip(self.groups, owns, strict=True)):
            places = np.nonzero(labels == number)[1].reshape(len(labels), len(group.columns))
            codes[:, group.columns] = np.take_along_axis(places, own.astype(np.int64), axis=1)
        return codes

    def _interleaving_ranks(self, labels: Ints, ranks: Ranks | None = None) -> Ranks:
        """Return the lexicographic ranks of groups by position, ``(n, m)`` -> ``(n,)``.

        With ranks given, the labels are filled in first, position by position.
        """
        n, m = labels.shape
        rows, left = np.arange(n), np.tile(self._sizes, (n, 1))
        dtype = rank_dtype(max(self.count, self._counts[0] * m))
        ways: Ranks = np.full(n, self._counts[0], dtype=dtype)
        before = np.zeros_like(ways)
        for place in range(m):
            ends = ways[:, None] * np.cumsum(left, axis=1).astype(dtype) // (m - place)
            if ranks is not None:
                rest: Ranks = ranks.astype(dtype) - before
                labels[:, place] = (ends <= rest[:, None]).sum(axis=1)
            label = labels[:, place]
            ways = ways * left[rows, label].astype(dtype) // (m - place)
            before = before + (ends[rows, label] - ways)
            left[rows, label] -= 1
        return before


def interleave(columns: Ints, rules: OrderRules) -> Interleaved | Extensions | None:
    """Return the permutations that satisfy the rules, by groups, or None if there are none.

    A single tree is used if there is only one group, or if a rule restricts the position of an element, which ties all
    groups together.

    Raises:
        TooLarge: The orders of a group, or of all elements, are too many for a tree.
    """
    # Imported here: it takes 0.2 s, also in every worker process.
    from scipy.sparse.csgraph import connected_components

    number_of_groups, group_of = connected_components(rules.before, directed=False)
    if number_of_groups == 1 or not rules.places.all():
        return build_extensions(columns, rules)
    alone = np.bincount(group_of)[group_of] == 1
    groups: list[Extensions | Box] = []
    if alone.any():
        elements = np.flatnonzero(alone)
        groups.append(Box(elements, (Permutation(elements.tolist()),)))
    for number in np.unique(group_of[~alone]):
        members = np.flatnonzero(group_of == number)
        everywhere = np.ones((len(members), len(members)), dtype=np.bool_)
        own = build_extensions(
            members, OrderRules(rules.before[np.ix_(members, members)], everywhere)
        )
        if own is None:
            return None
        groups.append(own)
    return Interleaved(columns, tuple(groups))
