"""Pattern search (Hooke and Jeeves 1961) over values: explore every axis, then leap along what helped.

An exploration tries a step up and a step down on each axis in turn and keeps what is better. If the outcome beats the
base, it is the new base, and the next exploration is around the point as far beyond it as the old base lies before it.
If not, the exploration is around the base; if that one fails as well, the steps are halved, and after steps of a single
value the search begins anew at a random configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.strategies.direct.program import Objective
from baco_like.strategies.direct.replay import Replayed
from baco_like.strategies.geometry.repaired_box import RepairedBox
from baco_like.strategies.protocol import Problem

_LOOKUPS = 200
"""Known answers in a row after which the search is begun elsewhere."""

Place = tuple[Array, float]
"""A point of the box with its cost."""


@dataclass(frozen=True)
class Pattern:
    """Where pattern search stands.

    Attributes:
        base: The best point.
        previous: The base before it, if the last exploration has improved; else None.
        share: Step as a share of an axis.
    """

    base: Place
    previous: Array | None
    share: float


@final
@dataclass(frozen=True)
class PatternProgram:
    """Pattern search as a program: each exploration is a stage.

    Attributes:
        box: The space as a box.
        share: First step as a share of an axis.
    """

    box: RepairedBox
    share: float

    @property
    def lookups(self) -> int:
        """How many known answers in a row make it begin again elsewhere."""
        return _LOOKUPS

    def begin(self, start: Array, cost: float, before: Pattern | None) -> Pattern:
        """Return the checkpoint at a start."""
        return Pattern((start, cost), None, self.share)

    def stage(self, at: Pattern, objective: Objective, rng: Rng) -> Pattern | None:
        """Return the checkpoint after the next exploration, or None after one with the smallest steps that failed."""
        steps = self.box.steps(at.share)
        if at.previous is not None:
            leap = np.clip(2.0 * at.base[0] - at.previous, 0.0, 1.0)
            found = self._explored((leap, objective(leap)), steps, objective)
            if found[1] < at.base[1]:
                return Pattern(found, at.base[0], at.share)
            return replace(at, previous=None)
        found = self._explored(at.base, steps, objective)
        if found[1] < at.base[1]:
            return Pattern(found, at.base[0], at.share)
        if np.array_equal(steps, self.box.steps(at.share / 2)):
            return None
        return replace(at, share=at.share / 2)

    def _explored(self, place: Place, steps: Array, objective: Objective) -> Place:
        """Return the place after a step up or down on every axis on which one is better.

        It moves to the configuration that the better point stands for.
        """
        for axis, step in enumerate(steps):
            for sign in (1.0, -1.0):
                point = place[0].copy()
                point[axis] = min(max(point[axis] + sign * step, 0.0), 1.0)
                if point[axis] == place[0][axis]:
                    continue
                cost = objective(point)
                if cost < place[1]:
                    place = (self.box.point(self.box.row(point)[1]), cost)
                    break
        return place


@final
@dataclass(frozen=True)
class PatternSearch:
    """Settings of pattern search.

    Attributes:
        step: First step as a share of an axis; it is halved down to a single value.

    Raises:
        ValueError: The step is not between 0 and 1.
    """

    step: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.step <= 1:
            raise ValueError(f"step is {self.step}; give a share of an axis, over 0 up to 1")

    @property
    def name(self) -> str:
        """What stands in the tags of proposals."""
        return "pattern_search"

    def program(self, problem: Problem, box: RepairedBox) -> PatternProgram:
        """Return the program for a problem."""
        return PatternProgram(box, self.step)


def pattern_search(step: float = 0.25) -> Replayed[Pattern]:
    """Pattern search of Hooke and Jeeves over values, begun anew where it ends; step: the first, a share of an axis."""
    return Replayed(PatternSearch(step))
