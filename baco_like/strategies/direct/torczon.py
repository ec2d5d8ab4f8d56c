"""Multidirectional search (Torczon 1989) over values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.strategies.direct.base import Objective, ReplayedStrategy
from baco_like.strategies.geometry.repaired_box import RepairedBox
from baco_like.strategies.settings import setting

_EXPANSION, _CONTRACTION = 2.0, 0.5


@dataclass(frozen=True)
class Simplex:
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
        sides = np.where(start <= 0.5, 1.0, -1.0) * box.steps(self.side)
        return Simplex(np.concatenate([start[None, :], start + np.diag(sides)]), None)

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
