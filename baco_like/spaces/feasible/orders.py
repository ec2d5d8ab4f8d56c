"""Permutations under precedence rules, counted and drawn by dynamic programming over subsets.

The orders of m elements in which certain ones come before others are the linear extensions of a partial order. They
form a tree whose l-th level chooses the element at position l. The possible continuations depend only on the *set* of
placed elements, so a level has at most 2^k nodes for k elements in rules. The other elements are exchangeable: the
tree has one symbol for all of them, and their own order is a free permutation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.parameters.permutation import (
    Permutation,
    Ranks,
    are_permutations,
    permutation_ranks,
    permutations_from_ranks,
    rank_dtype,
)
from baco_like.parameters.protocol import Parameter, is_permutation
from baco_like.spaces.feasible.feasible_set import Box, FactorDefaults, sort_elements
from baco_like.spaces.feasible.rules import join_ranks, split_ranks
from baco_like.spaces.feasible.tree import Edges, Tree, finish_tree, nearest_paths, random_ranks
from baco_like.spaces.feasible.work_limit import TooLarge

MAX_EDGES = 2**23
"""Most edges of the tree of orders: a few seconds and half a gigabyte."""


@dataclass(frozen=True, eq=False)
class OrderRules:
    """Rules on the positions of m elements.

    Attributes:
        before: ``before[a, b]`` is True if element a must come before element b, ``(m, m)``.
        places: ``places[a, l]`` is True if element a may have position l, ``(m, m)``.
    """

    before: Mask
    places: Mask


def find_order_rules(
    name: str, parameter: Parameter, constraints: Sequence[Constraint]
) -> tuple[OrderRules, list[Constraint]]:
    """Return the rules on single elements and pairs of one permutation, and the constraints that are not such rules.

    A rule is recognised by evaluating it on all positions of the elements that it reads, so it can be written in any
    way.
    """
    m = parameter.width
    rules = OrderRules(np.zeros((m, m), dtype=np.bool_), np.ones((m, m), dtype=np.bool_))
    return rules, [c for c in constraints if not _add_rule(rules, name, parameter, c)]


def _add_rule(rules: OrderRules, name: str, parameter: Parameter, constraint: Constraint) -> bool:
    """Add the constraint to the rules if it is a rule on order or position; otherwise return False."""
    read = constraint.elements(name) if isinstance(constraint, Expression) else None
    if read is None or not 1 <= len(read) <= 2:
        return False
    assert is_permutation(parameter)
    elements = [parameter.elements.index(element) for element in read]
    rows = _all_places(elements, parameter.width)
    held = np.asarray(constraint.holds({name: parameter.column(rows.astype(np.float64))}))
    if len(elements) == 1:
        rules.places[elements[0]] &= held
        return True
    a, b = elements
    first = rows[:, a] < rows[:, b]
    for earlier, later, order in ((a, b, first), (b, a, ~first)):
        if np.array_equal(held, order):
            rules.before[earlier, later] = True
            return True
    return False


def _all_places(elements: Sequence[int], m: int) -> Ints:
    """Return permutations with all possible positions of one or two elements, ``(m or m(m-1), m)``."""
    apart = np.argwhere(~np.eye(m, dtype=np.bool_))
    places = apart if len(elements) == 2 else np.arange(m)[:, None]
    rows = np.empty((len(places), m), dtype=np.int64)
    rows[:, elements] = places
    free = np.ones(rows.shape, dtype=np.bool_)
    np.put_along_axis(free, places, False, axis=1)
    others = np.setdiff1d(np.arange(m), elements)
    rows[:, others] = np.nonzero(free)[1].reshape(len(rows), len(others))
    return rows


@dataclass(frozen=True, eq=False)
class Extensions(FactorDefaults):
    """The permutations that satisfy some order rules.

    Attributes:
        columns: Code columns of the space.
        mentioned: Elements that a rule restricts, ``(k,)``; the tree's symbols 0 to k - 1.
        others: All other elements; the tree's symbol k.
        tree: Symbols by position.
    """

    columns: Ints
    mentioned: Ints
    others: Ints
    tree: Tree

    @property
    def count(self) -> int:
        """Exact number of permutations."""
        return math.prod(self._counts)

    @property
    def _counts(self) -> tuple[int, int]:
        return self.tree.count, math.factorial(len(self.others))

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a permutation that satisfies the rules."""
        good, symbols, _ = self._split(codes)
        return good & self.tree.contains(symbols)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        symbols = self.tree.unrank(random_ranks(self.tree.count, n, rng))
        return self._join(symbols, self._shuffle_others(n, rng))

    @override
    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn position by position (biased)."""
        return self._join(self.tree.walk(n, rng), self._shuffle_others(n, rng))

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks, or -1: by the order of the symbols, then by the order of the other elements."""
        good, symbols, others = self._split(codes)
        ranks = np.where(good, self.tree.rank(symbols), -1)
        inner = permutation_ranks(others.astype(np.float64))
        return join_ranks([ranks, inner], self._counts)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        tree, inner = split_ranks(ranks, self._counts)
        others = permutations_from_ranks(inner, len(self.others))
        return self._join(self.tree.unrank(tree), others)

    def used(self, column: int) -> Array:
        """Return the positions at which an element occurs in some row."""
        symbol = [*self.mentioned, column].index(column)
        places = [place for place, used in enumerate(self.tree.used) if symbol in used]
        return np.array(places, dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, permutation or not, a feasible one at the least distance."""
        paths = nearest_paths(self.tree, self._edge_costs, codes, rng)
        targets = codes[:, self.others]
        return self._join(paths, np.lexsort((rng.random(targets.shape), targets), axis=1))

    def _edge_costs(self, codes: Codes) -> list[Array]:
        """Return the distance that each element would move; exchangeable ones keep the order of their targets."""
        targets = np.sort(codes[:, self.others], axis=1)
        placed = np.zeros(1, dtype=np.int64)  # number of exchangeable elements above each node
        costs: list[Array] = []
        for place, level in enumerate(self.tree.levels):
            target = np.empty((len(codes), len(level.key)))
            is_other = level.value == len(self.mentioned)
            above = placed[level.key // level.size]
            target[:, ~is_other] = codes[:, self.mentioned[level.value[~is_other]]]
            target[:, is_other] = targets[:, above[is_other]]
            costs.append(0.5 * np.abs(target - place))
            placed = np.empty(int(level.child.max()) + 1, dtype=np.int64)
            placed[level.child] = above + is_other
        return costs

    def _shuffle_others(self, n: int, rng: Rng) -> Ints:
        return rng.permuted(np.tile(np.arange(len(self.others)), (n, 1)), axis=1)

    def _split(self, codes: Codes) -> tuple[Mask, Ints, Ints]:
        """Return the symbols at every position, ``(n, m)``, and the orders of the other elements, ``(n, m - k)``.

        The first array tells which rows are permutations; other rows have the symbols of the identity.
        """
        good = are_permutations(codes)
        m, k = codes.shape[1], len(self.mentioned)
        elements = np.argsort(np.where(good[:, None], codes, np.arange(m)), axis=1)
        # Symbols 0 to k - 1, then k, k + 1, ... for the other elements until their order is known.
        number = np.argsort(np.concatenate([self.mentioned, self.others]))[elements]
        others = number[number >= k].reshape(len(codes), m - k) - k
        return good, np.minimum(number, k), others

    def _join(self, symbols: Ints, others: Ints) -> Codes:
        """Return codes; the inverse of `_split`."""
        elements = np.append(self.mentioned, -1)[symbols]
        elements[elements < 0] = self.others[others].ravel()
        return np.argsort(elements, axis=1).astype(np.float64)


def build_extensions(columns: Ints, rules: OrderRules, most: int = MAX_EDGES) -> Extensions | None:
    """Return the permutations that satisfy the rules, or None if there are none.

    Raises:
        TooLarge: The tree of possible sets of first elements has more than ``most`` edges.
    """
    m, ordered = len(columns), rules.before.any(axis=0) | rules.before.any(axis=1)
    mentioned = np.flatnonzero(ordered | ~rules.places.all(axis=1))
    k = len(mentioned)
    before = rules.before[np.ix_(mentioned, mentioned)]
    bits = np.left_shift(np.int64(1), np.arange(k))
    needs = (before * bits[:, None]).sum(axis=0)  # the elements that must come before each one
    sets = np.zeros(1, dtype=np.int64)
    levels: list[Edges] = []
    edges = 0
    for place in range(m):
        if len(sets) * (k + 1) > 4 * most:
            raise TooLarge
        allowed = np.empty((len(sets), k + 1), dtype=np.bool_)
        allowed[:, :k] = (sets[:, None] & (bits | needs)) == needs
        allowed[:, :k] &= rules.places[mentioned, place]
        placed = (sets[:, None] & bits).astype(np.bool_).sum(axis=1)
        allowed[:, k] = place - placed < m - k
        node, symbol = np.nonzero(allowed)
        edges += len(node)
        if edges > most:
            raise TooLarge
        distinct, child = np.unique(sets[node] | np.append(bits, 0)[symbol], return_inverse=True)
        levels.append(Edges(len(sets), k + 1, node, symbol, child))
        sets = distinct
    tree = finish_tree(levels)
    others = np.setdiff1d(np.arange(m), mentioned)
    return None if tree is None else Extensions(columns, mentioned, others, tree)


# Independent groups -------------------------------------------------------------------------------------------------
#
# Permutations under order rules with independent groups of elements: no rule connects two groups.
#
# The orders of all elements are the orders of every group, interleaved in any way: their number is a multinomial
# coefficient times the groups' numbers of orders, and a uniform draw is a uniform interleaving of uniform draws. The
# number of nodes of a single tree would be the product of the groups' numbers of nodes.


@dataclass(frozen=True, eq=False)
class Interleaved(FactorDefaults):
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
        good = are_permutations(codes)
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
