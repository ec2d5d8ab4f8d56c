"""Definitions of neighbours, for many rows at once.

Every function returns feasible rows and, for each, the index of the row that it is a neighbour of (its owner),
increasing. A row is never its own neighbour. The given rows may violate constraints; their neighbours are feasible,
so the same functions repair rows.

The definitions are those of Schoonhoven et al. 2022 (section III-B: one parameter changes) and Willemsen et al.
(section IV-A: strictly adjacent, adjacent, Hamming, index-distance).
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.spaces.feasible.ragged import sort_by_owner
from baco_like.spaces.neighbourhoods.all_parameters import change_all_parameters
from baco_like.spaces.neighbourhoods.one_parameter import (
    change_by_proposals,
    change_to_any_value,
    change_to_next_values,
    has_few_values,
    keep_nearest_values,
)
from baco_like.spaces.neighbourhoods.proposals import (
    Neighbours,
    propose_steps,
    propose_unordered_steps,
    propose_used_steps,
)
from baco_like.spaces.space import Space

JOINT_LIMIT = 256
"""Most neighbours of a row by the definitions in which all parameters may change at once: there can be 3^d."""


def hamming(space: Space, codes: Codes, rng: Rng, limit: int | None = None) -> Neighbours:
    """Return the neighbours that differ in one parameter, by any value.

    Permutations differ by one swap of two elements. Reals, and integers too wide to list, are tried at eight random
    values, half of them near the row's own.

    Args:
        space: The space.
        codes: Rows of codes, ``(n, w)``.
        rng: Random numbers.
        limit: Most random values (or swaps) of one parameter that are tried for a row; None means all.
    """
    return change_to_any_value(space, codes, rng, limit)


def adjacent(space: Space, codes: Codes, rng: Rng) -> Neighbours:
    """Return the neighbours in which one parameter has the nearest value before or after its own that is feasible.

    Without constraints these are the adjacent neighbours of Schoonhoven et al.; values that would violate a
    constraint are skipped. An unordered parameter may take any other value; permutations change by one swap of
    elements at consecutive positions; reals as in `hamming`.
    """
    if has_few_values(space):
        return keep_nearest_values(space, codes, *change_to_any_value(space, codes, rng, None))
    free, owner = change_by_proposals(
        space, codes, lambda location, rows: propose_unordered_steps(space, location, rows, rng)
    )
    ordered, ordered_owner = change_to_next_values(space, codes)
    return sort_by_owner(np.concatenate([free, ordered]), np.concatenate([owner, ordered_owner]))


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
    return change_all_parameters(
        space, codes, lambda location, rows: propose_steps(space, location, rows, rng), rng, limit
    )


def jointly_adjacent(space: Space, codes: Codes, rng: Rng, limit: int = JOINT_LIMIT) -> Neighbours:
    """Return neighbours in which every parameter has its own or the nearest value that occurs in feasible rows.

    This is the "adjacent" of Willemsen et al.: `strictly_adjacent`, but values that occur in no feasible
    configuration are skipped.
    """
    return change_all_parameters(
        space,
        codes,
        lambda location, rows: propose_used_steps(space, location, rows, rng),
        rng,
        limit,
    )


def index_distance(space: Space, codes: Codes) -> Neighbours:
    """Return the feasible rows with the least positive sum of index differences to each row (Willemsen et al.).

    Unordered values differ by 1, permutations by adjacent swaps. Reals never change.
    """
    return space.feasible.closest_others(codes)
