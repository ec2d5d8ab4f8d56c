"""Acquisition optimizers: score all feasible configurations, score a sample, or climb from many starts.

Scoring all is exact, and the fastest way where the feasible set is small. The local searches advance all starts
together as one array. BaCO (Hellsten et al., ASPLOS 2023, section 3.3) draws many configurations uniformly, starts from
the best of them, and moves to neighbours that differ in one parameter. Here the incumbents are starts too. Two changes
save most of the scoring: a step may take the best changes of several parameters at once, and the lowest climbers are
dropped.

In spaces with reals, gradient ascent on the reals alternates with these steps of the other parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.acquisitions.optimizers.best_rows import best_free_rows, best_rows
from baco_like.acquisitions.optimizers.climbing import Climbers
from baco_like.acquisitions.optimizers.gradient import GradientAscent
from baco_like.acquisitions.protocol import IsExcluded, Score
from baco_like.spaces.rows import drop_duplicates
from baco_like.spaces.space import Space


@final
@dataclass(frozen=True)
class ExhaustiveSearch:
    """Scores every feasible configuration.

    Attributes:
        chunk: Rows scored at once.
    """

    chunk: int = 16384

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, is_excluded: IsExcluded
    ) -> Codes:
        """Return the n best rows that are not excluded; ``start`` is not used.

        Raises:
            SpaceError: The feasible configurations cannot be listed.
        """
        best, highest = np.empty((0, space.width)), np.empty(0)
        for rows in space.feasible.iterate(self.chunk):
            rows, scores = best_free_rows(rows, score(rows), n, rng, is_excluded)
            best, highest = best_rows(
                np.concatenate([best, rows]), np.concatenate([highest, scores]), n, rng
            )
        return best


@final
@dataclass(frozen=True)
class SampledSearch:
    """Scores uniform draws from the feasible set.

    Attributes:
        candidates: Number of draws.
    """

    candidates: int = 10_000

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, is_excluded: IsExcluded
    ) -> Codes:
        """Return the n best rows of the sample that are not excluded; ``start`` is not used."""
        rows = drop_duplicates(space.feasible.sample(space.affordable(self.candidates), rng))
        return best_free_rows(rows, score(rows), n, rng, is_excluded)[0]


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
        climbers = Climbers(score, space, n, rng, is_excluded)
        climbers.choose_starts(start, self.candidates, self.starts)
        for _ in range(self.steps):
            if not climbers.step(self.values):
                break
            climbers.keep_highest(self.kept)
        return climbers.best


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
        climbers = Climbers(score, space, n, rng, is_excluded)
        climbers.choose_starts(start, self.candidates, self.starts)
        for _ in range(self.rounds):
            ends, heights = self.ascent.climb(score, space, climbers.rows, climbers.heights, rng)
            climbers.rows, climbers.heights = ends, heights
            climbers.collect(ends, heights)
            climbers.keep_highest(self.kept)
            if not climbers.step(self.values):
                break
        return climbers.best
