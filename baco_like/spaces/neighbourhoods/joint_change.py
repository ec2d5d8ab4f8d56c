"""Neighbours in which several parameters may differ (Willemsen et al., section IV-A), for many rows at once.

As in `baco_like.spaces.neighbourhoods.single_change`, every function returns feasible rows and their owners.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco_like._typing import Codes, Ints, Rng
from baco_like.spaces.feasible.feasible_set import Factor
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.neighbourhoods.single_change import (
    Neighbours,
    ParameterLocation,
    Propose,
    group_by_factor,
    hamming,
    propose_steps,
    propose_used_steps,
)
from baco_like.spaces.rows import (
    find_first_rows,
    pair_by_owner,
    replace_columns,
    sort_by_owner,
    thin,
)
from baco_like.spaces.space import Space

JOINT_LIMIT = 256
"""Most neighbours of a row by the definitions in which all parameters may change at once: there can be 3^d."""

_SURPLUS = 2
"""Partial rows kept for each requested neighbour while neighbours are built."""


def strictly_adjacent(space: Space, codes: Codes, rng: Rng, limit: int = JOINT_LIMIT) -> Neighbours:
    """Return neighbours in which every parameter has its own, the previous or the next value (Willemsen et al.).

    Unordered parameters change as in `adjacent`. The neighbours are found by walking the trees, so only feasible
    ones cost time; the product over factors is not listed beyond the limit.

    Args:
        space: The space.
        codes: Rows of codes, ``(n, w)``.
        rng: Random numbers.
        limit: Most neighbours of a row; if there are more, random ones are returned.
    """
    return _change_all_parameters(space, codes, propose_steps, rng, limit)


def jointly_adjacent(space: Space, codes: Codes, rng: Rng, limit: int = JOINT_LIMIT) -> Neighbours:
    """Return neighbours in which every parameter has its own or the nearest value that occurs in feasible rows.

    This is the "adjacent" of Willemsen et al.: `strictly_adjacent`, but values that occur in no feasible
    configuration are skipped.
    """
    return _change_all_parameters(space, codes, propose_used_steps, rng, limit)


def _change_all_parameters(
    space: Space, codes: Codes, propose: Propose, rng: Rng, limit: int
) -> Neighbours:
    """Return feasible rows made of proposed values of all parameters, without the row itself.

    Args:
        space: The space.
        codes: Rows of codes, ``(n, w)``.
        propose: Returns the values of one parameter to choose from, the row's own included.
        rng: Random numbers.
        limit: Most rows for each row; if there are more, random ones are returned.
    """
    factors = space.feasible.factors
    if space.conditions:
        codes, propose = space.activity.at_rest(codes), _with_resting_values(space, propose)
    parts = [
        _change_factor(factor, members, codes, propose, rng, _SURPLUS * limit)
        for factor, members in group_by_factor(space)
    ]
    chosen, owner = _combine([part[1] for part in parts], len(codes), rng, limit + 1)
    rows = np.empty((len(owner), space.width))
    for factor, (values, _), which in zip(factors, parts, chosen, strict=True):
        rows[:, factor.columns] = values[which]
    new = (rows != codes[owner]).any(axis=1)
    rows, owner = rows[new], owner[new]
    kept = thin(owner, rng, limit)
    return rows[kept], owner[kept]


def _with_resting_values(space: Space, propose: Propose) -> Propose:
    """Return proposals that also contain the resting value of each conditional parameter: others may switch it off."""
    resting = space.conditions.resting

    def propose_both(location: ParameterLocation, codes: Codes, rng: Rng) -> Neighbours:
        rows, owner = propose(location, codes, rng)
        if location.name not in resting:
            return rows, owner
        rows = np.concatenate([rows, np.tile(resting[location.name], (len(codes), 1))])
        owner = np.concatenate([owner, np.arange(len(codes))])
        first = find_first_rows(np.column_stack([owner, rows]))
        return sort_by_owner(rows[first], owner[first])

    return propose_both


def _change_factor(
    factor: Factor,
    members: list[ParameterLocation],
    codes: Codes,
    propose: Propose,
    rng: Rng,
    cap: int,
) -> Neighbours:
    """Return the feasible combinations within one factor, at most ``cap`` random ones for each row."""
    if isinstance(factor, TreeGroup) and factor.chooses_values and len(factor.domains) > 1:
        return _change_tree(factor, members, codes, propose, rng, cap)
    rows, owner = codes[:, factor.columns], np.arange(len(codes))
    for location in sorted(members, key=lambda location: int(location.inside[0])):
        proposed, proposed_owner = propose(location, codes, rng)
        left, right = pair_by_owner(owner, proposed_owner, len(codes))
        rows, owner = replace_columns(rows, left, location.inside, proposed[right]), owner[left]
        kept = thin(owner, rng, cap)
        rows, owner = rows[kept], owner[kept]
    good = factor.contains(rows)
    return rows[good], owner[good]


def _change_tree(
    factor: TreeGroup,
    members: list[ParameterLocation],
    codes: Codes,
    propose: Propose,
    rng: Rng,
    cap: int,
) -> Neighbours:
    """Return the combinations within a tree, level by level; partial ones without a leaf are dropped at every level.

    Only nodes are carried along; the codes are collected at the end.
    """
    locations = {int(location.inside[0]): location for location in members}
    n = len(codes)
    owner, node = np.arange(n), np.zeros(n, dtype=np.int64)
    chosen_at: list[tuple[slice, Codes, Ints, Ints]] = []
    for level, domain, at in zip(factor.tree.levels, factor.domains, factor.slices, strict=True):
        proposed, whose = codes[:, factor.columns[at]], np.arange(n)
        if at.start in locations:  # constants have none and keep their value
            proposed, whose = propose(locations[at.start], codes, rng)
        left, right = pair_by_owner(owner, whose, n)
        edge = level.edge(node[left], domain.positions(proposed)[right])
        alive = np.flatnonzero(edge >= 0)
        kept = alive[thin(owner[left[alive]], rng, cap)]
        chosen_at.append((at, proposed, left[kept], right[kept]))
        owner, node = owner[left[kept]], level.child[edge[kept]].astype(np.int64)
    rows = np.empty((len(owner), len(factor.columns)))
    leaf = np.arange(len(owner))
    for at, proposed, parent, choice in reversed(chosen_at):
        rows[:, at] = proposed[choice[leaf]]
        leaf = parent[leaf]
    return rows, owner


def _combine(owners: Sequence[Ints], n: int, rng: Rng, cap: int) -> tuple[list[Ints], Ints]:
    """Return combinations of one entry from every list, at most ``cap`` for each owner.

    Args:
        owners: The owners of the entries of each list, increasing.
        n: Number of owners.
        rng: Random numbers.
        cap: Owners with at most ``cap`` combinations get all of them, other owners get random ones.

    Returns:
        For every list the chosen entries ``(m,)``, and their owners ``(m,)``, increasing.
    """
    lengths = [np.bincount(owner, minlength=n) for owner in owners]
    starts = [np.cumsum(length) - length for length in lengths]
    total = np.prod([length.astype(np.float64) for length in lengths], axis=0)
    count = np.minimum(total, cap).astype(np.int64)
    owner = np.repeat(np.arange(n), count)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    too_many = (total > cap)[owner]
    chosen: list[Ints] = []
    for length, start in zip(lengths, starts, strict=True):
        size = length[owner]
        digit = np.where(
            too_many, rng.integers(0, np.maximum(size, 1)), number % np.maximum(size, 1)
        )
        number = number // np.maximum(size, 1)
        chosen.append(start[owner] + digit)
    if not too_many.any():
        return chosen, owner
    fresh = ~too_many  # random combinations may repeat
    fresh[find_first_rows(np.stack([owner, *chosen], axis=1))] = True
    return [entries[fresh] for entries in chosen], owner[fresh]


# Repair -------------------------------------------------------------------------------------------------------------
#
# Repairs of infeasible configurations (Willemsen et al., sections IV-B to IV-D).


def nearest(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Return for each row a feasible row at the least distance, ``(n, w)`` -> ``(n, w)``; a feasible row stays.

    The distance is the sum of index differences (index-distance; categorical values differ by 1, a permutation by
    half the sum of its elements' moves), found exactly by dynamic programming over the trees; ties are broken at
    random. With reals or rejection the row is close, but not always the closest.

    Args:
        space: The space.
        codes: Any finite numbers, also fractions.
        rng: Random numbers.
    """
    return space.feasible.nearest(codes, rng) if len(codes) else codes.copy()


def cascade(space: Space, codes: Codes, rng: Rng, limit: int = 256) -> Neighbours:
    """Return the feasible neighbours of each row by the first definition that has any (their Algorithm 2).

    The definitions are strictly adjacent, adjacent, and Hamming, in this order; a row that has no neighbours by any
    of them has `nearest` as its only one.

    Args:
        space: The space.
        codes: Rows of legal codes, ``(n, w)``.
        rng: Random numbers.
        limit: Most neighbours of a row.
    """
    rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
    left = np.arange(len(codes))
    definitions = [strictly_adjacent, jointly_adjacent, hamming]
    if space.feasible.uses_every_value:  # then the first two are the same
        definitions.remove(jointly_adjacent)
    for definition in definitions:
        neighbours, owner = definition(space, codes[left], rng, limit)
        rows.append(neighbours)
        owners.append(left[owner])
        left = np.delete(left, np.unique(owner))
        if not len(left):
            break
    rows.append(nearest(space, codes[left], rng))
    return sort_by_owner(np.concatenate(rows), np.concatenate([*owners, left]))
