"""Changes of all parameters at once: each takes one of a few values, and the whole must be feasible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.spaces.feasible.factor import Factor
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.feasible.ragged import pairs, replaced, thinned
from baco_like.spaces.moves import Neighbours, Place, Propose, places
from baco_like.spaces.space import Space

_SURPLUS = 2
"""Partial rows kept while a row's neighbours are built, for each one wanted."""


def joint_changes(space: Space, codes: Codes, propose: Propose, rng: Rng, limit: int) -> Neighbours:
    """Return feasible rows made of proposed values of all parameters, without the row itself.

    Args:
        space: Where.
        codes: Rows of codes, ``(n, w)``.
        propose: The values of one parameter to choose from, the row's own included.
        rng: Chance.
        limit: At most so many of each row; where there are more, random ones.
    """
    by_factor: list[list[Place]] = [[] for _ in space.feasible.factors]
    for place in places(space):
        by_factor[place.factor].append(place)
    parts = [
        _partial(
            factor,
            sorted(mine, key=lambda p: int(p.inside[0])),
            codes,
            propose,
            rng,
            _SURPLUS * limit,
        )
        for factor, mine in zip(space.feasible.factors, by_factor, strict=True)
    ]
    chosen, owner = _combined([part[1] for part in parts], len(codes), rng, limit + 1)
    rows = np.empty((len(owner), space.width))
    for factor, (values, _), which in zip(space.feasible.factors, parts, chosen, strict=True):
        rows[:, factor.columns] = values[which]
    new = (rows != codes[owner]).any(axis=1)
    rows, owner = rows[new], owner[new]
    kept = thinned(owner, rng, limit)
    return rows[kept], owner[kept]


def _partial(
    factor: Factor, mine: Sequence[Place], codes: Codes, propose: Propose, rng: Rng, cap: int
) -> Neighbours:
    """Return the feasible combinations within one factor, at most ``cap`` random ones a row.

    In a tree, partial combinations without a leaf are dropped at every level.
    """
    rows, owner = codes[:, factor.columns], np.arange(len(codes))
    if isinstance(factor, TreeGroup):
        return _along_tree(factor, {int(p.inside[0]): p for p in mine}, codes, propose, rng, cap)
    for place in mine:
        rows, owner = _joined(place, rows, owner, propose(place, codes), len(codes))
        kept = thinned(owner, rng, cap)
        rows, owner = rows[kept], owner[kept]
    good = factor.contains(rows)
    return rows[good], owner[good]


def _along_tree(
    factor: TreeGroup,
    places_at: Mapping[int, Place],
    codes: Codes,
    propose: Propose,
    rng: Rng,
    cap: int,
) -> Neighbours:
    """Return the combinations within a tree, level by level; a partial one without a leaf is dropped at once.

    Only places in the tree are carried along; what they stand for is collected at the end.
    """
    n = len(codes)
    owner, node = np.arange(n), np.zeros(n, dtype=np.int64)
    trail: list[tuple[slice, Codes, Ints, Ints]] = []
    for level, domain, at in zip(factor.tree.levels, factor.domains, factor.slices, strict=True):
        place = places_at.get(at.start)  # a constant has none and keeps its value
        if place is None:
            proposed, whose = codes[:, factor.columns[at]], np.arange(n)
        else:
            proposed, whose = propose(place, codes)
        left, right = pairs(owner, whose, n)
        edge = level.edge(node[left], domain.positions(proposed)[right])
        alive = np.flatnonzero(edge >= 0)
        kept = alive[thinned(owner[left[alive]], rng, cap)]
        trail.append((at, proposed, left[kept], right[kept]))
        owner, node = owner[left[kept]], level.child[edge[kept]].astype(np.int64)
    rows = np.empty((len(owner), len(factor.columns)))
    leaf = np.arange(len(owner))
    for at, proposed, parent, choice in reversed(trail):
        rows[:, at] = proposed[choice[leaf]]
        leaf = parent[leaf]
    return rows, owner


def _joined(
    place: Place, rows: Codes, owner: Ints, proposed: Neighbours, n: int
) -> tuple[Codes, Ints]:
    """Return every row with every value proposed for its owner, and the owners."""
    left, right = pairs(owner, proposed[1], n)
    return replaced(rows, left, place.inside, proposed[0][right]), owner[left]


def _combined(owners: Sequence[Ints], n: int, rng: Rng, cap: int) -> tuple[list[Ints], Ints]:
    """Return combinations of one entry from every list, at most ``cap`` an owner.

    Args:
        owners: The owners of the entries of each list, increasing.
        n: How many owners there are.
        rng: Chance.
        cap: An owner with at most so many combinations has all of them, any other random ones.

    Returns:
        For every list the chosen entries ``(m,)``, and their owners ``(m,)``, increasing.
    """
    lengths = [np.bincount(owner, minlength=n) for owner in owners]
    starts = [np.cumsum(length) - length for length in lengths]
    total = np.prod([length.astype(np.float64) for length in lengths], axis=0)
    count = np.minimum(total, cap).astype(np.int64)
    owner = np.repeat(np.arange(n), count)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    many = (total > cap)[owner]
    chosen: list[Ints] = []
    for length, start in zip(lengths, starts, strict=True):
        size = length[owner]
        digit = np.where(many, rng.integers(0, np.maximum(size, 1)), number % np.maximum(size, 1))
        number = number // np.maximum(size, 1)
        chosen.append(start[owner] + digit)
    if not many.any():
        return chosen, owner
    fresh = ~many | _first_of_its_kind(owner, chosen)  # random combinations may repeat
    return [entries[fresh] for entries in chosen], owner[fresh]


def _first_of_its_kind(owner: Ints, chosen: Sequence[Ints]) -> Mask:
    """Whether each combination is the first of its owner that has the same entries."""
    order = np.lexsort([*chosen, owner])
    same = np.ones(len(order), dtype=np.bool_)
    for entries in (owner, *chosen):
        same[1:] &= entries[order][1:] == entries[order][:-1]
    same[:1] = False
    fresh = np.empty(len(order), dtype=np.bool_)
    fresh[order] = ~same
    return fresh
