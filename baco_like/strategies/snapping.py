"""Points of the scaled box and the configurations that stand for them (Willemsen et al., section IV-C)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.spaces.categorical import Categorical
from baco_like.spaces.repair import cascade, nearest
from baco_like.spaces.space import Space
from baco_like.strategies.constraint_handling import uniform_founders
from baco_like.strategies.continuous import UnitBox

Snap = Callable[[Space, UnitBox, Array, Rng], Codes]
"""Returns the configurations at points of the scaled box (`UnitBox.extents`), ``(n, k)`` -> ``(n, w)``."""

Scatter = Callable[[Space, UnitBox, int, Rng], Array]
"""Draws the points of a first swarm in the scaled box, at most so many, ``(<= n, k)``."""

_NEIGHBOURS = 256
"""Neighbours of a row that are compared where there may be more."""

_NEAREST = 128
"""Strictly adjacent configurations of a row that are looked through before all of its neighbours are listed."""

_OPTIONS = 16
"""Categorical parameters of more values make that too slow."""


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

    The neighbours are those of `constraint_handling.cascade_neighbour`, their distance to the point is the Euclidean
    one in the scaled box (Algorithm 2). Where no feasible one is among the 128 nearest of all strictly adjacent
    configurations, or there are permutations, reals or integers with ``log``, it is the nearest of at most 256 random
    neighbours and, if there are more, the nearest row by index-distance.
    """
    codes = box.from_unit(points / box.extents)
    bad = np.flatnonzero(~space.feasible.contains(codes))
    if len(bad) and _steppable(space, box):
        codes[bad], found = _nearest_adjacent(space, box, points[bad], codes[bad])
        bad = bad[~found]
    if len(bad):
        codes[bad] = _nearest_neighbour(space, box, points[bad], codes[bad], rng)
    return codes


def _nearest_neighbour(space: Space, box: UnitBox, points: Array, codes: Codes, rng: Rng) -> Codes:
    """Return the neighbour of each infeasible row that is nearest to its point."""
    near, owner = cascade(space, codes, rng, _NEIGHBOURS)
    cut = np.flatnonzero(np.bincount(owner, minlength=len(codes)) == _NEIGHBOURS)
    near = np.concatenate([near, nearest(space, codes[cut], rng)])
    owner = np.concatenate([owner, cut])
    distances = ((box.to_unit(near) * box.extents - points[owner]) ** 2).sum(axis=1)
    order = np.lexsort([distances, owner])
    _, first = np.unique(owner[order], return_index=True)
    return near[order[first]]


def _steppable(space: Space, box: UnitBox) -> bool:
    """Whether every axis has values next to each other, or a few without an order."""
    return not box.rest and all(
        not isinstance(p, Categorical) or p.cardinality <= _OPTIONS
        for p in space.parameters.values()
    )


def _nearest_adjacent(
    space: Space, box: UnitBox, points: Array, codes: Codes
) -> tuple[Codes, Mask]:
    """Return each row's strictly adjacent feasible one that is nearest to its point, and whether it was found.

    The squared distance is a sum over the axes, so that the nearest configurations of all, in order, are found axis
    by axis, and the first feasible one is exactly what Algorithm 2 sorts out of the whole list.

    Args:
        space: Where.
        box: Its box.
        points: In the scaled box, ``(n, k)``.
        codes: The row nearest to each point, ``(n, w)``; infeasible.
    """
    values, distances = _options(space, box, points, codes)
    chosen = least_sums(distances, _NEAREST)
    n, count, k = chosen.shape
    rows = np.repeat(codes, count, axis=0)
    places = np.arange(n)
    rows[:, box.binned] = values[places[:, None, None], np.arange(k), chosen].reshape(-1, k)
    good = space.feasible.contains(rows).reshape(n, count)
    first = good.argmax(axis=1)
    found = good[places, first]
    return np.where(found[:, None], rows[places * count + first], codes), found


def _options(space: Space, box: UnitBox, points: Array, codes: Codes) -> tuple[Array, Array]:
    """Return the codes that each axis may take, ``(n, k, m)``, and the squares of their distances to the point.

    They are the value before, the own and the one after, or all of a categorical parameter; at an infinite distance
    where there is none.
    """
    parameters = [space.parameters[name] for name in space.active]
    listed = [len(p.values) if isinstance(p, Categorical) else 0 for p in parameters]
    many = np.array(listed, dtype=np.int64)[:, None]
    options = np.arange(max(3, *listed, 0))
    counts = box.counts[:, None]
    values = np.where(many > 0, options, codes[:, box.binned, None] + options - 1)
    legal = (options < np.where(many > 0, many, 3)) & (values >= 0) & (values < counts)
    centres = (values + 0.5) / counts * box.extents[:, None]
    distances = (centres - points[:, :, None]) ** 2
    return values, np.where(legal, distances, np.inf)


def least_sums(terms: Array, most: int) -> Ints:
    """Return the choices of one term per axis with the least sums, in order.

    A part of a choice that is among the best is itself among the best, so no more than ``most`` are carried along.

    Args:
        terms: The terms of each axis, ``(n, k, m)``; infinite where there is none.
        most: How many choices for each row, if there are so many.

    Returns:
        Which term is chosen on each axis, ``(n, choices, k)``.
    """
    n, k, m = terms.shape
    sums = np.zeros((n, 1))
    trail: list[Ints] = []
    for axis in range(k):
        grown = (sums[:, :, None] + terms[:, axis, None, :]).reshape(n, -1)
        keep = min(most, grown.shape[1])
        trail.append(np.argpartition(grown, keep - 1, axis=1)[:, :keep])
        sums = np.take_along_axis(grown, trail[-1], axis=1)
    at = np.argsort(sums, axis=1)
    chosen = np.empty((n, at.shape[1], k), dtype=np.int64)
    for axis in reversed(range(k)):
        entry = np.take_along_axis(trail[axis], at, axis=1)
        chosen[:, :, axis] = entry % m
        at = entry // m
    return chosen
