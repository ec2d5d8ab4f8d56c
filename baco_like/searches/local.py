"""Multi-start local search, all starts advanced together as one array.

BaCO (Hellsten et al., ASPLOS 2023, section 3.3): a large number of configurations is drawn uniformly, the best of them
become starting points, and neighbours are all configurations that differ in a single parameter. The incumbents join
the starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.searches.protocol import Score, Taken
from baco_like.searches.ranking import (
    best_by_owner,
    best_free_rows,
    best_rows,
    distinct,
    first_appearances,
)
from baco_like.spaces.neighbourhood import hamming
from baco_like.spaces.space import Space

_REACHED_TWICE = 4


@final
@dataclass(frozen=True)
class LocalSearch:
    """Best-improvement hill climbing from many starts.

    Attributes:
        candidates: Uniform draws that are scored first.
        starts: How many of the best draws become starts, beside the incumbents.
        values: At most so many random values of one parameter are tried in a step.
        steps: At most so many steps; each start stops at its own optimum.
    """

    candidates: int = 5_000
    starts: int = 10
    values: int = 24
    steps: int = 100

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, taken: Taken
    ) -> Codes:
        """Return the n best rows seen on the way that are not taken; optima that are taken are passed through."""
        start = distinct(start)
        rows = np.concatenate([start, space.feasible.sample(self.candidates, rng)])
        scores = score(rows)
        pool = _Pool(n, rng, taken, space.width)
        pool.add(rows, scores)
        climbers = distinct(best_rows(rows, scores, 2 * self.starts, rng)[0])[: self.starts]
        climbers = distinct(np.concatenate([start, climbers]))
        heights = score(climbers)
        for _ in range(self.steps):
            climbers, heights = self._step(score, space, climbers, heights, pool, rng)
            if not len(climbers):
                break
        return pool.rows

    def _step(
        self, score: Score, space: Space, climbers: Codes, heights: Array, pool: _Pool, rng: Rng
    ) -> tuple[Codes, Array]:
        """Return the climbers that could improve, where they are now."""
        near, owner = hamming(space, climbers, rng, limit=self.values)
        if not len(near):
            return near, np.empty(0)
        scores = score(near)
        pool.add(near, scores)
        best = best_by_owner(owner, scores, rng)
        better = best[scores[best] > heights[owner[best]]]
        better = better[first_appearances(near[better])]
        return near[better], scores[better]


class _Pool:
    """The n best rows so far that are not taken."""

    def __init__(self, n: int, rng: Rng, taken: Taken, width: int) -> None:
        self._n, self._rng, self._taken = n, rng, taken
        self.rows: Codes = np.empty((0, width))
        self._scores: Array = np.empty(0)

    def add(self, rows: Codes, scores: Array) -> None:
        if len(self._scores) == self._n and scores.max() < self._scores[-1]:
            return
        more = _REACHED_TWICE * self._n  # several climbers may have reached the same row
        rows, scores = best_free_rows(rows, scores, more, self._rng, self._taken)
        rows = np.concatenate([self.rows, rows])
        scores = np.concatenate([self._scores, scores])
        first = first_appearances(rows)
        self.rows, self._scores = best_rows(rows[first], scores[first], self._n, self._rng)
