"""Gradient ascent on the real and the wide ordered parameters of many rows at once; the others do not change.

Every row climbs by BFGS (Nocedal and Wright, Numerical Optimization, 2nd ed., Eq. 6.17) on the unit scale of these
parameters: linear or logarithmic between their bounds, and projected onto them. Gradients are central differences. All
rows and coordinates are scored in one call, and so are all step lengths of a line search. Only feasible rows are
scored; where a constraint blocks the way, random uphill directions are tried. Integers are rounded before they are
scored, so their points between two numbers have the score of the nearer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.functions import comparable
from baco_like.acquisitions.protocol import Score
from baco_like.parameters.numeric import Real, RealColumns
from baco_like.parameters.protocol import Parameter, ParameterKind, is_continuous
from baco_like.spaces.space import Space

_DIFFERENCE = 1e-5
"""Half the distance of a central difference, on the unit scale, if a wide ordered parameter has no larger step."""

_WIDE = 2**10
"""An ordered parameter of at least this many values is climbed like a real: trying single values takes three to five
times the CPU time, measured with three integers of a million values on two functions."""

_LENGTHS = 4.0 ** np.arange(1, -8, -1)
"""Step lengths tried at once, as multiples of the quasi-Newton step."""

_LONGEST_STEP = 0.25
"""Longest step of one coordinate on the unit scale, at length 1."""

_FLAT = 1e-9
"""Derivatives below this, on the unit scale, count as zero."""

_MOST_FAILURES = 12
"""A climb ends after this number of directions without a gain. Where a constraint blocks the way, some of the random
uphill directions slide along it."""

_UNBLOCKED_FAILURE = 4
"""Count of one failure where every scored row was feasible: random directions then help less."""


@final
@dataclass(frozen=True)
class GradientAscent:
    """Projected BFGS with numerical gradients.

    Attributes:
        steps: Maximum number of line searches.
        gain: A step that gains less than this counts as a failure, so that no climb creeps.
    """

    steps: int = 30
    gain: float = 1e-12

    def climb(
        self, score: Score, space: Space, rows: Codes, heights: Array, rng: Rng
    ) -> tuple[Codes, Array]:
        """Return the ends of the climbs from feasible rows, ``(n, w)``, and the scores there, none lower than before.

        Args:
            score: Higher is better.
            space: The space to search.
            rows: Feasible rows.
            heights: Their scores, ``(n,)``.
            rng: Random generator.
        """
        names = [name for name in space.active if is_climbed(space.parameters[name])]
        if not names or not len(rows):
            return rows, heights
        climb = _Climb(score, space, names, rows.copy(), comparable(heights), rng)
        for _ in range(self.steps):
            if not climb.active.size:
                break
            climb.step(self.gain)
        return climb.rows, climb.heights


def is_climbed(parameter: Parameter) -> bool:
    """Whether a parameter is a real, or ordered with so many values that it is climbed like one."""
    is_wide = parameter.kind is ParameterKind.ORDERED and parameter.cardinality >= _WIDE
    return is_continuous(parameter) or (is_wide and parameter.width == 1)


class _UnitBox:
    """The climbed parameters of a space, each on its scale from 0 to 1.

    Args:
        space: The space.
        names: Names of the parameters.

    Attributes:
        columns: Their code columns, ``(k,)``.
        shifts: Half the distance of a central difference of each, ``(k,)``.
    """

    def __init__(self, space: Space, names: list[str]) -> None:
        self._parameters = [space.parameters[name] for name in names]
        self.columns: Ints = np.array([space.columns[name].start for name in names])
        self.shifts = np.array([max(_DIFFERENCE, 1.0 / p.cardinality) for p in self._parameters])
        reals = [p for p in self._parameters if isinstance(p, Real)]
        self._reals = RealColumns(reals) if len(reals) == len(names) else None

    def to_unit(self, rows: Codes) -> Array:
        """Return positions in [0, 1], ``(n, w)`` -> ``(n, k)``."""
        codes = rows[:, self.columns]
        if self._reals is not None:
            return self._reals.to_unit(codes)
        parts = zip(self._parameters, codes.T, strict=True)
        return np.column_stack([p.to_unit(column[:, None]) for p, column in parts])

    def from_unit(self, points: Array) -> Codes:
        """Return the codes at positions in [0, 1], ``(n, k)`` -> ``(n, k)``."""
        if self._reals is not None:
            return self._reals.from_unit(points)
        parts = zip(self._parameters, points.T, strict=True)
        return np.column_stack([p.from_unit(column[:, None]) for p, column in parts])


class _Climb:
    """Rows that climb together; arrays have one entry per row, and `active` has the rows that still climb."""

    def __init__(
        self, score: Score, space: Space, names: list[str], rows: Codes, heights: Array, rng: Rng
    ) -> None:
        self._score, self._space, self._rng = score, space, rng
        self._box = _UnitBox(space, names)
        self.rows, self.heights = rows, heights
        n, k = len(rows), len(names)
        self.active: Ints = np.flatnonzero(np.isfinite(heights))
        self._points = self._box.to_unit(rows)
        self._inverse = np.tile(np.eye(k), (n, 1, 1))  # of the negated Hessian
        self._has_curvature = np.zeros(n, dtype=np.bool_)  # whether a step has updated the inverse
        self._failures = np.zeros(n, dtype=np.int64)
        self._gradients = np.zeros((n, k))
        self._gradients[self.active] = self._central_differences(self.active)
        self._drop_finished()

    def step(self, gain: float) -> None:
        """Advance every active row by one line search; a smaller gain counts as a failure."""
        active = self.active
        directions = self._directions(active)
        before = self._points[active]
        trials = np.clip(before[:, None] + _LENGTHS[:, None] * directions[:, None], 0.0, 1.0)
        owner = np.repeat(active, len(_LENGTHS))
        scores = self._scores_at(owner, trials.reshape(-1, trials.shape[2]))
        scores = scores.reshape(len(active), -1)
        best = np.argmax(scores, axis=1)
        index = np.arange(len(active))
        highest = scores[index, best]
        rose = highest > self.heights[active] + gain
        moved, stuck = active[rose], active[~rose]
        failure = np.where(np.isneginf(scores).any(axis=1), 1, _UNBLOCKED_FAILURE)
        self._failures[active] = np.where(rose, 0, self._failures[active] + failure)
        self._inverse[stuck] = np.eye(directions.shape[1])
        self._has_curvature[stuck] = False
        if moved.size:
            self._points[moved] = trials[index, best][rose]
            self.rows[moved] = self._rows_at(moved, self._points[moved])
            self.heights[moved] = highest[rose]
            gradients = self._central_differences(moved)
            steps, falls = self._points[moved] - before[rose], self._gradients[moved] - gradients
            self._update_inverse(moved, steps, falls)
            self._gradients[moved] = gradients
        self._drop_finished()

    def _drop_finished(self) -> None:
        gradients = self._projected_gradients(self.active)
        is_flat = np.abs(gradients).max(axis=1, initial=0.0) < _FLAT
        self.active = self.active[~is_flat & (self._failures[self.active] < _MOST_FAILURES)]

    def _projected_gradients(self, rows: Ints) -> Array:
        """Return the gradients with 0 where they point out of the domain, ``(m, k)``."""
        points, gradients = self._points[rows], self._gradients[rows]
        out = ((points <= 0.0) & (gradients < 0.0)) | ((points >= 1.0) & (gradients > 0.0))
        return np.where(out, 0.0, gradients)

    def _directions(self, rows: Ints) -> Array:
        """Return uphill steps, no coordinate longer than `_LONGEST_STEP`, ``(m, k)``."""
        gradients = self._projected_gradients(rows)
        directions = np.einsum("nij,nj->ni", self._inverse[rows], gradients)
        directions[gradients == 0.0] = 0.0
        is_downhill = (directions * gradients).sum(axis=1) <= 0.0
        directions[is_downhill] = gradients[is_downhill]
        has_failed = self._failures[rows] > 0
        if has_failed.any():  # at a constraint or a ridge: try a random uphill direction
            uphill = gradients[has_failed]
            size = np.linalg.norm(uphill, axis=1, keepdims=True)
            drawn = self._rng.standard_normal((int(has_failed.sum()), gradients.shape[1]))
            drawn *= np.sign((drawn * uphill).sum(axis=1, keepdims=True)) * size
            directions[has_failed] = drawn
        longest = np.abs(directions).max(axis=1, keepdims=True)
        # Without curvature the gradient gives no step length: take the longest step.
        rescaled = ~self._has_curvature[rows][:, None] | (longest > _LONGEST_STEP)
        scale = np.where(rescaled, _LONGEST_STEP / np.maximum(longest, 1e-300), 1)
        return np.asarray(directions * scale)

    def _update_inverse(self, rows: Ints, step: Array, fall: Array) -> None:
        """Update the inverse Hessians by steps and the decrease of the gradients along them (BFGS, Eq. 6.17)."""
        curvature = (step * fall).sum(axis=1)
        size = np.linalg.norm(step, axis=1) * np.linalg.norm(fall, axis=1)
        good = curvature > 1e-8 * size
        rows, step, fall, curvature = rows[good], step[good], fall[good], curvature[good]
        first = ~self._has_curvature[rows]
        scale = curvature / np.maximum((fall * fall).sum(axis=1), 1e-300)
        k = step.shape[1]
        self._inverse[rows[first]] = scale[first, None, None] * np.eye(k)
        self._has_curvature[rows] = True
        rho = 1.0 / curvature
        left = np.eye(k) - np.einsum("n,ni,nj->nij", rho, step, fall)
        inner = left @ self._inverse[rows] @ left.transpose(0, 2, 1)
        self._inverse[rows] = inner + np.einsum("n,ni,nj->nij", rho, step, step)

    def _central_differences(self, rows: Ints) -> Array:
        """Return the gradients on the unit scale, one-sided at bounds and constraints, ``(m, k)``."""
        points = self._points[rows]
        m, k = points.shape
        shift = np.diag(self._box.shifts)
        around = np.clip(points[:, None, None] + np.stack([shift, -shift])[None], 0.0, 1.0)
        scores = self._scores_at(np.repeat(rows, 2 * k), around.reshape(-1, k)).reshape(m, 2, k)
        usable = np.isfinite(scores)
        ends = np.where(usable, around[:, :, np.arange(k), np.arange(k)], points[:, None])
        scores = np.where(usable, scores, self.heights[rows][:, None, None])
        distance = ends[:, 0] - ends[:, 1]
        rise = scores[:, 0] - scores[:, 1]
        return np.asarray(np.divide(rise, distance, out=np.zeros_like(rise), where=distance > 0.0))

    def _rows_at(self, owner: Ints, points: Array) -> Codes:
        """Return the owners' rows with their reals at these points of [0, 1], ``(m, k)`` -> ``(m, w)``."""
        rows = self.rows[owner]
        rows[:, self._box.columns] = self._box.from_unit(points)
        return self._space.activity.at_rest(rows)

    def _scores_at(self, owner: Ints, points: Array) -> Array:
        """Return the scores of `_rows_at`, -inf where the row is not feasible, ``(m,)``."""
        rows = self._rows_at(owner, points)
        is_feasible = self._space.feasible.contains(rows)
        scores = np.full(len(rows), -np.inf)
        if is_feasible.any():
            scores[is_feasible] = comparable(self._score(rows[is_feasible]))
        return scores
