"""Multi-start search of mixed spaces: gradient ascent on the reals alternates with steps of the other parameters.

All starts advance together. The discrete steps are those of `LocalSearch`. A start stops where no discrete step
improves on the optimum of its reals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from baco_like._typing import Codes, Rng
from baco_like.acquisitions.optimizers.best_rows import BestPool
from baco_like.acquisitions.optimizers.climbing import (
    choose_starts,
    keep_highest,
    step_to_neighbours,
)
from baco_like.acquisitions.optimizers.gradient import GradientAscent
from baco_like.acquisitions.optimizers.protocol import IsExcluded
from baco_like.acquisitions.protocol import Score
from baco_like.spaces.space import Space


@final
@dataclass(frozen=True)
class AlternatingSearch:
    """Alternates between gradient ascent on the reals and steps that change one or several parameters.

    In a space without reals it works like `LocalSearch`.

    Attributes:
        ascent: Climbs the reals.
        candidates: Number of uniform draws that are scored first.
        starts: Number of the best draws that become starts, besides the incumbents.
        values: Number of random values of one parameter that are tried in a step at most.
        rounds: Maximum number of rounds.
        kept: Share of the climbers, the highest, that continue after an ascent; 1 keeps all.
    """

    ascent: GradientAscent = field(default_factory=GradientAscent)
    candidates: int = 1_000
    starts: int = 12
    values: int = 24
    rounds: int = 20
    kept: float = 0.7

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, is_excluded: IsExcluded
    ) -> Codes:
        """Return the n best rows that are not excluded, of the draws, the steps and the ends of the ascents."""
        pool = BestPool(n, rng, is_excluded, space.width)
        climbers, heights = choose_starts(
            score, space, self.candidates, start, self.starts, pool, rng
        )
        for _ in range(self.rounds):
            climbers, heights = self.ascent.climb(score, space, climbers, heights, rng)
            pool.add(climbers, heights)
            climbers, heights = keep_highest(climbers, heights, self.kept, rng)
            climbers, heights = step_to_neighbours(
                score, space, climbers, heights, pool, rng, self.values
            )
            if not len(climbers):
                break
        return pool.rows
