"""Feasible rows of a tree that differ in one value, found in a single walk from the root to the leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Ints, Mask, Rng
from baco_like.spaces.feasible.ragged import concatenate_ranges, thin
from baco_like.spaces.feasible.tree import Level, Tree

_SURPLUS = 16
"""Values of one level that are followed for each requested one: many lead to no feasible row."""

Allowed = Callable[[int, Ints, Ints], Mask | None]
"""Returns, for a level and pairs of value and row, ``(m,)``, whether the value may replace the row's; None: all may."""


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes of one value each, sorted by level and then by owner.

    Attributes:
        owner: The row that is changed.
        level: The level of the changed value.
        value: The new value.
        feasible: Whether each unchanged row is in the tree, ``(n,)``.
    """

    owner: Ints
    level: Ints
    value: Ints
    feasible: Mask


def one_changes(
    tree: Tree, positions: Ints, allowed: Allowed, rng: Rng, limit: int | None
) -> Changes:
    """Return every change of one value of a row that leads to a row of the tree.

    All levels are changed in the same walk: a row's prefix offers only values with a path below, and rows that were
    changed above follow their own values.

    Args:
        tree: The feasible rows.
        positions: Rows, feasible or not, ``(n, d)``; -1 for values without a position.
        allowed: Which changes are allowed; a row's own value is always excluded.
        rng: Random numbers.
        limit: Most random values of one level for a row; None means all.
    """
    n = len(positions)
    # Unchanged rows come first, then the rows that were changed above.
    unchanged, owner = n, np.arange(n)
    depth, value, node = (np.zeros(n, dtype=np.int64) for _ in range(3))
    for i, level in enumerate(tree.levels):
        own = positions[owner, i]
        who, taken = _others(level, node[:unchanged], own[:unchanged])
        fine = allowed(i, level.value[taken], owner[who])
        if fine is not None:
            who, taken = who[fine], taken[fine]
        if limit is not None and len(who) > _SURPLUS * limit:
            few = thin(who, rng, _SURPLUS * limit)
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
    kept = thin(depth * n + owner, rng, limit)
    return Changes(owner[kept], depth[kept], value[kept], feasible)


def _others(level: Level, node: Ints, own: Ints) -> tuple[Ints, Ints]:
    """Return the edges of some nodes except their own values: the index of the node, increasing, and the edge."""
    start = level.start[node]
    length = level.start[node + 1] - start
    edges = concatenate_ranges(start, length)
    who = np.repeat(np.arange(len(node)), length)
    other = level.value[edges] != own[who]
    return who[other], edges[other]
