"""A tree of feasible value positions whose equal subtrees are stored once.

Level l holds the edges that choose the l-th value. Every edge knows the node it leads to and how many leaves lie
before it. So a configuration's rank (its position in the order of the leaves) is a sum along its path, and the path of
a rank is found by one binary search for each level. All nodes have leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation import INT64_LIMIT, Ranks, rank_dtype, scramble
from baco_like.parameters.protocol import ParameterKind
from baco_like.spaces.feasible.rules import ParameterDomain
from baco_like.spaces.rows import concatenate_ranges

_DENSE = 2**18
"""Most cells of a level's table of edges; larger levels are searched."""


@dataclass(frozen=True, eq=False)
class Level:
    """The edges of one level, sorted by node and then by value.

    Attributes:
        size: Number of values that the level may choose from.
        key: ``node * size + value`` of each edge, increasing.
        child: The node of the next level that each edge leads to.
        start: The first edge of each node and, last, the number of edges.
        before: Number of leaves of the level before each edge and, last, of all leaves; None if each edge is a leaf.
    """

    size: int
    key: Ints
    child: Ints
    start: Ints
    before: Ranks | None

    @cached_property
    def value(self) -> Ints:
        """The value of each edge."""
        return self.key % self.size

    @cached_property
    def edge_at(self) -> Ints | None:
        """The edge of every ``node * (size + 1) + value``, -1 if there is none; None if the table would be large.

        The last cell of each node is -1: a value of -1 reads the last cell of the previous node, or of the last node.
        """
        cells = (len(self.start) - 1) * (self.size + 1)
        if cells > _DENSE:
            return None
        table = np.full(cells, -1, dtype=np.int64)
        table[self.key + self.key // self.size] = np.arange(len(self.key))
        return table

    def edge(self, node: Ints, value: Ints) -> Ints:
        """Return the edge of each node and value, or -1, which is a valid index, so dead rows can be followed.

        A value may be -1, which is not a value of any node.
        """
        if self.edge_at is not None:
            return np.asarray(self.edge_at[node * (self.size + 1) + value])
        key = node * self.size + value
        edge = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where((self.key[edge] == key) & (value >= 0), edge, -1)

    def edges_of(self, node: Ints) -> tuple[Ints, Ints]:
        """Return all edges of some nodes, node by node, and the index of the node of each edge."""
        start = self.start[node]
        length = self.start[node + 1] - start
        return concatenate_ranges(start, length), np.repeat(np.arange(len(node)), length)

    def leaves_before(self, edges: Ints) -> Ranks:
        """Return the number of leaves of the level before each edge."""
        return edges if self.before is None else self.before[edges]


@dataclass(frozen=True, eq=False)
class Edges:
    """A level under construction: node, value and child of each edge, sorted by node and then by value.

    ``nodes`` and ``size`` are the numbers of nodes and values; some nodes may have no edges.
    """

    nodes: int
    size: int
    node: Ints
    value: Ints
    child: Ints


class Tree:
    """Feasible rows of value positions, ``(n, d)``, in lexicographic order."""

    def __init__(self, levels: Sequence[Level], count: int) -> None:
        self.levels = tuple(levels)
        self.count = count
        self.depth = len(self.levels)

    @property
    def edges(self) -> int:
        """Number of stored edges."""
        return sum(len(level.key) for level in self.levels)

    @cached_property
    def used(self) -> list[Ints]:
        """Positions that occur in some row, increasing, for every level."""
        return [np.unique(level.value) for level in self.levels]

    def contains(self, positions: Ints) -> Mask:
        """Whether each row, ``(n, d)``, is in the tree."""
        contained = np.ones(len(positions), dtype=np.bool_)
        for _, _, edge in self._follow(positions):
            contained &= edge >= 0
        return contained

    def rank(self, positions: Ints) -> Ranks:
        """Return each row's rank, ``(n, d)`` -> ``(n,)``, or -1 for rows that are not in the tree."""
        contained = np.ones(len(positions), dtype=np.bool_)
        ranks: Ranks = np.zeros(len(positions), dtype=rank_dtype(self.count))
        for level, node, edge in self._follow(positions):
            contained &= edge >= 0
            ranks = ranks + (level.leaves_before(edge) - level.leaves_before(level.start[node]))
        ranks[~contained] = -1
        return ranks

    def _follow(self, positions: Ints) -> Iterator[tuple[Level, Ints, Ints]]:
        """Yield each level with the node that each row has reached, and the edge of its value there, or -1."""
        node = np.zeros(len(positions), dtype=np.int64)
        for level, value in zip(self.levels, positions.T, strict=True):
            edge = level.edge(node, value)
            yield level, node, edge
            node = level.child[edge].astype(np.int64)

    def unrank(self, ranks: Ranks) -> Ints:
        """Return the rows with these ranks, ``(n,)`` -> ``(n, d)``."""
        rows = np.empty((len(ranks), self.depth), dtype=np.int64)
        node = np.zeros(len(ranks), dtype=np.int64)
        for i, level in enumerate(self.levels):
            target = ranks + level.leaves_before(level.start[node])
            if level.before is None:
                edge = target = target.astype(np.int64)
            else:
                target = target.astype(level.before.dtype, copy=False)
                edge = np.searchsorted(level.before, target, side="right") - 1
            ranks = target - level.leaves_before(edge)
            rows[:, i] = level.key[edge] - node * level.size
            node = level.child[edge].astype(np.int64)
        return rows

    def walk(self, n: int, rng: Rng) -> Ints:
        """Return n rows drawn by choosing a child uniformly at every node: biased towards sparse subtrees.

        Hellsten et al. (BaCO, section 4.2) compare this sampling of Rasch et al. with uniform draws.
        """
        rows = np.empty((n, self.depth), dtype=np.int64)
        node = np.zeros(n, dtype=np.int64)
        for i, level in enumerate(self.levels):
            edge = rng.integers(level.start[node], level.start[node + 1])
            rows[:, i] = level.key[edge] - node * level.size
            node = level.child[edge].astype(np.int64)
        return rows


def one_level(size: int) -> Tree:
    """Return the tree of all values of one domain."""
    edges, leaves = np.arange(size), np.zeros(size, dtype=np.int64)
    return Tree([Level(size, edges, leaves, np.array([0, size]), before=None)], size)


def random_ranks(count: int, n: int, rng: Rng) -> Ranks:
    """Return n independent uniform ranks in ``range(count)``, exactly uniform for counts of any size."""
    if count <= INT64_LIMIT:
        return rng.integers(0, count, n, dtype=np.int64).astype(rank_dtype(count))
    words = -(-count.bit_length() // 32)
    surplus = 32 * words - count.bit_length()
    kept: list[int] = []
    while len(kept) < n:  # more than half of the draws are below the count
        for row in rng.integers(0, 2**32, (n - len(kept), words), dtype=np.uint32):
            draw = int.from_bytes(row.astype("<u4").tobytes(), "little") >> surplus
            if draw < count:
                kept.append(draw)
    return np.array(kept, dtype=object)


def finish_tree(levels: Sequence[Edges]) -> Tree | None:
    """Return the tree of some levels: dead ends are dropped, equal subtrees are merged, leaves are counted.

    Args:
        levels: From the root (node 0 of the first level) down; the children of the last level are not read.

    Returns:
        The tree, or None if no path reaches the last level.
    """
    finished: list[Level] = []
    kept = np.zeros(0, dtype=np.int64)  # number of each child's subtree, -1 for a dead end
    leaves: Ranks = np.ones(1, dtype=np.int64)  # below each node of the level beneath
    for level in reversed(levels):
        child = kept[level.child] if finished else np.zeros(len(level.node), dtype=np.int64)
        alive = child >= 0
        node, value, child = level.node[alive], level.value[alive], child[alive]
        if len(node) == 0:
            return None
        level, kept = _merge(Edges(level.nodes, level.size, node, value, child))
        start = np.searchsorted(level.node, np.arange(level.nodes + 1))
        before: Ranks | None = None
        ends: Ranks = start
        if finished:
            below = leaves[level.child]
            # The sum of floats is off by far less than a factor of two. Levels above have more leaves.
            exact = leaves.dtype != object and below.astype(np.float64).sum() < 2.0**62
            before = np.zeros(len(below) + 1, dtype=np.int64 if exact else object)
            np.cumsum(below, dtype=before.dtype, out=before[1:])
            ends = before[start]
        leaves = ends[1:] - ends[:-1]
        key = level.node * level.size + level.value
        child = level.child.astype(np.min_scalar_type(int(level.child.max(initial=0))))
        finished.append(Level(level.size, key, child, start, before))
    return Tree(finished[::-1], int(leaves[0]))


def _merge(level: Edges) -> tuple[Edges, Ints]:
    """Store nodes with the same edges once.

    Returns:
        The level of the distinct nodes, and each old node's new number, -1 without edges.
    """
    first = np.flatnonzero(np.diff(level.node, prepend=-1))
    length = np.diff(first, append=len(level.node))
    mixed = scramble(level.value.astype(np.uint64) + scramble(level.child.astype(np.uint64)))
    keys = np.add.reduceat(mixed, first)
    _, chosen, group = np.unique(keys, return_index=True, return_inverse=True)
    twin = chosen[group]
    edges = concatenate_ranges(first[twin], length[twin])
    # If two hashes collided, keep all.
    if not (
        np.array_equal(length, length[twin])
        and np.array_equal(level.value, level.value[edges])
        and np.array_equal(level.child, level.child[edges])
    ):
        chosen = group = np.arange(len(first))
    order = np.argsort(chosen)  # number nodes in the order of their first appearance
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    kept = np.full(level.nodes, -1, dtype=np.int64)
    kept[level.node[first]] = rank[group]
    edges = concatenate_ranges(first[chosen[order]], length[chosen[order]])
    node = np.repeat(np.arange(len(order)), length[chosen[order]])
    return Edges(len(order), level.size, node, level.value[edges], level.child[edges]), kept


# Nearest paths ------------------------------------------------------------------------------------------------------
#
# Feasible rows at the least distance, by dynamic programming over a tree.
#
# The distance of two configurations is the sum over their parameters of the difference of indices (Willemsen et al.,
# section IV-A), where categorical values differ by 0 or 1 and permutations by half the sum of their elements' moves
# (Spearman's footrule, 1 for an adjacent swap). Being a sum along a path, its minimum needs one pass over the edges.


EdgeCosts = Callable[[Codes], Sequence[Array]]
"""Returns, for n rows of codes, the distance that each edge adds: ``(n, edges)`` for each level."""

_CELLS = 2**22
"""Most numbers in one array; rows are treated in blocks of this size."""


def value_costs(domain: ParameterDomain, codes: Codes) -> Array:
    """Return the distance of each row of (not necessarily legal) codes to each value, ``(n, w)`` -> ``(n, size)``."""
    moves = (np.abs(codes[:, [i]] - domain.codes[:, i]) for i in range(domain.width))
    difference = sum(moves, start=np.zeros((len(codes), domain.size)))
    if domain.kind is ParameterKind.PERMUTATION:
        return 0.5 * difference
    return difference if domain.ordered else (difference >= 0.5).astype(np.float64)


def in_blocks(codes: Codes, width: int) -> Iterator[Codes]:
    """Yield the rows in blocks for which an array of this width is not too large; an empty block if there are none."""
    step = max(1, _CELLS // width)
    for begin in range(0, max(1, len(codes)), step):
        yield codes[begin : begin + step]


def nearest_paths(tree: Tree, edge_costs: EdgeCosts, codes: Codes, rng: Rng) -> Ints:
    """Return for each row a path at the least distance, ties are broken at random, ``(n, w)`` -> ``(n, d)``."""
    paths: list[Ints] = []
    for block in in_blocks(codes, tree.edges):
        costs = edge_costs(block)
        paths.append(_descend(tree, costs, _to_leaf(tree, costs), rng))
    return np.concatenate(paths)


def _to_leaf(tree: Tree, costs: Sequence[Array]) -> list[Array]:
    """Return the least cost from every node to a leaf: ``(n, nodes)`` for each level, then zeros for the leaves."""
    best = [np.zeros((len(costs[0]), 1))]
    for level, cost in zip(reversed(tree.levels), reversed(costs), strict=True):
        total = cost + best[-1][:, level.child]
        best.append(np.minimum.reduceat(total, level.start[:-1], axis=1))
    return best[::-1]


def _descend(tree: Tree, costs: Sequence[Array], best: Sequence[Array], rng: Rng) -> Ints:
    """Return a random cheapest path for each row."""
    n = len(costs[0])
    rows = np.empty((n, tree.depth), dtype=np.int64)
    node = np.zeros(n, dtype=np.int64)
    for i, level in enumerate(tree.levels):
        edge, owner = level.edges_of(node)
        total = costs[i][owner, edge] + best[i + 1][owner, level.child[edge]]
        tied = total == best[i][owner, node[owner]]
        edge, owner = edge[tied], owner[tied]
        ties = np.bincount(owner, minlength=n)
        chosen = edge[np.cumsum(ties) - ties + rng.integers(0, ties)]
        rows[:, i] = level.value[chosen]
        node = level.child[chosen].astype(np.int64)
    return rows
