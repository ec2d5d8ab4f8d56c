"""Configurations at points of the scaled box (Willemsen et al., section IV-C), for particle swarm and fireflies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic
from weakref import WeakKeyDictionary

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.spaces import FeasibleSet, Space
from baco_like.spaces.feasible.single_rows import Row
from baco_like.spaces.repair import cascade, nearest
from baco_like.strategies.evolutionary.base import Candidates, M, PopulationStrategy
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves.constraint_handling import draw_uniform

_NEIGHBOURS = 256
"""Number of neighbours that are compared where single rows cannot be walked."""


@dataclass(frozen=True)
class PositionedStrategy(PopulationStrategy[M], Generic[M]):
    """Base of population algorithms whose members have positions in the scaled box (`UnitBox.extents`)."""

    def draw_positions(self, space: Space, n: int, rng: Rng) -> Array:
        """Return the positions of the first population, at most n, ``(<= n, k)``."""
        box = UnitBox.of(space)
        if self.is_aware:
            return box.scaled(draw_uniform(space, n, rng))
        return rng.random((n, box.axes)) * box.extents

    def candidates_at(
        self, space: Space, positions: Array, other: Array | Ints, rng: Rng
    ) -> Candidates:
        """Return the candidates at positions, ``(n, k)``, with one more array that belongs to them."""
        if not self.is_aware:
            return Candidates(UnitBox.of(space).from_scaled(positions), (positions, other))
        return Candidates(snap_to_feasible(space, positions, rng), (positions, other))

    @override
    def place(self, space: Space, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates with their positions at given configurations, ``(n, w)``."""
        return Candidates(codes, (UnitBox.of(space).scaled(codes), candidates.moves[1]))


def snap_to_feasible(space: Space, points: Array, rng: Rng) -> Codes:
    """Return the nearest configuration of each point of the scaled box, or its feasible neighbour nearest to the point.

    The neighbours are those of `constraint_handling.repair_by_neighbour`; the distance is Euclidean in the scaled box
    (Algorithm 2). With permutations, reals or parameters of many values (see `SingleRows`) it is the nearest of at most
    256 random neighbours or, if there are more, the nearest row by index-distance.
    """
    codes = UnitBox.of(space).from_scaled(points)
    infeasible = np.flatnonzero(~space.feasible.contains_few(codes))
    if not len(infeasible):
        return codes
    single_rows = space.feasible.single_rows
    if single_rows is None:
        codes[infeasible] = _nearest_of_some(space, points[infeasible], codes[infeasible], rng)
        return codes
    grid = _grid(space)
    rows, targets = codes[infeasible].tolist(), points[infeasible].tolist()
    for i, row, point in zip(infeasible, rows, targets, strict=True):
        neighbour = partial(single_rows.nearest_neighbour, row, _distances(grid, point))
        codes[i] = single_rows.repair(row, neighbour)
    return codes


def _nearest_of_some(space: Space, points: Array, codes: Codes, rng: Rng) -> Codes:
    """Return the neighbour of each infeasible row that is nearest to its point."""
    near, owner = cascade(space, codes, rng, _NEIGHBOURS)
    cut = np.flatnonzero(np.bincount(owner, minlength=len(codes)) == _NEIGHBOURS)
    near = np.concatenate([near, nearest(space, codes[cut], rng)])
    owner = np.concatenate([owner, cut])
    distances = ((UnitBox.of(space).scaled(near) - points[owner]) ** 2).sum(axis=1)
    order = np.lexsort([distances, owner])
    _, first = np.unique(owner[order], return_index=True)
    return near[order[first]]


_Grid = list[tuple[int, list[float]]]
"""Axis of each code column and the coordinates of its codes in the scaled box; axis -1 for a constant."""

_GRIDS: WeakKeyDictionary[FeasibleSet, _Grid] = WeakKeyDictionary()


def _grid(space: Space) -> _Grid:
    """Return the grid of a space with scalar parameters only; it is cached."""
    if space.feasible not in _GRIDS:
        box, grid = UnitBox.of(space), [(-1, [0.0])] * space.width
        for axis, name in enumerate(space.active):
            column, count = space.columns[name].start, int(space.parameters[name].cardinality)
            rows = np.tile(box.fixed, (count, 1))
            rows[:, column] = np.arange(count)
            grid[column] = axis, box.scaled(rows)[:, axis].tolist()
        _GRIDS[space.feasible] = grid
    return _GRIDS[space.feasible]


def _distances(grid: _Grid, point: Row) -> Callable[[int, float], float]:
    """Return a function of a column and a code: squared distance from a point; infinite for codes without a value."""

    def squared(column: int, code: float) -> float:
        axis, centres = grid[column]
        if axis < 0:
            return 0.0  # a constant
        return (centres[int(code)] - point[axis]) ** 2 if 0 <= code < len(centres) else math.inf

    return squared
