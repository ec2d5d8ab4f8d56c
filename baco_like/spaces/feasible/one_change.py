"""Feasible rows of a tree that differ in one value, found in a single walk from the root to the leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Ints, Mask, Rng
from baco_like.spaces.feasible.ragged import ragged, thinned
from baco_like.spaces.feasible.tree import Level, Tree

_SURPLUS = 16
"""Values of one level that are walked on with for each one wanted: many have no feasible end."""

Allowed = Callable[[int, Ints, Ints], Mask | None]
"""Whether a level's value, the second argument, may replace that of a row, the third, each ``(m,)``; None if
any may."""


@dataclass(frozen=True, eq=False)
class Changes:
    """One changed value an entry, sorted by level and then by owner.

    Attributes:
        owner: The row that is changed.
        level: Where.
        value: What it becomes.
        feasible: Which of the rows are in the tree as they are, ``(n,)``.
    """

    owner: Ints
    level: Ints
    value: Ints
    feasible: Mask


def one_changes(
    tree: Tree, positions: Ints, allowed: Allowed, rng: Rng, limit: int | None
) -> Changes:
    """Return every change of one value of a row that leads to a row of the tree.

    All levels are changed in the same walk: a row's prefix offers only the values that have a path on, and what has
    been changed above follows the row's own values.

    Args:
        tree: The feasible rows.
        positions: Rows, feasible or not, ``(n, d)``; -1 stands for a value that has no position.
        allowed: Which changes count; a row's own value never does.
        rng: Chance.
        limit: At most so many random values of one level for a row; None means all.
    """
    prefix = np.arange(
        len(positions)
    )  # the rows that have followed the tree so far, and where they are
    node = np.zeros(len(positions), dtype=np.int64)
    owner, depth, value, below = (np.empty(0, dtype=np.int64) for _ in range(4))
    for i, level in enumerate(tree.levels):
        edge = level.edge(below, positions[owner, i])
        on = edge >= 0
        owner, depth, value = owner[on], depth[on], value[on]
        who, taken = _others(level, node, positions[prefix, i])
        fine = allowed(i, level.value[taken], prefix[who])
        if fine is not None:
            who, taken = who[fine], taken[fine]
        if limit is not None and len(who) > _SURPLUS * limit:
            few = thinned(who, rng, _SURPLUS * limit)
            who, taken = who[few], taken[few]
        below = level.child[np.concatenate([edge[on], taken])].astype(np.int64)
        owner = np.concatenate([owner, prefix[who]])
        depth = np.concatenate([depth, np.full(len(who), i)])
        value = np.concatenate([value, level.value[taken]])
        edge = level.edge(node, positions[prefix, i])
        on = edge >= 0
        prefix, node = prefix[on], level.child[edge[on]].astype(np.int64)
    feasible = np.zeros(len(positions), dtype=np.bool_)
    feasible[prefix] = True
    kept = thinned(depth * len(positions) + owner, rng, limit)
    return Changes(owner[kept], depth[kept], value[kept], feasible)


def _others(level: Level, node: Ints, own: Ints) -> tuple[Ints, Ints]:
    """Return all edges of some nodes but those of their own values: whose each is, increasing, and the edge."""
    start = level.start[node]
    length = level.start[node + 1] - start
    edges = ragged(start, length)
    who = np.repeat(np.arange(len(node)), length)
    other = level.value[edges] != own[who]
    return who[other], edges[other]
