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
    n = len(positions)
    # The rows that have followed the tree unchanged come first, then what has been changed above.
    unchanged, owner = n, np.arange(n)
    depth, value, node = (np.zeros(n, dtype=np.int64) for _ in range(3))
    for i, level in enumerate(tree.levels):
        own = positions[owner, i]
        who, taken = _others(level, node[:unchanged], own[:unchanged])
        fine = allowed(i, level.value[taken], owner[who])
        if fine is not None:
            who, taken = who[fine], taken[fine]
        if limit is not None and len(who) > _SURPLUS * limit:
            few = thinned(who, rng, _SURPLUS * limit)
            who, taken = who[few], taken[few]
        edge = level.edge(node, own)
        on = np.flatnonzero(edge >= 0)
        unchanged = int(np.searchsorted(on, unchanged))
        node = level.child[np.concatenate([edge[on], taken])].astype(np.int64)
        depth = np.concatenate([depth[on], np.full(len(who), i)])
        value = np.concatenate([value[on], level.value[taken]])
        owner = np.concatenate([owner[on], owner[who]])
    feasible = np.zeros(n, dtype=np.bool_)
    feasible[owner[:unchanged]] = True
    owner, depth, value = owner[unchanged:], depth[unchanged:], value[unchanged:]
    kept = thinned(depth * n + owner, rng, limit)
    return Changes(owner[kept], depth[kept], value[kept], feasible)


def _others(level: Level, node: Ints, own: Ints) -> tuple[Ints, Ints]:
    """Return all edges of some nodes but those of their own values: whose each is, increasing, and the edge."""
    start = level.start[node]
    length = level.start[node + 1] - start
    edges = ragged(start, length)
    who = np.repeat(np.arange(len(node)), length)
    other = level.value[edges] != own[who]
    return who[other], edges[other]
