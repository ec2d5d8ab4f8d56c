"""The best rows that a search has seen so far."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.optimizers.protocol import Taken
from baco_like.acquisitions.optimizers.ranking import best_free_rows, best_rows
from baco_like.spaces.rows import first_appearances

_REACHED_TWICE = 4
"""Equal rows that are counted on for each distinct one: several climbers may have reached it."""


class Pool:
    """The n best distinct rows so far that are not taken, best first."""

    def __init__(self, n: int, rng: Rng, taken: Taken, width: int) -> None:
        self._n, self._rng, self._taken = n, rng, taken
        self.rows: Codes = np.empty((0, width))
        self._scores: Array = np.empty(0)

    def add(self, rows: Codes, scores: Array) -> None:
        """Consider more rows, ``(m, w)``, with their scores, ``(m,)``."""
        if self._n and len(self._scores) == self._n:  # only what is above the lowest can matter
            higher = scores > self._scores[-1]
            rows, scores = rows[higher], scores[higher]
        if not len(rows):
            return
        more = _REACHED_TWICE * self._n
        rows, scores = best_free_rows(rows, scores, more, self._rng, self._taken)
        rows = np.concatenate([self.rows, rows])
        scores = np.concatenate([self._scores, scores])
        first = first_appearances(rows)
        self.rows, self._scores = best_rows(rows[first], scores[first], self._n, self._rng)
