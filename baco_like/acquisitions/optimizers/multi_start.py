"""Multi-start searches in which all starts advance together as one array.

BaCO (Hellsten et al., ASPLOS 2023, section 3.3) draws many configurations uniformly, starts from the best of them, and
moves to neighbours that differ in one parameter. Here the incumbents are starts too. Two changes save most of the
scoring: a step may take the best changes of several parameters at once, and the lowest climbers are dropped.

In spaces with reals, gradient ascent on the reals alternates with these steps of the other parameters.
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
class LocalSearch:
    """Climbs from many starts, each step to the best neighbour or to several improvements at once.

    Attributes:
        candidates: Number of uniform draws that are scored first.
        starts: Number of the best draws that become starts, besides the incumbents.
        values: Number of random values of one parameter that are tried in a step at most.
        steps: Maximum number of steps; each start stops at its own optimum.
        kept: Share of the climbers, the highest, that continue after a step; 1 keeps all.
    """

    candidates: int = 1_500
    starts: int = 20
    values: int = 24
    steps: int = 100
    kept: float = 0.5

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, is_excluded: IsExcluded
    ) -> Codes:
        """Return the n best scored rows that are not excluded; climbers may pass through excluded rows."""
        pool = BestPool(n, rng, is_excluded, space.width)
        climbers, heights = choose_starts(
            score, space, self.candidates, start, self.starts, pool, rng
        )
        for _ in range(self.steps):
            climbers, heights = step_to_neighbours(
                score, space, climbers, heights, pool, rng, self.values
            )
            if not len(climbers):
                break
            climbers, heights = keep_highest(climbers, heights, self.kept, rng)
        return pool.rows


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
