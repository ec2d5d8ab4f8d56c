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
from baco_like.parameters.permutation_codes import (
    Ranks,
    is_permutation,
    permutation_ranks,
    permutations_from_ranks,
    rank_dtype,
)
from baco_like.spaces.feasible.distance import nearest_paths
from baco_like.spaces.feasible.factor import FactorDefaults
from baco_like.spaces.feasible.growth import TooLarge
from baco_like.spaces.feasible.ragged import find_swaps
from baco_like.spaces.feasible.ranking import random_ranks
from baco_like.spaces.feasible.tree import Edges, Tree, finish_tree

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

    @property
    def mentioned(self) -> Ints:
        """Elements that a rule restricts."""
        touched = self.before.any(axis=0) | self.before.any(axis=1) | ~self.places.all(axis=1)
        return np.flatnonzero(touched)


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
        return self.tree.count * math.factorial(len(self.others))

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a permutation that satisfies the rules."""
        good = is_permutation(codes)
        symbols, _ = self._split(codes, good)
        return good & self.tree.contains(symbols)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        symbols = self.tree.unrank(random_ranks(self.tree.count, n, rng))
        return self._join(symbols, self._shuffled(n, rng))

    @override
    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn position by position (biased)."""
        return self._join(self.tree.walk(n, rng), self._shuffled(n, rng))

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks, or -1: by the order of the symbols, then by the order of the other elements."""
        good = is_permutation(codes)
        symbols, others = self._split(codes, good)
        ranks: Ranks = self.tree.rank(symbols).astype(rank_dtype(self.count))
        inner = permutation_ranks(others.astype(np.float64)).astype(ranks.dtype)
        return np.where(good & (ranks >= 0), ranks * math.factorial(len(self.others)) + inner, -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        free = math.factorial(len(self.others))
        symbols = self.tree.unrank((ranks // free).astype(rank_dtype(self.tree.count)))
        return self._join(symbols, permutations_from_ranks(ranks % free, len(self.others)))

    def used(self, column: int) -> Array | None:
        """Return the positions at which an element occurs in some row."""
        symbol = np.flatnonzero(self.mentioned == column)
        target = int(symbol[0]) if len(symbol) else len(self.mentioned)
        places = [place for place in range(self.tree.depth) if target in self.tree.used[place]]
        return np.array(places, dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, permutation or not, a feasible one at the least distance."""
        paths = nearest_paths(self.tree, self._edge_costs, codes, rng)
        return self._join(
            paths,
            np.lexsort((rng.random((len(codes), len(self.others))), codes[:, self.others]), axis=1),
        )

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the adjacent swaps that satisfy the rules; other rows than permutations have none."""
        return find_swaps(codes, self.contains)

    def _edge_costs(self, codes: Codes) -> list[Array]:
        """Return the distance that each element would move; exchangeable ones keep the order of their targets."""
        targets = np.sort(codes[:, self.others], axis=1)
        costs: list[Array] = []
        for place, (level, placed) in enumerate(
            zip(self.tree.levels, self._others_placed, strict=True)
        ):
            target = np.empty((len(codes), len(level.key)))
            is_other = level.value == len(self.mentioned)
            node = level.key // level.size
            target[:, ~is_other] = codes[:, self.mentioned[level.value[~is_other]]]
            target[:, is_other] = targets[:, placed[node[is_other]]]
            costs.append(0.5 * np.abs(target - place))
        return costs

    @cached_property
    def _others_placed(self) -> list[Ints]:
        """Number of exchangeable elements above every node of each level."""
        left = np.zeros(1, dtype=np.int64)
        found: list[Ints] = []
        for level in reversed(self.tree.levels):
            first = level.start[:-1]
            left = (level.value[first] == len(self.mentioned)) + left[level.child[first]]
            found.append(len(self.others) - left)
        return found[::-1]

    def _shuffled(self, n: int, rng: Rng) -> Ints:
        return rng.permuted(np.tile(np.arange(len(self.others)), (n, 1)), axis=1)

    def _split(self, codes: Codes, good: Mask) -> tuple[Ints, Ints]:
        """Return the symbol at every position, ``(n, m)``, and the order of the other elements, ``(n, m - k)``."""
        m = codes.shape[1]
        places = np.where(good[:, None], codes, np.arange(m))
        elements = np.argsort(places, axis=1)
        symbol = np.full(m, len(self.mentioned), dtype=np.int64)
        symbol[self.mentioned] = np.arange(len(self.mentioned))
        number = np.zeros(m, dtype=np.int64)
        number[self.others] = np.arange(len(self.others))
        symbols = symbol[elements]
        others = number[elements][symbols == len(self.mentioned)].reshape(
            len(codes), len(self.others)
        )
        return symbols, others

    def _join(self, symbols: Ints, others: Ints) -> Codes:
        """Return codes; the inverse of `_split`."""
        elements = np.append(self.mentioned, -1)[symbols]
        elements[elements < 0] = self.others[others].ravel()
        codes = np.empty(symbols.shape, dtype=np.float64)
        np.put_along_axis(
            codes,
            elements,
            np.broadcast_to(np.arange(symbols.shape[1], dtype=np.float64), symbols.shape),
            axis=1,
        )
        return codes


def build_extensions(columns: Ints, rules: OrderRules, most: int = MAX_EDGES) -> Extensions | None:
    """Return the permutations that satisfy the rules, or None if there are none.

    Raises:
        TooLarge: The tree of possible sets of first elements has more than ``most`` edges.
    """
    mentioned = rules.mentioned
    others = np.setdiff1d(np.arange(len(columns)), mentioned)
    levels = _levels(rules, mentioned, len(columns), most)
    tree = None if levels is None else finish_tree(levels)
    return None if tree is None else Extensions(columns, mentioned, others, tree)


def _levels(rules: OrderRules, mentioned: Ints, m: int, most: int) -> Sequence[Edges] | None:
    """Return the levels of the tree, or None if a level is empty."""
    k = len(mentioned)
    before = rules.before[np.ix_(mentioned, mentioned)]
    bits = np.left_shift(np.int64(1), np.arange(k))
    needs = (before * bits[:, None]).sum(
        axis=0
    )  # the set of elements that must come before each one
    sets = np.zeros(1, dtype=np.int64)
    levels: list[Edges] = []
    edges = 0
    for place in range(m):
        if len(sets) * (k + 1) > 4 * most:
            raise TooLarge
        allowed = np.empty((len(sets), k + 1), dtype=np.bool_)
        allowed[:, :k] = (sets[:, None] & bits) == 0
        allowed[:, :k] &= (sets[:, None] & needs) == needs
        allowed[:, :k] &= rules.places[mentioned, place]
        placed = (sets[:, None] & bits).astype(np.bool_).sum(axis=1)
        allowed[:, k] = place - placed < m - k
        node, symbol = np.nonzero(allowed)
        if len(node) == 0:
            return None
        edges += len(node)
        if edges > most:
            raise TooLarge
        after = sets[node] | np.append(bits, 0)[symbol]
        distinct, child = np.unique(after, return_inverse=True)
        levels.append(Edges(len(sets), k + 1, node, symbol, child))
        sets = distinct
    return levels
