"""A search finds where a score is highest. It needs no surrogate: a score is any callable over codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.spaces.space import Space

Score = Callable[[Codes], Array]
"""Maps codes ``(n, w)`` to scores ``(n,)``; higher is better."""

Taken = Callable[[Codes], Mask]
"""Says which rows may not be returned (observed or in flight)."""


class Search(Protocol):
    """A frozen recipe for maximising a score over the feasible set."""

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, taken: Taken
    ) -> Codes:
        """Return at most n distinct feasible rows that are not taken, best first, ``(<= n, w)``.

        Args:
            score: Higher is better.
            space: Where to look.
            n: How many rows are wanted.
            rng: Chance; nothing else is random.
            start: Rows to begin from besides random ones (the incumbents), ``(m, w)``.
            taken: Which rows may be passed through but not returned.
        """
