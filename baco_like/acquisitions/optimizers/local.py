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

from baco_like._typing import Codes, Rng
from baco_like.acquisitions.optimizers.climbing import scored_starts, stepped
from baco_like.acquisitions.optimizers.pool import Pool
from baco_like.acquisitions.optimizers.protocol import Score, Taken
from baco_like.acquisitions.optimizers.ranking import best_rows
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

    candidates: int = 1_500
    starts: int = 20
    values: int = 24
    steps: int = 100
    kept: float = 0.5

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, taken: Taken
    ) -> Codes:
        """Return the n best rows seen on the way that are not taken; optima that are taken are passed through."""
        pool = Pool(n, rng, taken, space.width)
        climbers, heights = scored_starts(
            score, space, self.candidates, start, self.starts, pool, rng
        )
        for _ in range(self.steps):
            climbers, heights = stepped(score, space, climbers, heights, pool, rng, self.values)
            if not len(climbers):
                break
            most = max(_LEAST, math.ceil(self.kept * len(climbers)))
            climbers, heights = best_rows(climbers, heights, most, rng)
        return pool.rows
