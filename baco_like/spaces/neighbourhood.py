"""Which configurations count as neighbours, for many rows at once.

Every function returns feasible rows and, for each, the index of the row that it is a neighbour of (its owner),
increasing. A row is never its own neighbour. The rows given need be legal codes only as far as the function says; a
row that violates constraints has those neighbours that do not, so that the same functions serve to repair it.

The definitions are those of Schoonhoven et al. 2022 (section III-B: one parameter changes) and Willemsen et al.
(section IV-A: strictly adjacent, adjacent, Hamming, index-distance).
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.spaces.feasible.ragged import by_owner
from baco_like.spaces.joint_moves import joint_changes
from baco_like.spaces.moves import (
    Neighbours,
    few_values,
    nearest_values,
    next_values,
    one_changes,
    single_changes,
    steps,
    supported_steps,
    unordered_steps,
)
from baco_like.spaces.space import Space

JOINT_LIMIT = 256
"""Neighbours a row of the definitions in which all parameters may change at once: there can be 3^d."""


def hamming(space: Space, codes: Codes, rng: Rng, limit: int | None = None) -> Neighbours:
    """Return the neighbours that differ in one parameter, in whatever way.

    Permutations differ by one swap of two elements. Reals, and integers too wide to list, are tried at a handful of
    random values, half of them near the row's own.

    Args:
        space: Where.
        codes: Rows of codes, ``(n, w)``.
        rng: Chance.
        limit: At most so many random values (or swaps) of one parameter are tried for a row; None means all.
    """
    return single_changes(space, codes, rng, limit)


def adjacent(space: Space, codes: Codes, rng: Rng) -> Neighbours:
    """Return the neighbours in which one parameter has the nearest value before or after its own that is feasible.

    Without constraints these are the adjacent neighbours of Schoonhoven et al.; values that would violate a
    constraint are passed over. A categorical parameter, having no order, may take any other value; permutations
    change by one swap of elements that are next to each other in the order; reals as in `hamming`.
    """
    if few_values(space):
        return nearest_values(space, codes, *single_changes(space, codes, rng, None))
    free, owner = one_changes(
        space, codes, lambda place, rows: unordered_steps(space, place, rows, rng)
    )
    ordered, ordered_owner = next_values(space, codes)
    return by_owner(np.concatenate([free, ordered]), np.concatenate([owner, ordered_owner]))


def strictly_adjacent(space: Space, codes: Codes, rng: Rng, limit: int = JOINT_LIMIT) -> Neighbours:
    """Return neighbours in which every parameter has its own, the previous or the next value (Willemsen et al.).

    Unordered parameters as in `adjacent`. The neighbours are found by walking the trees, so only feasible ones cost
    anything; the product over groups is not listed beyond the limit.

    Args:
        space: Where.
        codes: Rows of codes, ``(n, w)``.
        rng: Chance.
        limit: At most so many neighbours of a row; where there are more, random ones.
    """
    return joint_changes(
        space, codes, lambda place, rows: steps(space, place, rows, rng), rng, limit
    )


def jointly_adjacent(space: Space, codes: Codes, rng: Rng, limit: int = JOINT_LIMIT) -> Neighbours:
    """Return neighbours in which every parameter has its own or the nearest other value that is ever feasible.

    The "adjacent" of Willemsen et al.: as `strictly_adjacent`, but values that occur in no feasible configuration
    do not count.
    """
    return joint_changes(
        space, codes, lambda place, rows: supported_steps(space, place, rows, rng), rng, limit
    )


def index_distance(space: Space, codes: Codes) -> Neighbours:
    """Return the feasible rows with the least positive sum of index differences to each row (Willemsen et al.).

    Categorical values differ by 1, permutations by adjacent swaps. Reals never change.
    """
    return space.feasible.closest_others(codes)
