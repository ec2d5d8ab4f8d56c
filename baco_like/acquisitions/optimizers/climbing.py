"""Climb from many starts at once: choose the starts, move to better neighbours, collect the best rows."""

from __future__ import annotations

import math

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.optimizers.best_rows import (
    best_by_owner,
    best_free_rows,
    best_rows,
    comparable,
    find_run_starts,
)
from baco_like.acquisitions.protocol import IsExcluded, Score
from baco_like.spaces.neighbourhoods import Neighbours, hamming
from baco_like.spaces.rows import find_first_rows
from baco_like.spaces.space import Space

_FEWEST_CLIMBERS = 3
"""This number of climbers is always kept."""

_DUPLICATES = 4
"""Expected copies of each distinct row: several climbers may have reached it."""


class Climbers:
    """Rows that climb together; collects the n best distinct rows on the way that are not excluded.

    Args:
        score: Higher is better.
        space: The space to search.
        n: Number of rows to collect.
        rng: Random generator.
        is_excluded: Rows that are never collected; climbers may pass through them.

    Attributes:
        rows: The climbers, ``(m, w)``.
        heights: Their scores, ``(m,)``.
        best: The collected rows, best first.
    """

    rows: Codes
    heights: Array

    def __init__(
        self, score: Score, space: Space, n: int, rng: Rng, is_excluded: IsExcluded
    ) -> None:
        self._score, self._space, self._rng = score, space, rng
        self._n, self._is_excluded = n, is_excluded
        self.best: Codes = np.empty((0, space.width))
        self._best_scores: Array = np.empty(0)

    def collect(self, rows: Codes, scores: Array) -> None:
        """Collect rows, ``(m, w)``, with their scores, ``(m,)``, if they are among the best."""
        n = self._n
        if n and len(self._best_scores) == n:  # only rows above the lowest collected score matter
            higher = scores > self._best_scores[-1]
            rows, scores = rows[higher], scores[higher]
        if not len(rows):
            return
        rows, scores = best_free_rows(rows, scores, _DUPLICATES * n, self._rng, self._is_excluded)
        rows = np.concatenate([self.best, rows])
        scores = np.concatenate([self._best_scores, scores])
        first = find_first_rows(rows)
        self.best, self._best_scores = best_rows(rows[first], scores[first], n, self._rng)

    def choose_starts(self, given: Codes, draws: int, count: int) -> None:
        """Start from the given rows and from the ``count`` best of ``draws`` uniform draws, all distinct."""
        drawn = self._space.feasible.sample(self._space.affordable(draws), self._rng)
        rows = np.concatenate([given, drawn])
        scores = self._scores_of(rows)
        split = len(given)
        # Twice the count, because draws may repeat each other or a given row.
        drawn, heights = best_rows(rows[split:], scores[split:], 2 * count, self._rng)
        rows = np.concatenate([given, drawn])
        heights = np.concatenate([scores[:split], heights])
        first = find_first_rows(rows)
        first = first[: int((first < split).sum()) + count]
        self.rows, self.heights = rows[first], heights[first]

    def keep_highest(self, share: float) -> None:
        """Keep a share of the climbers, the highest ones, but at least `_FEWEST_CLIMBERS`."""
        most = max(_FEWEST_CLIMBERS, math.ceil(share * len(self.rows)))
        self.rows, self.heights = best_rows(self.rows, self.heights, most, self._rng)

    def step(self, values: int) -> bool:
        """Move each climber to its best neighbour or to a combination of several better ones; drop the others.

        Args:
            values: Number of random values of one parameter that are tried at most.

        Returns:
            Whether any climber could improve.
        """
        rows, owner = hamming(self._space, self.rows, self._rng, limit=values)
        scores = self._scores_of(rows)
        better = np.flatnonzero(scores > self.heights[owner])
        rows, owner, scores = rows[better], owner[better], scores[better]
        if not len(rows):
            return False
        joint, joint_owner = combine_changes(self._space, self.rows, rows, owner, scores)
        if len(joint):
            owner = np.concatenate([owner, joint_owner])
            order = np.argsort(owner, kind="stable")
            rows, owner = np.concatenate([rows, joint])[order], owner[order]
            scores = np.concatenate([scores, self._scores_of(joint)])[order]
        best = best_by_owner(owner, scores, self._rng)
        best = best[find_first_rows(rows[best])]
        self.rows, self.heights = rows[best], scores[best]
        return True

    def _scores_of(self, rows: Codes) -> Array:
        """Return the scores of rows, and collect the best of them."""
        scores = comparable(self._score(rows)) if len(rows) else np.empty(0)
        self.collect(rows, scores)
        return scores


def combine_changes(
    space: Space, rows: Codes, better: Codes, owner: Ints, scores: Array
) -> Neighbours:
    """Apply the best change of two, three, ... parameters at once and return the feasible results.

    Without this, parameters that do not interact would be improved one per step.

    Args:
        space: The space.
        rows: Feasible rows, ``(n, w)``.
        better: Rows that differ from one of ``rows`` in one parameter and score higher, ``(m, w)``, at least one.
        owner: Index of that row, ``(m,)``.
        scores: Scores of ``better``, ``(m,)``.

    Returns:
        Rows and the index of the row that each belongs to, increasing. A result with ``k`` changes has the k changes
        that score highest alone.
    """
    change = better - rows[owner]
    widths = [columns.stop - columns.start for columns in space.columns.values()]
    column_parameter = np.repeat(np.arange(len(widths)), widths)
    parameter = column_parameter[np.argmax(change != 0, axis=1)]
    group = owner * len(space.columns) + parameter
    order = np.lexsort((-scores, group))
    best = order[find_run_starts(group[order])]  # the best change for every row and parameter
    best = best[np.lexsort((-scores[best], owner[best]))]
    change, owner = change[best], owner[best]
    start = find_run_starts(owner)
    length = np.diff(start, append=len(owner))
    total = np.cumsum(change, axis=0)
    total -= np.repeat(total[start] - change[start], length, axis=0)
    several = np.ones(len(owner), dtype=np.bool_)
    several[start] = False
    joint, owner = rows[owner[several]] + total[several], owner[several]
    is_feasible = space.feasible.contains(joint)
    return joint[is_feasible], owner[is_feasible]
