"""Multi-start local search, all starts advanced together as one array.

BaCO (Hellsten et al., ASPLOS 2023, section 3.3): a large number of configurations is drawn uniformly, the best of them
become starting points, and neighbours are all configurations that differ in a single parameter. The incumbents join
the starts. Two things save most of the scoring: a step may take the best changes of several parameters at once, and
the lowest climbers are given up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.searches.combination import combined
from baco_like.searches.pool import Pool
from baco_like.searches.protocol import Score, Taken
from baco_like.searches.ranking import best_by_owner, best_rows, comparable, first_appearances
from baco_like.spaces.neighbourhood import hamming
from baco_like.spaces.space import Space

_LEAST = 3
"""So many climbers are never given up."""


@final
@dataclass(frozen=True)
class LocalSearch:
    """Hill climbing from many starts, each step to the best neighbour or to several improvements at once.

    Attributes:
        candidates: Uniform draws that are scored first.
        starts: How many of the best draws become starts, beside the incumbents.
        values: At most so many random values of one parameter are tried in a step.
        steps: At most so many steps; each start stops at its own optimum.
        kept: Share of the climbers, the highest, that go on after a step; 1 gives none up.
    """

    candidates: int = 2_500
    starts: int = 20
    values: int = 24
    steps: int = 100
    kept: float = 0.7

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, taken: Taken
    ) -> Codes:
        """Return the n best rows seen on the way that are not taken; optima that are taken are passed through."""
        rows = np.concatenate([start, space.feasible.sample(self.candidates, rng)])
        scores = comparable(score(rows))
        pool = Pool(n, rng, taken, space.width)
        pool.add(rows, scores)
        climbers, heights = self._starts(rows, scores, len(start), rng)
        for _ in range(self.steps):
            climbers, heights = self._step(score, space, climbers, heights, pool, rng)
            if not len(climbers):
                break
            most = max(_LEAST, math.ceil(self.kept * len(climbers)))
            climbers, heights = best_rows(climbers, heights, most, rng)
        return pool.rows

    def _starts(self, rows: Codes, scores: Array, given: int, rng: Rng) -> tuple[Codes, Array]:
        """Return the given rows, which come first, and the best of the others, all distinct."""
        drawn, heights = best_rows(rows[given:], scores[given:], 2 * self.starts, rng)
        climbers = np.concatenate([rows[:given], drawn])
        heights = np.concatenate([scores[:given], heights])
        chosen = first_appearances(climbers)
        chosen = chosen[: int((chosen < given).sum()) + self.starts]
        return climbers[chosen], heights[chosen]

    def _step(
        self, score: Score, space: Space, climbers: Codes, heights: Array, pool: Pool, rng: Rng
    ) -> tuple[Codes, Array]:
        """Return the climbers that could improve, where they are now."""
        near, owner = hamming(space, climbers, rng, limit=self.values)
        scores = comparable(score(near)) if len(near) else np.empty(0)
        pool.add(near, scores)
        better = np.flatnonzero(scores > heights[owner])
        near, owner, scores = near[better], owner[better], scores[better]
        if not len(near):
            return near, scores
        joint, whose = combined(space, climbers, near, owner, scores)
        if len(joint):
            reached = comparable(score(joint))
            pool.add(joint, reached)
            scores, near = np.concatenate([scores, reached]), np.concatenate([near, joint])
            order = np.argsort(np.concatenate([owner, whose]), kind="stable")
            near, owner, scores = near[order], np.concatenate([owner, whose])[order], scores[order]
        best = best_by_owner(owner, scores, rng)
        best = best[first_appearances(near[best])]
        return near[best], scores[best]
