"""Points of the scaled box and the configurations that stand for them (Willemsen et al., section IV-C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.spaces.feasible.protocol import FeasibleSet
from baco_like.spaces.feasible.single_rows import Row, SingleRows, change_code
from baco_like.spaces.repair import cascade, nearest
from baco_like.spaces.space import Space
from baco_like.strategies.evolutionary.population import Candidates
from baco_like.strategies.geometry.continuous import UnitBox
from baco_like.strategies.moves.constraint_handling import aware, uniform_founders

Snap = Callable[[Space, UnitBox, Array, Rng], Codes]
"""Returns the configurations at points of the scaled box (`UnitBox.extents`), ``(n, k)`` -> ``(n, w)``."""

Scatter = Callable[[Space, UnitBox, int, Rng], Array]
"""Draws the points of a first swarm in the scaled box, at most so many, ``(<= n, k)``."""

_NEIGHBOURS = 256
"""Neighbours of a row that are compared where they are not walked through one row at a time."""


def feasible_points(space: Space, box: UnitBox, n: int, rng: Rng) -> Array:
    """Return the points of the scaled box that stand for distinct uniform feasible rows, ``(<= n, k)``."""
    return box.scaled(uniform_founders(space, n, rng))


def any_points(space: Space, box: UnitBox, n: int, rng: Rng) -> Array:
    """Return uniform points of the scaled box, ``(n, k)``."""
    return rng.random((n, box.axes)) * box.extents


def snap_any(space: Space, box: UnitBox, points: Array, rng: Rng) -> Codes:
    """Return the nearest configurations, feasible or not."""
    return box.from_unit(points / box.extents)


def snap_feasible(space: Space, box: UnitBox, points: Array, rng: Rng) -> Codes:
    """Return the nearest configuration of each point, or, if that is infeasible, its neighbour nearest to the point.

    The neighbours are those of `constraint_handling.cascade_neighbour`, their distance to the point is the Euclidean
    one in the scaled box (Algorithm 2). With permutations, reals or parameters of many values (see `SingleRows`) it is
    the nearest of at most 256 random neighbours and, if there are more, the nearest row by index-distance.
    """
    codes = box.from_unit(points / box.extents)
    bad = np.flatnonzero(~space.feasible.contains_few(codes))
    if not len(bad):
        return codes
    single_rows = space.feasible.single_rows
    if single_rows is None:
        codes[bad] = _nearest_of_some(space, box, points[bad], codes[bad], rng)
        return codes
    grid = Grid.of(space, box)
    rows = codes[bad].tolist()
    for place, row, point in zip(bad, rows, points[bad].tolist(), strict=True):
        nearest_neighbour = partial(_nearest_neighbour, single_rows, grid.distances(point), row)
        codes[place] = single_rows.repair(row, nearest_neighbour)
    return codes


@final
@dataclass(frozen=True)
class Landing:
    """How an algorithm that moves through the scaled box comes to configurations.

    Attributes:
        scatter: Draws the first points.
        snap: Returns the configurations that stand for points.
    """

    scatter: Scatter
    snap: Snap

    @classmethod
    def of(cls, constraints: str) -> Landing:
        """Return the one for a setting, ``aware`` or ``penalty``.

        Raises:
            ValueError: It is neither.
        """
        return AWARE if aware(constraints) else cls(any_points, snap_any)

    def founders(self, space: Space, n: int, rng: Rng) -> Array:
        """Return the points of a first population, at most so many, ``(<= n, k)``."""
        return self.scatter(space, UnitBox.of(space), n, rng)

    def candidates(
        self, space: Space, positions: Array, other: Array | Ints, rng: Rng
    ) -> Candidates:
        """Return the candidates at some positions, ``(n, k)``, with something else that belongs to each."""
        codes = self.snap(space, UnitBox.of(space), positions, rng)
        return Candidates(codes, (positions, other))


AWARE = Landing(feasible_points, snap_feasible)
"""Only feasible configurations stand for points."""


def placed(space: Space, candidates: Candidates, codes: Codes) -> Candidates:
    """Return candidates that stand exactly at given configurations, ``(n, w)``; what else belongs to them stays."""
    return Candidates(codes, (UnitBox.of(space).scaled(codes), candidates.moves[1]))


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
"""The square of the distance along the axis of a column at which a code stands from a point."""


@final
@dataclass(frozen=True, eq=False)
class Grid:
    """Where the values of scalars stand in the scaled box.

    Attributes:
        axes: The axis of each column of codes; -1 for a constant.
        centres: The place of each code of a column on its axis.
    """

    axes: Sequence[int]
    centres: Sequence[Sequence[float]]

    @classmethod
    def of(cls, space: Space, box: UnitBox) -> Grid:
        """Return the grid of a space; it is kept."""
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
        """Return how far codes stand from a point, infinitely where there is no such value."""

        def squared(column: int, code: float) -> float:
            axis, centres = self.axes[column], self.centres[column]
            if axis < 0:
                return 0.0  # a constant
            return (centres[int(code)] - point[axis]) ** 2 if 0 <= code < len(centres) else math.inf

        return squared


_GRIDS: WeakKeyDictionary[FeasibleSet, Grid] = WeakKeyDictionary()


def _nearest_neighbour(single_rows: SingleRows, far: Distances, row: Row) -> Row | None:
    """Return the neighbour of an infeasible row, by the first definition that has any, nearest to a point; or None.

    The squared distance is a sum over the axes, so each factor is minimised separately. The row itself is the nearest
    of all to its point, so its feasible factors are kept.
    """
    infeasible = [walk for walk in single_rows.walks if not walk.is_feasible(row)]
    for definition in single_rows.definitions:
        new = list(row)
        for walk in infeasible:
            nearest = walk.cheapest(
                [
                    [(code, far(step.column, code)) for code in definition(step, row[step.column])]
                    for step in walk.steps
                ]
            )
            if nearest is None:
                break
            for step, code in zip(walk.steps, nearest, strict=True):
                new[step.column] = code
        else:
            return new
    changes = infeasible[0].single_changes(row) if len(infeasible) == 1 else []
    if not changes:
        return None
    return change_code(row, *min(changes, key=lambda one: far(*one) - far(one[0], row[one[0]])))
