"""Known constraints in population algorithms (Willemsen et al., section IV).

*Aware*: the first population is feasible, and infeasible candidates are repaired. *Penalty*: the first population is
drawn without the constraints, and infeasible candidates are not changed, so that they get the penalty.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.spaces import design
from baco_like.spaces.repair import cascade, nearest
from baco_like.spaces.space import Space
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves.mutation import draw_one_per_owner

_NEIGHBOURS = 16
"""Number of neighbours from which one is drawn where single rows cannot be walked."""


def draw_uniform(space: Space, n: int, rng: Rng) -> Codes:
    """Return at most n distinct feasible rows, uniformly drawn; fewer only if there are no more."""
    return design.uniform(space, n, rng, _exclude_nothing)


def draw_latin_hypercube(space: Space, n: int, rng: Rng) -> Codes:
    """Return at most n distinct feasible rows of a Latin hypercube; fewer only if there are no more."""
    return design.latin_hypercube(space, n, rng, _exclude_nothing)


def draw_anywhere(space: Space, n: int, rng: Rng) -> Codes:
    """Return n legal rows at uniform points of the unit box; they may be infeasible or equal."""
    box = UnitBox.of(space)
    return box.from_unit(rng.random((n, box.axes)))


def _exclude_nothing(codes: Codes) -> Mask:
    return np.zeros(len(codes), dtype=np.bool_)


def repair_by_nearest(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Replace each infeasible row by the nearest feasible one by index-distance (section IV-B)."""
    infeasible = np.flatnonzero(~space.feasible.contains_few(codes))
    repaired = codes.copy()
    if len(infeasible):
        repaired[infeasible] = nearest(space, codes[infeasible], rng)
    return repaired


def repair_by_neighbour(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Replace each infeasible row by a random feasible neighbour (Algorithm 3).

    Neighbours are strictly adjacent, adjacent or Hamming neighbours, by the first definition that has any; otherwise
    the nearest row by index-distance is taken. With permutations, reals or parameters of many values (see `SingleRows`)
    it is one of at most 16 random neighbours.
    """
    infeasible = np.flatnonzero(~space.feasible.contains_few(codes))
    repaired = codes.copy()
    if not len(infeasible):
        return repaired
    single_rows = space.feasible.single_rows
    if single_rows is None:
        near, owner = cascade(space, codes[infeasible], rng, _NEIGHBOURS)
        repaired[infeasible] = draw_one_per_owner(near, owner, codes[infeasible], rng)
        return repaired
    for i, row in zip(infeasible, codes[infeasible].tolist(), strict=True):
        repaired[i] = single_rows.repair(row, partial(single_rows.random_neighbour, row, rng))
    return repaired
