"""Select rows by score; ties are broken at random."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.optimizers.protocol import IsExcluded
from baco_like.spaces.rows import find_first_rows

_FIRST_CHECKED = 32
"""Rows that are checked for exclusion first; checking all candidates would take longer than scoring them."""

_GROWTH = 8
"""Factor by which the number of checked rows grows while too few of them are free."""

_DUPLICATES = 4
"""Expected copies of each distinct row: several climbers may have reached it."""


def comparable(scores: Array) -> Array:
    """Return the scores with NaN replaced by -inf."""
    return np.where(np.isnan(scores), -np.inf, scores)


def best_rows(rows: Codes, scores: Array, n: int, rng: Rng) -> tuple[Codes, Array]:
    """Return the n rows with the highest scores, best first, and these scores.

    Equal scores are ordered at random: early in a run a model cannot distinguish most configurations, and the order
    of the feasible set must not decide. NaN counts as the lowest score.
    """
    best = _highest(comparable(scores), n, rng)
    return rows[best], scores[best]


def best_free_rows(
    rows: Codes, scores: Array, n: int, rng: Rng, is_excluded: IsExcluded
) -> tuple[Codes, Array]:
    """Return the n rows with the highest scores among those that are not excluded, like `best_rows`.

    Rows are checked for exclusion in the order of their scores until n free rows are known, usually far fewer than all.
    """
    low = comparable(scores)
    free = np.empty(0, dtype=np.int64)
    unchecked = np.arange(len(rows))
    checked = max(_FIRST_CHECKED, 2 * n)
    while len(unchecked) and len(free) < n:
        ahead = _highest(low[unchecked], checked, rng)
        best = unchecked[ahead]
        free = np.concatenate([free, best[~is_excluded(rows[best])]])
        unchecked = np.delete(unchecked, ahead) if len(free) < n else unchecked
        checked *= _GROWTH
    free = free[:n]
    return rows[free], scores[free]


def best_by_owner(owner: Ints, scores: Array, rng: Rng) -> Ints:
    """Return for each owner the index of its highest score, in the order of the owners.

    Args:
        owner: Increasing, ``(n,)``.
        scores: ``(n,)``.
        rng: Decides between equal scores.
    """
    low = comparable(scores)
    if not len(owner):
        return owner
    start = np.flatnonzero(np.diff(owner, prepend=-1))
    length = np.diff(start, append=len(owner))
    tied = np.flatnonzero(low == np.repeat(np.maximum.reduceat(low, start), length))
    tied = rng.permutation(tied)
    _, first = np.unique(owner[tied], return_index=True)
    return tied[first]


def _highest(low: Array, n: int, rng: Rng) -> Ints:
    """Return the indices of the n highest numbers, highest first, ties at random; only the selected ones are sorted."""
    chosen = np.arange(len(low) if n else 0)
    if 0 < n < len(low):
        least = np.partition(low, len(low) - n)[len(low) - n]
        above, tied = np.flatnonzero(low > least), np.flatnonzero(low == least)
        if len(above) + len(tied) > n:
            tied = rng.choice(tied, n - len(above), replace=False)
        chosen = np.concatenate([above, tied])
    order: Ints = chosen[np.lexsort((rng.random(len(chosen)), -low[chosen]))]
    return order


class BestPool:
    """Collects the n best distinct rows that are not excluded, best first.

    Args:
        n: Number of rows to keep.
        rng: Breaks ties.
        is_excluded: Rows that are never kept.
        width: Number of code columns.
    """

    def __init__(self, n: int, rng: Rng, is_excluded: IsExcluded, width: int) -> None:
        self._n, self._rng, self._is_excluded = n, rng, is_excluded
        self.rows: Codes = np.empty((0, width))
        self._scores: Array = np.empty(0)

    def add(self, rows: Codes, scores: Array) -> None:
        """Add candidates, ``(m, w)``, with their scores, ``(m,)``."""
        if self._n and len(self._scores) == self._n:  # only rows above the lowest kept score matter
            higher = scores > self._scores[-1]
            rows, scores = rows[higher], scores[higher]
        if not len(rows):
            return
        rows, scores = best_free_rows(
            rows, scores, _DUPLICATES * self._n, self._rng, self._is_excluded
        )
        rows = np.concatenate([self.rows, rows])
        scores = np.concatenate([self._scores, scores])
        first = find_first_rows(rows)
        self.rows, self._scores = best_rows(rows[first], scores[first], self._n, self._rng)
