"""Score a random sample: the first stage of a local search, and a search by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from baco_like._typing import Codes, Rng
from baco_like.acquisitions.optimizers.protocol import Score, Taken
from baco_like.acquisitions.optimizers.ranking import best_free_rows
from baco_like.spaces.rows import distinct
from baco_like.spaces.space import Space


@final
@dataclass(frozen=True)
class SampledSearch:
    """Scores uniform draws from the feasible set.

    Attributes:
        candidates: How many are drawn.
    """

    candidates: int = 10_000

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, taken: Taken
    ) -> Codes:
        """Return the n best rows of the sample that are not taken; ``start`` has no influence."""
        rows = distinct(space.feasible.sample(space.affordable(self.candidates), rng))
        return best_free_rows(rows, score(rows), n, rng, taken)[0]
