"""Feasible rows at the least distance, by dynamic programming over a tree.

The distance of two configurations is the sum over their parameters of the difference of indices (Willemsen et al.,
section IV-A), where categorical values differ by 0 or 1 and permutations by half the sum of their elements' moves
(Spearman's footrule, 1 for an adjacent swap). Being a sum along a path, its minimum needs one pass over the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.parameters.protocol import ParameterKind
from baco_like.spaces.feasible.rules import ParameterDomain
from baco_like.spaces.feasible.tree import Tree

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


def closest_other_paths(
    tree: Tree, edge_costs: EdgeCosts, codes: Codes
) -> tuple[Ints, Ints, Array]:
    """Return all paths at the least positive distance of each row.

    Returns:
        The paths ``(m, d)``, the row that each belongs to ``(m,)``, increasing, and each row's distance ``(n,)``
        (``inf`` if there is no other path).
    """
    parts: list[tuple[Ints, Ints, Array]] = []
    begin = 0
    for block in in_blocks(codes, tree.edges):
        costs = edge_costs(block)
        best = _to_leaf(tree, costs)
        bound = _least_positive(tree, costs, best)
        paths, owner = _within(tree, costs, best, bound)
        parts.append((paths, owner + begin, bound))
        begin += len(block)
    paths, owner, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
    return paths, owner, distance


def _to_leaf(tree: Tree, costs: Sequence[Array]) -> list[Array]:
    """Return the least cost from every node to a leaf: ``(n, nodes)`` for each level, then zeros for the leaves."""
    best = [np.zeros((len(costs[0]), 1))]
    for level, cost in zip(reversed(tree.levels), reversed(costs), strict=True):
        total = cost + best[-1][:, level.child]
        best.append(np.minimum.reduceat(total, level.start[:-1], axis=1))
    return best[::-1]


def _least_positive(tree: Tree, costs: Sequence[Array], best: Sequence[Array]) -> Array:
    """Return the least positive cost from the root to a leaf, ``(n,)``, or ``inf``."""
    other = np.full((len(costs[0]), 1), np.inf)
    for level, cost, below in zip(reversed(tree.levels), reversed(costs), best[:0:-1], strict=True):
        total = np.where(cost > 0, cost + below[:, level.child], other[:, level.child])
        other = np.minimum.reduceat(total, level.start[:-1], axis=1)
    return other[:, 0]


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


def _within(
    tree: Tree, costs: Sequence[Array], best: Sequence[Array], bound: Array
) -> tuple[Ints, Ints]:
    """Return all paths whose cost is positive and at most the row's bound, and the row of each."""
    owner = np.flatnonzero(np.isfinite(bound))
    node = np.zeros(len(owner), dtype=np.int64)
    spent = np.zeros(len(owner))
    paths = np.empty((len(owner), 0), dtype=np.int64)
    for i, level in enumerate(tree.levels):
        edge, entry = level.edges_of(node)
        whose = owner[entry]
        total = spent[entry] + costs[i][whose, edge]
        # Costs of legal rows are multiples of 0.5; the tolerance keeps the minimum of other rows despite rounding.
        kept = total + best[i + 1][whose, level.child[edge]] <= bound[whose] * (1 + 1e-12)
        edge, entry = edge[kept], entry[kept]
        owner, spent, node = whose[kept], total[kept], level.child[edge].astype(np.int64)
        paths = np.concatenate([paths[entry], level.value[edge][:, None]], axis=1)
    positive = spent > 0
    return paths[positive], owner[positive]
