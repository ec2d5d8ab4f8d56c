"""Gradient ascent on the real parameters of many rows at once; everything else stays as it is.

Every row climbs by BFGS (Nocedal and Wright, Numerical Optimization, 2nd ed., Eq. 6.17) on the unit scale of its
reals, that is linear or logarithmic between their bounds, and projected onto them. Slopes are central differences.
All rows and coordinates are scored in one call, and so are all step lengths of a line search. Only feasible rows are
ever scored; where a constraint blocks the way, random uphill directions are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.acquisitions.optimizers.best_rows import comparable
from baco_like.acquisitions.protocol import Score
from baco_like.parameters.protocol import Parameter, is_continuous
from baco_like.spaces.space import Space

_DIFFERENCE = 1e-5
"""Half the distance of a central difference, on the unit scale."""

_LENGTHS = 4.0 ** np.arange(1, -8, -1)
"""Step lengths tried at once, as multiples of the quasi-Newton step."""

_FURTHEST = 0.25
"""Longest step of one coordinate on the unit scale."""

_FLAT = 1e-9
"""A slope below it, on the unit scale, is none."""

_FAILURES = 12
"""So many directions in a row without a gain end a climb that a constraint blocks: random uphill ones may slide along
it."""

_UNBLOCKED = 4
"""What a failure counts where nothing infeasible was in the way."""


@final
@dataclass(frozen=True)
class GradientAscent:
    """Projected BFGS with numerical slopes.

    Attributes:
        steps: At most so many line searches.
        gain: A step that gains less than this does not count, so no climb creeps.
    """

    steps: int = 30
    gain: float = 1e-12

    def climb(
        self, score: Score, space: Space, rows: Codes, heights: Array, rng: Rng
    ) -> tuple[Codes, Array]:
        """Return where the climbs from feasible rows, ``(n, w)``, end, and the scores there; none ends lower.

        Args:
            score: Higher is better.
            space: Where.
            rows: Feasible rows.
            heights: Their scores, ``(n,)``.
            rng: Chance.
        """
        reals = Reals.of(space)
        if not reals.columns.size or not len(rows):
            return rows, heights
        rows, heights = rows.copy(), comparable(heights)
        climb = _Climb(score, reals, rows, heights, rng, self.gain)
        for _ in range(self.steps):
            if not climb.left.size:
                break
            climb.step()
        return climb.rows, climb.heights


@dataclass(frozen=True, eq=False)
class Reals:
    """The real parameters of a space, on their unit scales.

    Attributes:
        space: The space.
        parameters: Its reals that are not constant.
        columns: Their code columns, ``(k,)``.
    """

    space: Space
    parameters: Sequence[Parameter]
    columns: Ints

    @classmethod
    def of(cls, space: Space) -> Reals:
        """Return those of a space."""
        found = [
            (parameter, space.columns[name].start)
            for name in space.active
            if is_continuous(parameter := space.parameters[name])
        ]
        return cls(space, [p for p, _ in found], np.array([at for _, at in found], dtype=np.int64))

    def shares(self, rows: Codes) -> Array:
        """Return where the reals stand, ``(n, w)`` -> ``(n, k)`` in [0, 1]."""
        parts = zip(self.parameters, self.columns, strict=True)
        return np.column_stack([p.to_unit(rows[:, [at]]) for p, at in parts])

    def placed(self, rows: Codes, shares: Array) -> Codes:
        """Return rows with their reals at these places of [0, 1], ``(n, w)``, ``(n, k)`` -> ``(n, w)``."""
        moved = rows.copy()
        for parameter, at, share in zip(self.parameters, self.columns, shares.T, strict=True):
            moved[:, [at]] = parameter.from_unit(share[:, None])
        return moved


class _Climb:
    """Rows on their way up; `left` are those that still climb."""

    def __init__(
        self, score: Score, reals: Reals, rows: Codes, heights: Array, rng: Rng, gain: float
    ) -> None:
        self._score, self._reals, self._rng, self._gain = score, reals, rng, gain
        self.rows, self.heights = rows, heights
        n, k = len(rows), len(reals.columns)
        self.left: Ints = np.flatnonzero(np.isfinite(heights))
        self._shares = reals.shares(rows)
        self._inverse = np.tile(np.eye(k), (n, 1, 1))  # of the Hessian, negated
        self._known = np.zeros(n, dtype=np.bool_)  # whether it has seen a step
        self._failed = np.zeros(n, dtype=np.int64)
        self._slopes = np.zeros((n, k))
        self._slopes[self.left] = self._differences(self.left)
        self._stop()

    def step(self) -> None:
        """Advance every row that is left by one line search."""
        mine = self.left
        way = self._directions(mine)
        before = self._shares[mine]
        trial = np.clip(before[:, None] + _LENGTHS[:, None] * way[:, None], 0.0, 1.0)
        reached = self._scored(np.repeat(mine, len(_LENGTHS)), trial.reshape(-1, trial.shape[2]))
        reached = reached.reshape(len(mine), -1)
        best = np.argmax(reached, axis=1)
        entry = np.arange(len(mine))
        rose = reached[entry, best] > self.heights[mine] + self._gain
        moved = mine[rose]
        cost = np.where(np.isneginf(reached).any(axis=1), 1, _UNBLOCKED)
        self._failed[mine] = np.where(rose, 0, self._failed[mine] + cost)
        self._inverse[mine[~rose]] = np.eye(way.shape[1])
        self._known[mine[~rose]] = False
        if moved.size:
            self._shares[moved] = trial[entry, best][rose]
            self.rows[moved] = self._reals.placed(self.rows[moved], self._shares[moved])
            self.heights[moved] = reached[entry, best][rose]
            slopes = self._differences(moved)
            self._learn(moved, self._shares[moved] - before[rose], self._slopes[moved] - slopes)
            self._slopes[moved] = slopes
        self._stop()

    def _stop(self) -> None:
        flat = np.abs(self._free(self.left)).max(axis=1, initial=0.0) < _FLAT
        self.left = self.left[~flat & (self._failed[self.left] < _FAILURES)]

    def _free(self, mine: Ints) -> Array:
        """Return the slopes, without those that point out of the domain."""
        shares, slopes = self._shares[mine], self._slopes[mine]
        out = ((shares <= 0.0) & (slopes < 0.0)) | ((shares >= 1.0) & (slopes > 0.0))
        return np.where(out, 0.0, slopes)

    def _directions(self, mine: Ints) -> Array:
        """Return uphill steps, no coordinate longer than `_FURTHEST` at length 1."""
        slopes = self._free(mine)
        fixed = slopes == 0.0
        way = np.einsum("nij,nj->ni", self._inverse[mine], slopes)
        way = np.where(fixed, 0.0, way)
        wrong = (way * slopes).sum(axis=1) <= 0.0
        way[wrong] = slopes[wrong]
        blocked = self._failed[mine] > 0
        if blocked.any():  # a constraint or a ridge: some other way that is uphill too
            size = np.linalg.norm(slopes[blocked], axis=1, keepdims=True)
            drawn = self._rng.standard_normal((int(blocked.sum()), slopes.shape[1]))
            drawn *= np.sign((drawn * slopes[blocked]).sum(axis=1, keepdims=True)) * size
            way[blocked] = drawn
        longest = np.abs(way).max(axis=1, keepdims=True)
        first = ~self._known[mine][:, None]  # a slope says nothing about the length
        scale = np.where(first | (longest > _FURTHEST), _FURTHEST / np.maximum(longest, 1e-300), 1)
        return np.asarray(way * scale)

    def _learn(self, mine: Ints, step: Array, fall: Array) -> None:
        """Update the inverse Hessians by steps and the falls of the slopes along them (BFGS)."""
        curvature = (step * fall).sum(axis=1)
        size = np.linalg.norm(step, axis=1) * np.linalg.norm(fall, axis=1)
        good = curvature > 1e-8 * size
        mine, step, fall, curvature = mine[good], step[good], fall[good], curvature[good]
        fresh = ~self._known[mine]
        scale = curvature / np.maximum((fall * fall).sum(axis=1), 1e-300)
        k = step.shape[1]
        self._inverse[mine[fresh]] = scale[fresh, None, None] * np.eye(k)
        self._known[mine] = True
        rho = 1.0 / curvature
        left = np.eye(k) - np.einsum("n,ni,nj->nij", rho, step, fall)
        inner = left @ self._inverse[mine] @ left.transpose(0, 2, 1)
        self._inverse[mine] = inner + np.einsum("n,ni,nj->nij", rho, step, step)

    def _differences(self, mine: Ints) -> Array:
        """Return the slopes by the unit scale, one-sided at bounds and constraints, ``(m, k)``."""
        shares = self._shares[mine]
        m, k = shares.shape
        shift = _DIFFERENCE * np.eye(k)
        around = np.clip(shares[:, None, None] + np.stack([shift, -shift])[None], 0.0, 1.0)
        owner = np.repeat(mine, 2 * k)
        heights = self._scored(owner, around.reshape(-1, k)).reshape(m, 2, k)
        legal = np.isfinite(heights)
        place = around[:, :, np.arange(k), np.arange(k)]
        place = np.where(legal, place, shares[:, None])
        heights = np.where(legal, heights, self.heights[mine][:, None, None])
        apart = place[:, 0] - place[:, 1]
        rise = heights[:, 0] - heights[:, 1]
        return np.divide(rise, apart, out=np.zeros_like(rise), where=apart > 0.0)

    def _scored(self, owner: Ints, shares: Array) -> Array:
        """Return the scores of the owners' rows with their reals there; -inf where that is not feasible."""
        rows = self._reals.placed(self.rows[owner], shares)
        good: Mask = self._reals.space.feasible.contains(rows)
        scores = np.full(len(rows), -np.inf)
        if good.any():
            scores[good] = comparable(self._score(rows[good]))
        return scores
