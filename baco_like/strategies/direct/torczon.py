"""Torczon's multidirectional search (1989) over values: a simplex that reflects, expands and contracts as a whole.

All vertices but the best are reflected through it. If one of the reflected is better than the best, the reflected
simplex is expanded to twice its size, and the better of the two is the next; if none is, the simplex contracts to half
its size around its best vertex. When it is smaller than a value on every axis the search begins anew at a random
configuration. The simplex keeps its shape; vertices outside the box stand for the points of its border nearest to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.strategies.direct.program import Objective
from baco_like.strategies.direct.replay import Replayed
from baco_like.strategies.geometry.repaired_box import RepairedBox
from baco_like.strategies.protocol import Problem

_LOOKUPS = 200
"""Known answers in a row after which the search is begun elsewhere."""

_EXPANSION, _CONTRACTION = 2.0, 0.5


@dataclass(frozen=True)
class Simplex:
    """Points with their costs.

    Attributes:
        vertices: ``(k + 1, k)``, the best first.
        costs: ``(k + 1,)``, or None before all are known.
    """

    vertices: Array
    costs: Array | None


@final
@dataclass(frozen=True)
class TorczonProgram:
    """Multidirectional search as a program: each iteration is a stage.

    Attributes:
        box: The space as a box.
        side: Length of the first simplex's sides.
    """

    box: RepairedBox
    side: float

    @property
    def lookups(self) -> int:
        """How many known answers in a row make it begin again elsewhere."""
        return _LOOKUPS

    def begin(self, start: Array, cost: float, before: Simplex | None) -> Simplex:
        """Return the checkpoint at a start: a right-angled simplex that points inwards."""
        sides = np.where(start <= 0.5, 1.0, -1.0) * self.box.steps(self.side)
        return Simplex(np.concatenate([start[None, :], start + np.diag(sides)]), None)

    def stage(self, at: Simplex, objective: Objective, rng: Rng) -> Simplex | None:
        """Return the checkpoint after the next iteration, or None where the simplex is as small as a value."""
        if at.costs is None:
            return _sorted(at.vertices, _costs(at.vertices, objective))
        if (np.ptp(at.vertices, axis=0) < 1.0 / self.box.counts).all():
            return None
        best, least = at.vertices[0], at.costs[0]
        reflected = _around(best, at.vertices, -1.0)
        costs = np.append(least, _costs(reflected[1:], objective))
        if costs.min() < least:
            expanded = _around(best, at.vertices, -_EXPANSION)
            larger = np.append(least, _costs(expanded[1:], objective))
            return (
                _sorted(expanded, larger)
                if larger.min() < costs.min()
                else _sorted(reflected, costs)
            )
        contracted = _around(best, at.vertices, _CONTRACTION)
        return _sorted(contracted, np.append(least, _costs(contracted[1:], objective)))


def _around(centre: Array, vertices: Array, factor: float) -> Array:
    return np.asarray(centre + factor * (vertices - centre))


def _costs(points: Array, objective: Objective) -> Array:
    return np.array([objective(np.clip(point, 0.0, 1.0)) for point in points])


def _sorted(vertices: Array, costs: Array) -> Simplex:
    """Return the simplex with its best vertex first; the order of the others does not matter."""
    order = np.argsort(costs, kind="stable")
    return Simplex(vertices[order], costs[order])


@final
@dataclass(frozen=True)
class Torczon:
    """Settings of multidirectional search.

    Attributes:
        side: Length of the first simplex's sides as a share of an axis, at least a value.

    Raises:
        ValueError: The side is not between 0 and 1/2.
    """

    side: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.side <= 0.5:
            raise ValueError(f"side is {self.side}; give a share of an axis, over 0 up to 0.5")

    @property
    def name(self) -> str:
        """What stands in the tags of proposals."""
        return "torczon"

    def program(self, problem: Problem, box: RepairedBox) -> TorczonProgram:
        """Return the program for a problem."""
        return TorczonProgram(box, self.side)


def torczon(side: float = 0.25) -> Replayed[Simplex]:
    """Torczon's multidirectional search over values, begun anew where it ends; side: of the first simplex."""
    return Replayed(Torczon(side))
