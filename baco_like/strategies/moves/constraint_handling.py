"""What the population algorithms do about known constraints (Willemsen et al., section IV).

*Aware*: the first population is feasible, and infeasible candidates are repaired. *Penalty*: the first population is
drawn without regard of the constraints, and infeasible candidates stay what they are, so that they get the penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.spaces import design
from baco_like.spaces.repair import cascade, nearest
from baco_like.spaces.space import Space
from baco_like.strategies.geometry.continuous import UnitBox
from baco_like.strategies.moves.mutation import one_of_each
from baco_like.strategies.settings import named

Founders = Callable[[Space, int, Rng], Codes]
"""Draws the configurations of a first population, at most so many; fewer only where there are no more."""

Repair = Callable[[Space, Codes, Rng], Codes]
"""Replaces infeasible rows of legal codes, ``(n, w)`` -> ``(n, w)``."""

_NEIGHBOURS = 16
"""Neighbours of a row of which one is drawn where they are not walked through one row at a time."""


def aware(constraints: str) -> bool:
    """Return whether the setting says aware.

    Raises:
        ValueError: It says neither.
    """
    return named("constraints", constraints, {"aware": True, "penalty": False})


def uniform_founders(space: Space, n: int, rng: Rng) -> Codes:
    """Return distinct feasible rows, uniformly drawn."""
    return design.uniform(space, n, rng, _nothing_taken)


def latin_founders(space: Space, n: int, rng: Rng) -> Codes:
    """Return distinct feasible rows of a Latin hypercube."""
    return design.latin_hypercube(space, n, rng, _nothing_taken)


def any_founders(space: Space, n: int, rng: Rng) -> Codes:
    """Return legal rows at uniform points of the unit box, perhaps infeasible, perhaps the same."""
    box = UnitBox.of(space)
    return box.from_unit(rng.random((n, box.axes)))


def _nothing_taken(codes: Codes) -> Mask:
    return np.zeros(len(codes), dtype=np.bool_)


def unrepaired(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Return the rows as they are."""
    return codes


def nearest_row(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Return each infeasible row's nearest feasible one by index-distance (section IV-B)."""
    bad = np.flatnonzero(~space.feasible.contains_few(codes))
    repaired = codes.copy()
    if len(bad):
        repaired[bad] = nearest(space, codes[bad], rng)
    return repaired


def cascade_neighbour(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Return a random feasible neighbour of each infeasible row, by the first definition that has any (Algorithm 3).

    The definitions are strictly adjacent, adjacent and Hamming; the nearest row by index-distance is the last resort.
    With permutations, reals or parameters of many values (see `SingleRows`) it is one of at most 16 random neighbours.
    """
    bad = np.flatnonzero(~space.feasible.contains_few(codes))
    repaired = codes.copy()
    if not len(bad):
        return repaired
    single_rows = space.feasible.single_rows
    if single_rows is None:
        near, owner = cascade(space, codes[bad], rng, _NEIGHBOURS)
        repaired[bad] = one_of_each(near, owner, codes[bad], rng)
        return repaired
    for place, row in zip(bad, codes[bad].tolist(), strict=True):
        repaired[place] = single_rows.repair(row, partial(single_rows.random_neighbour, row, rng))
    return repaired
