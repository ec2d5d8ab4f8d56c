"""Multi-start search of mixed spaces: gradient ascent on the reals, then a step of everything else, in turn.

All starts are advanced together. The steps are those of the local search: one parameter changes, or several that
improve alone. A start stops where no such step leads on from the optimum of its reals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

from baco_like._typing import Codes, Rng
from baco_like.acquisitions.optimizers.climbing import scored_starts, stepped
from baco_like.acquisitions.optimizers.gradient import GradientAscent
from baco_like.acquisitions.optimizers.pool import Pool
from baco_like.acquisitions.optimizers.protocol import Score, Taken
from baco_like.acquisitions.optimizers.ranking import best_rows
from baco_like.spaces.space import Space

_LEAST = 3
"""So many climbers are never given up."""


@final
@dataclass(frozen=True)
class AlternatingSearch:
    """Alternates between gradient ascent on the reals and steps that change one or several parameters.

    In a space without reals it is a `LocalSearch`.

    Attributes:
        ascent: How the reals are climbed.
        candidates: Uniform draws that are scored first.
        starts: How many of the best draws become starts, beside the incumbents.
        values: At most so many random values of one parameter are tried in a step.
        rounds: At most so many turns.
        kept: Share of the climbers, the highest, that go on after a turn; 1 gives none up.
    """

    ascent: GradientAscent = field(default_factory=GradientAscent)
    candidates: int = 1_000
    starts: int = 12
    values: int = 24
    rounds: int = 20
    kept: float = 0.7

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, taken: Taken
    ) -> Codes:
        """Return the n best rows among those drawn, stepped to, or reached by an ascent that are not taken."""
        pool = Pool(n, rng, taken, space.width)
        climbers, heights = scored_starts(
            score, space, self.candidates, start, self.starts, pool, rng
        )
        for _ in range(self.rounds):
            climbers, heights = self.ascent.climb(score, space, climbers, heights, rng)
            pool.add(climbers, heights)
            most = max(_LEAST, math.ceil(self.kept * len(climbers)))
            climbers, heights = best_rows(climbers, heights, most, rng)
            climbers, heights = stepped(score, space, climbers, heights, pool, rng, self.values)
            if not len(climbers):
                break
        return pool.rows
