"""Pattern search (Hooke and Jeeves 1961) over values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.strategies.direct.base import CostedPoint, Objective, ReplayedStrategy
from baco_like.strategies.geometry.repaired_box import RepairedBox
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
