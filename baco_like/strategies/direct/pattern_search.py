"""Searches by patterns of values: pattern search (Hooke and Jeeves 1961) and multidirectional search (Torczon 1989)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.strategies.direct import base
from baco_like.strategies.direct.base import CostedPoint, Objective, ReplayedStrategy
from baco_like.strategies.geometry import RepairedBox
from baco_like.strategies.settings import setting


@dataclass(frozen=True)
class Pattern:
    """Checkpoint of pattern search.

    Attributes:
        base: The best point.
        previous: The base before it if the last exploration improved, else None.
        share: Step as a share of an axis.
    """

    base: CostedPoint
    previous: Array | None
    share: float


@final
@dataclass(frozen=True)
class PatternSearch(ReplayedStrategy[Pattern]):
    """Pattern search of Hooke and Jeeves over values, restarted when it ends; step: the first, a share of an axis.

    An exploration tries a step up and a step down on each axis and keeps the improvements. If the result is better than
    the base, it becomes the base, and the next exploration is around the point that lies as far beyond it as the old
    base lies before it. Otherwise the next exploration is around the base. If that one fails too, the steps are halved;
    after steps of a single value the search starts again at a random configuration.

    Use it for ordered parameters whose effects are nearly independent. Source: Hooke and Jeeves 1961. Each exploration
    is a stage.

    Attributes:
        step: First step as a share of an axis, in (0, 1]; it is halved down to a single value.

    Raises:
        ValueError: The step is not between 0 and 1.
    """

    step: float = setting(0.25, within="(0, 1]")

    phase: ClassVar[str] = "pattern_search"

    @override
    def begin(
        self, box: RepairedBox, start: Array, cost: float, previous: Pattern | None
    ) -> Pattern:
        """Return the checkpoint at a start."""
        return Pattern((start, cost), None, self.step)

    @override
    def stage(
        self, box: RepairedBox, at: Pattern, objective: Objective, rng: Rng
    ) -> Pattern | None:
        """Return the checkpoint after the next exploration, or None if one with the smallest steps has failed."""
        steps = box.steps(at.share)
        if at.previous is not None:
            leap = np.clip(2.0 * at.base[0] - at.previous, 0.0, 1.0)
            centre = (leap, objective(leap))
        else:
            centre = at.base
        explored = _explore(box, centre, steps, objective)
        if explored[1] < at.base[1]:
            return Pattern(explored, at.base[0], at.share)
        if at.previous is not None:
            return replace(at, previous=None)
        if np.array_equal(steps, box.steps(at.share / 2)):
            return None
        return replace(at, share=at.share / 2)


def _explore(
    box: RepairedBox, centre: CostedPoint, steps: Array, objective: Objective
) -> CostedPoint:
    """Return the point after a step up or down on every axis on which a step is better.

    It moves to the point of the configuration of the better point.
    """
    for axis, step in enumerate(steps):
        for sign in (1.0, -1.0):
            point = centre[0].copy()
            point[axis] = min(max(point[axis] + sign * step, 0.0), 1.0)
            if point[axis] == centre[0][axis]:
                continue
            cost = objective(point)
            if cost < centre[1]:
                centre = (box.point(box.row(point)[1]), cost)
                break
    return centre


_EXPANSION, _CONTRACTION = 2.0, 0.5


class Simplex(NamedTuple):
    """Checkpoint of multidirectional search: points with their costs.

    Attributes:
        vertices: The points, ``(k + 1, k)``, the best first.
        costs: Their costs, ``(k + 1,)``, or None before all are known.
    """

    vertices: Array
    costs: Array | None


@final
@dataclass(frozen=True)
class Torczon(ReplayedStrategy[Simplex]):
    """Torczon's multidirectional search over values, restarted when it ends; side: of the first simplex.

    A simplex reflects, expands and contracts as a whole. All vertices are reflected through the best one. If a
    reflected vertex is better than the best one, the reflected simplex is expanded to twice its size, and the better of
    the two is the next simplex. Otherwise the simplex contracts to half its size around its best vertex. When it is
    smaller than a value on every axis, the search starts again at a random configuration. The simplex keeps its shape:
    a vertex outside the box represents the nearest point of the border.

    Use it for ordered parameters whose effects interact. Source: Torczon 1989. Each iteration is a stage.

    Attributes:
        side: Length of the sides of the first simplex as a share of an axis, in (0, 0.5], at least one value.

    Raises:
        ValueError: The side is not between 0 and 1/2.
    """

    side: float = setting(0.25, within="(0, 0.5]")

    phase: ClassVar[str] = "torczon"

    @override
    def begin(
        self, box: RepairedBox, start: Array, cost: float, previous: Simplex | None
    ) -> Simplex:
        """Return the checkpoint at a start: a right-angled simplex that points inwards."""
        return Simplex(base.right_angled_simplex(start, box.steps(self.side)), None)

    @override
    def stage(
        self, box: RepairedBox, at: Simplex, objective: Objective, rng: Rng
    ) -> Simplex | None:
        """Return the checkpoint after the next iteration, or None if the simplex is smaller than a value."""
        if at.costs is None:
            return _sort_simplex(at.vertices, _evaluate(at.vertices, objective))
        if (np.ptp(at.vertices, axis=0) < 1.0 / box.counts).all():
            return None
        reflected, costs = _scale_simplex(at, -1.0, objective)
        if costs.min() < at.costs[0]:
            expanded, expanded_costs = _scale_simplex(at, -_EXPANSION, objective)
            if expanded_costs.min() < costs.min():
                return _sort_simplex(expanded, expanded_costs)
            return _sort_simplex(reflected, costs)
        return _sort_simplex(*_scale_simplex(at, _CONTRACTION, objective))


def _scale_simplex(at: Simplex, factor: float, objective: Objective) -> tuple[Array, Array]:
    """Return the vertices scaled around the best one, and their costs."""
    assert at.costs is not None
    best = at.vertices[0]
    vertices = best + factor * (at.vertices - best)
    return vertices, np.append(at.costs[0], _evaluate(vertices[1:], objective))


def _evaluate(points: Array, objective: Objective) -> Array:
    return np.array([objective(np.clip(point, 0.0, 1.0)) for point in points])


def _sort_simplex(vertices: Array, costs: Array) -> Simplex:
    """Return the simplex with its best vertex first; the order of the others does not matter."""
    order = np.argsort(costs, kind="stable")
    return Simplex(vertices[order], costs[order])
