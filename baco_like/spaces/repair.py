"""Repairs of infeasible configurations (Willemsen et al., sections IV-B to IV-D)."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.spaces.feasible.ragged import sort_by_owner
from baco_like.spaces.neighbourhoods import Neighbours, hamming, jointly_adjacent, strictly_adjacent
from baco_like.spaces.space import Space


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
