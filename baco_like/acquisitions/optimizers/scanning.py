"""Score a list of configurations: all feasible ones, or a random sample.

Scoring all is exact, and the fastest way where the feasible set is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.acquisitions.optimizers.best_rows import best_free_rows, best_rows
from baco_like.acquisitions.optimizers.protocol import IsExcluded
from baco_like.acquisitions.protocol import Score
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
