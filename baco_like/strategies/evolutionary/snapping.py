"""Configurations at points of the scaled box (Willemsen et al., section IV-C), for particle swarm and fireflies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, final
from weakref import WeakKeyDictionary

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.feasible.single_rows import Row
from baco_like.spaces.repair import cascade, nearest
from baco_like.spaces.space import Space
from baco_like.strategies.evolutionary.base import Candidates, M, PopulationStrategy
from baco_like.strategies.geometry.continuous import UnitBox
from baco_like.strategies.moves.constraint_handling import draw_uniform
from baco_like.strategies.protocol import Problem

_NEIGHBOURS = 256
"""Number of neighbours that are compared where single rows cannot be walked."""


@dataclass(frozen=True)
class PositionedStrategy(PopulationStrategy[M], Generic[M]):
    """Base of population algorithms whose members have positions in the scaled box (`UnitBox.extents`)."""

    def draw_positions(self, space: Space, n: int, rng: Rng) -> Array:
        """Return the positions of the first population, at most n, ``(<= n, k)``."""
        draw = draw_feasible_points if self.is_aware else draw_points
        return draw(space, UnitBox.of(space), n, rng)

    def candidates_at(
        self, space: Space, positions: Array, other: Array | Ints, rng: Rng
    ) -> Candidates:
        """Return the candidates at positions, ``(n, k)``, with one more array that belongs to them."""
        snap = snap_to_feasible if self.is_aware else snap_to_nearest
        return Candidates(snap(space, UnitBox.of(space), positions, rng), (positions, other))

    @override
    def place(self, problem: Problem, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates with their positions at given configurations, ``(n, w)``."""
        return Candidates(codes, (UnitBox.of(problem.space).scaled(codes), candidates.moves[1]))


def draw_feasible_points(space: Space, box: UnitBox, n: int, rng: Rng) -> Array:
    """Return the points of at most n distinct uniform feasible rows in the scaled box, ``(<= n, k)``."""
    return box.scaled(draw_uniform(space, n, rng))


def draw_points(space: Space, box: UnitBox, n: int, rng: Rng) -> Array:
    """Return uniform points of the scaled box, ``(n, k)``."""
    return rng.random((n, box.axes)) * box.extents


def snap_to_nearest(space: Space, box: UnitBox, points: Array, rng: Rng) -> Codes:
    """Return the nearest configurations, feasible or not, ``(n, k)`` -> ``(n, w)``."""
    return box.from_unit(points / box.extents)


def snap_to_feasible(space: Space, box: UnitBox, points: Array, rng: Rng) -> Codes:
    """Return the nearest configuration of each point, or its feasible neighbour nearest to the point.

    The neighbours are those of `constraint_handling.repair_by_neighbour`; the distance is Euclidean in the scaled box
    (Algorithm 2). With permutations, reals or parameters of many values (see `SingleRows`) it is the nearest of at most
    256 random neighbours or, if there are more, the nearest row by index-distance.
    """
    codes = snap_to_nearest(space, box, points, rng)
    infeasible = np.flatnonzero(~space.feasible.contains_few(codes))
    if not len(infeasible):
        return codes
    single_rows = space.feasible.single_rows
    if single_rows is None:
        codes[infeasible] = _nearest_of_some(space, box, points[infeasible], codes[infeasible], rng)
        return codes
    grid = Grid.of(space, box)
    rows, targets = codes[infeasible].tolist(), points[infeasible].tolist()
    for i, row, point in zip(infeasible, rows, targets, strict=True):
        neighbour = partial(single_rows.nearest_neighbour, row, grid.distances(point))
        codes[i] = single_rows.repair(row, neighbour)
    return codes


def _nearest_of_some(space: Space, box: UnitBox, points: Array, codes: Codes, rng: Rng) -> Codes:
    """Return the neighbour of each infeasible row that is nearest to its point."""
    near, owner = cascade(space, codes, rng, _NEIGHBOURS)
    cut = np.flatnonzero(np.bincount(owner, minlength=len(codes)) == _NEIGHBOURS)
    near = np.concatenate([near, nearest(space, codes[cut], rng)])
    owner = np.concatenate([owner, cut])
    distances = ((box.scaled(near) - points[owner]) ** 2).sum(axis=1)
    order = np.lexsort([distances, owner])
    _, first = np.unique(owner[order], return_index=True)
    return near[order[first]]


Distances = Callable[[int, float], float]
"""Returns the squared distance between a code of a column and a point, along the axis of the column."""


@final
@dataclass(frozen=True, eq=False)
class Grid:
    """The values of scalar parameters as points of the scaled box.

    Attributes:
        axes: The axis of each code column; -1 for a constant.
        centres: The coordinate of each code of a column.
    """

    axes: Sequence[int]
    centres: Sequence[Sequence[float]]

    @classmethod
    def of(cls, space: Space, box: UnitBox) -> Grid:
        """Return the grid of a space; it is cached."""
        if space.feasible not in _GRIDS:
            axes, centres = [-1] * space.width, [[0.0]] * space.width
            for axis, name in enumerate(space.active):
                column, count = space.columns[name].start, int(space.parameters[name].cardinality)
                rows = np.tile(box.fixed, (count, 1))
                rows[:, column] = np.arange(count)
                axes[column] = axis
                centres[column] = box.scaled(rows)[:, axis].tolist()
            _GRIDS[space.feasible] = cls(axes, centres)
        return _GRIDS[space.feasible]

    def distances(self, point: Row) -> Distances:
        """Return the squared distances of codes from a point; infinite for codes without a value."""

        def squared(column: int, code: float) -> float:
            axis, centres = self.axes[column], self.centres[column]
            if axis < 0:
                return 0.0  # a constant
            return (centres[int(code)] - point[axis]) ** 2 if 0 <= code < len(centres) else math.inf

        return squared


_GRIDS: WeakKeyDictionary[FeasibleSet, Grid] = WeakKeyDictionary()
