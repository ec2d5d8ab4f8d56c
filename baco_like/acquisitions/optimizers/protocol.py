"""The contract of acquisition optimizers: they find the configurations with the highest scores.

They need no surrogate: a score is any callable over codes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from baco_like._typing import Codes, Mask, Rng
from baco_like.acquisitions.protocol import Score
from baco_like.spaces.space import Space

IsExcluded = Callable[[Codes], Mask]
"""Says which rows may not be returned because they are observed or pending, ``(n, w)`` -> ``(n,)``."""


class AcquisitionOptimizer(Protocol):
    """Maximises a score over the feasible set; a frozen recipe."""

    def maximise(
        self,
        score: Score,
        space: Space,
        n: int,
        rng: Rng,
        start: Codes,
        is_excluded: IsExcluded,
    ) -> Codes:
        """Return at most n distinct feasible rows that are not excluded, best first, ``(<= n, w)``.

        Args:
            score: Maps codes ``(m, w)`` to scores ``(m,)``; higher is better, NaN counts as the lowest score. It is
                called with feasible rows only.
            space: The space to search.
            n: Number of requested rows.
            rng: Random generator; the only source of randomness.
            start: Feasible rows to start from besides random ones (the incumbents), ``(m, w)``.
            is_excluded: Rows that may be passed through but not returned.
        """
