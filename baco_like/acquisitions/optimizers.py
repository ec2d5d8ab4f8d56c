"""Acquisition optimizers: score all feasible configurations, a sample, or changes of the best ones; or climb.

Scoring all is exact, and the fastest way where the feasible set is small. The local searches advance all starts
together as one array. BaCO (Hellsten et al., ASPLOS 2023, section 3.3) draws many configurations uniformly, starts from
the best of them, and moves to neighbours that differ in one parameter. Here the incumbents are starts too. Two changes
save most of the scoring: a step may take the best changes of several parameters at once, and the lowest climbers are
dropped.

In spaces with reals or wide integers, gradient ascent on these alternates with these steps of the other parameters.
Rows with equal scores are in random order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.functions import comparable
from baco_like.acquisitions.gradient import GradientAscent
from baco_like.acquisitions.protocol import IsExcluded, Score
from baco_like.spaces.neighbourhoods import Neighbours, RandomChanges, hamming
from baco_like.spaces.rows import drop_duplicates, find_first_rows
from baco_like.spaces.space import Space

_FEWEST_CLIMBERS = 3
"""This number of climbers is always kept."""

_MANY = 64
"""With more parameters than this, a step scores random changes instead of all neighbours."""

_DRAWN = 96
"""Number of random changes of a climber in a step."""

_STARTS_DRAWN = 500
"""Most uniform draws that are scored first: with many parameters, none is near the incumbents."""

_DUPLICATES = 4
"""Expected copies of each distinct row: several climbers may have reached it."""


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
    ) -> tuple[Codes, Array]:
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
        return best, highest


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
    ) -> tuple[Codes, Array]:
        """Return the n best rows of the sample that are not excluded; ``start`` is not used."""
        rows = drop_duplicates(space.feasible.spread(space.affordable(self.candidates), rng))
        return best_free_rows(rows, score(rows), n, rng, is_excluded)


@final
@dataclass(frozen=True)
class NearbySearch:
    """Scores random changes of the incumbents, and does not climb.

    With hundreds of parameters, a climb changes a hundred of them, as far as the model is wrong. On sizes by the flags
    of gcc a quarter of its ends were 5 % larger than the incumbent.

    Attributes:
        candidates: Number of changed rows.
        share: Mean share of the parameters that are changed, before the limit of twice as many.
        least: Least mean number of changes.
    """

    candidates: int = 300
    share: float = 0.04
    least: float = 3.0

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, is_excluded: IsExcluded
    ) -> tuple[Codes, Array]:
        """Return the n best of the changed rows that are not excluded; the first incumbents are changed most often.

        If none is left, the rows are uniform draws.
        """
        if len(start) and space.active:
            rows = self._draw(space, start, rng)
            rows, scores = best_free_rows(rows, score(rows), n, rng, is_excluded)
            if len(rows):
                return rows, scores
        return SampledSearch().maximise(score, space, n, rng, start, is_excluded)

    def _draw(self, space: Space, start: Codes, rng: Rng) -> Codes:
        place = rng.exponential(0.3 * len(start), self.candidates).astype(np.int64)
        rows = start[np.minimum(place, len(start) - 1)]
        mean = max(self.least, self.share * len(space.active))
        left = np.minimum(rng.geometric(1.0 / mean, self.candidates), round(2.0 * mean))
        draws = RandomChanges.of(space)
        while left.any():
            open_rows = np.flatnonzero(left)
            changed, owner = draws.draw(rows[open_rows], rng, 1)
            rows[open_rows[owner]] = changed
            left[open_rows] -= 1
        return drop_duplicates(rows)


@dataclass(frozen=True)
class LocalSearch:
    """Climbs from many starts, each step to the best neighbour or to several improvements at once.

    Attributes:
        candidates: Number of uniform draws that are scored first.
        starts: Number of the best draws that become starts, besides the incumbents.
        values: Number of random values of one parameter that are tried in a step at most.
        steps: Maximum number of steps; each start stops at its own optimum.
        kept: Share of the climbers, the highest, that continue after a step; 1 keeps all.
        gain: The search ends after a step that raises the highest score by less than this; with 0 it ends when no
            climber can improve.
        ascent: Climbs the reals and the wide integers before each step; None leaves them to the steps.
    """

    candidates: int = 1_500
    starts: int = 20
    values: int = 24
    steps: int = 100
    kept: float = 0.5
    gain: float = 0.0
    ascent: GradientAscent | None = None

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, is_excluded: IsExcluded
    ) -> tuple[Codes, Array]:
        """Return the n best scored rows that are not excluded; climbers may pass through excluded rows."""
        climbers = Climbers(score, space, n, rng, is_excluded)
        climbers.choose_starts(start, self.candidates, self.starts)
        highest = climbers.heights.max(initial=-math.inf)
        for number in range(self.steps):
            if self.ascent is not None:
                climbers.ascend(self.ascent)
            if self.ascent is not None or number:
                climbers.keep_highest(self.kept)
            if not climbers.step(self.values):
                break
            aim, highest = highest + self.gain, max(highest, climbers.heights.max())
            if highest < aim:
                break
        return climbers.best, climbers.best_scores


@final
@dataclass(frozen=True)
class AlternatingSearch(LocalSearch):
    """A `LocalSearch` that alternates with gradient ascent, for spaces with reals or wide integers.

    The ascent ends a climb that gains less than a thousandth of the acquisition function (scores are logarithms): a
    search of 14 mixed parameters, or of 12 reals with two constraints, takes 0.4 of the time that exact climbs take,
    and ends 0.01 lower.
    """

    candidates: int = 1_000
    starts: int = 12
    steps: int = 20
    kept: float = 0.7
    gain: float = 1e-3
    ascent: GradientAscent | None = field(
        default_factory=lambda: GradientAscent(steps=20, gain=1e-3)
    )


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
        best_scores: Their scores.
    """

    rows: Codes
    heights: Array

    def __init__(
        self, score: Score, space: Space, n: int, rng: Rng, is_excluded: IsExcluded
    ) -> None:
        self._score, self._space, self._rng = score, space, rng
        self._n, self._is_excluded = n, is_excluded
        self._changes = RandomChanges.of(space) if len(space.active) > _MANY else None
        self.best: Codes = np.empty((0, space.width))
        self.best_scores: Array = np.empty(0)

    def collect(self, rows: Codes, scores: Array) -> None:
        """Collect rows, ``(m, w)``, with their scores, ``(m,)``, if they are among the best."""
        n = self._n
        if n and len(self.best_scores) == n:  # only rows above the lowest collected score matter
            higher = scores > self.best_scores[-1]
            rows, scores = rows[higher], scores[higher]
        if not len(rows):
            return
        rows, scores = best_free_rows(rows, scores, _DUPLICATES * n, self._rng, self._is_excluded)
        rows = np.concatenate([self.best, rows])
        scores = np.concatenate([self.best_scores, scores])
        first = find_first_rows(rows)
        self.best, self.best_scores = best_rows(rows[first], scores[first], n, self._rng)

    def choose_starts(self, given: Codes, draws: int, count: int) -> None:
        """Start from the given rows and from the ``count`` best of ``draws`` uniform draws, all distinct."""
        draws = draws if self._changes is None else min(draws, _STARTS_DRAWN)
        drawn = self._space.feasible.spread(self._space.affordable(draws), self._rng)
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

    def ascend(self, ascent: GradientAscent) -> None:
        """Climb the reals and the wide integers, and collect the ends."""
        self.rows, self.heights = ascent.climb(
            self._score, self._space, self.rows, self.heights, self._rng
        )
        self.collect(self.rows, self.heights)

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
        if self._changes is None:
            rows, owner = hamming(self._space, self.rows, self._rng, limit=values)
        else:
            rows, owner = self._changes.draw(self.rows, self._rng, _DRAWN)
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
    joint = space.activity.at_rest(joint)
    is_feasible = space.feasible.contains(joint)
    return joint[is_feasible], owner[is_feasible]


_FIRST_CHECKED = 32
"""Rows that are checked for exclusion first; checking all candidates would take longer than scoring them."""

_GROWTH = 8
"""Factor by which the number of checked rows grows while too few of them are free."""


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
    """Return the n rows with the highest scores among those that are not excluded, like `best_rows`."""
    free = best_free_indices(rows, scores, n, rng, is_excluded)
    return rows[free], scores[free]


def best_free_indices(
    rows: Codes, scores: Array, n: int, rng: Rng, is_excluded: IsExcluded
) -> Ints:
    """Return the indices of the rows that `best_free_rows` returns.

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
    return free[:n]


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
    start = find_run_starts(owner)
    length = np.diff(start, append=len(owner))
    tied = np.flatnonzero(low == np.repeat(np.maximum.reduceat(low, start), length))
    tied = rng.permutation(tied)
    _, first = np.unique(owner[tied], return_index=True)
    return tied[first]


def find_run_starts(increasing: Ints) -> Ints:
    """Return the index at which each run of equal numbers begins."""
    return np.flatnonzero(np.diff(increasing, prepend=increasing[:1] - 1))


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
