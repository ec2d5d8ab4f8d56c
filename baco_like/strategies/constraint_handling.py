"""What the population algorithms do about known constraints (Willemsen et al., section IV).

*Aware*: the first population is feasible, and infeasible candidates are repaired. *Penalty*: the first population is
drawn without regard of the constraints, and infeasible candidates stay what they are, so that they get the penalty.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.spaces import design
from baco_like.spaces.repair import cascade, nearest
from baco_like.spaces.space import Space
from baco_like.strategies.continuous import UnitBox
from baco_like.strategies.mutation import one_of_each
from baco_like.strategies.settings import named

Founders = Callable[[Space, int, Rng], Codes]
"""Draws the configurations of a first population, at most so many; fewer only where there are no more."""

Repair = Callable[[Space, Codes, Rng], Codes]
"""Replaces infeasible rows of legal codes, ``(n, w)`` -> ``(n, w)``."""

Snap = Callable[[Space, UnitBox, Array, Rng], Codes]
"""Returns the configurations at points of the scaled box (`UnitBox.extents`), ``(n, k)`` -> ``(n, w)``."""

Scatter = Callable[[Space, UnitBox, int, Rng], Array]
"""Draws the points of a first swarm in the scaled box, at most so many, ``(<= n, k)``."""

_NEIGHBOURS = 256


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
    bad = ~space.feasible.contains(codes)
    repaired = codes.copy()
    repaired[bad] = nearest(space, codes[bad], rng)
    return repaired


def cascade_neighbour(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Return a random feasible neighbour of each infeasible row, by the first definition that has any (Algorithm 3)."""
    bad = ~space.feasible.contains(codes)
    repaired = codes.copy()
    repaired[bad] = one_of_each(*cascade(space, codes[bad], rng, _NEIGHBOURS), codes[bad], rng)
    return repaired


def feasible_points(space: Space, box: UnitBox, n: int, rng: Rng) -> Array:
    """Return the points of the scaled box that stand for distinct uniform feasible rows, ``(<= n, k)``."""
    return box.to_unit(uniform_founders(space, n, rng)) * box.extents


def any_points(space: Space, box: UnitBox, n: int, rng: Rng) -> Array:
    """Return uniform points of the scaled box, ``(n, k)``."""
    return rng.random((n, box.axes)) * box.extents


def snap_any(space: Space, box: UnitBox, points: Array, rng: Rng) -> Codes:
    """Return the nearest configurations, feasible or not."""
    return box.from_unit(points / box.extents)


def snap_feasible(space: Space, box: UnitBox, points: Array, rng: Rng) -> Codes:
    """Return the nearest configuration of each point, or, if that is infeasible, its neighbour nearest to the point.

    The neighbours are those of `cascade_neighbour`, their distance to the point is the Euclidean one in the scaled
    box (Algorithm 2). Where there are more than 256, it is the nearest among so many random ones and the nearest row
    by index-distance.
    """
    codes = box.from_unit(points / box.extents)
    bad = np.flatnonzero(~space.feasible.contains(codes))
    if not len(bad):
        return codes
    near, owner = cascade(space, codes[bad], rng, _NEIGHBOURS)
    cut = np.flatnonzero(np.bincount(owner, minlength=len(bad)) == _NEIGHBOURS)
    near = np.concatenate([near, nearest(space, codes[bad[cut]], rng)])
    owner = np.concatenate([owner, cut])
    distances = ((box.to_unit(near) * box.extents - points[bad[owner]]) ** 2).sum(axis=1)
    order = np.lexsort([distances, owner])
    _, first = np.unique(owner[order], return_index=True)
    codes[bad] = near[order[first]]
    return codes
