"""Steps of optimizers that climb from many starts at once: choose the starts, move to better neighbours."""

from __future__ import annotations

import math

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.optimizers.best_rows import (
    BestPool,
    best_by_owner,
    best_rows,
    comparable,
)
from baco_like.acquisitions.protocol import Score
from baco_like.spaces.neighbourhoods import Neighbours, hamming
from baco_like.spaces.rows import find_first_rows
from baco_like.spaces.space import Space

_FEWEST_CLIMBERS = 3
"""This number of climbers is always kept."""


def choose_starts(
    score: Score, space: Space, draws: int, start: Codes, count: int, pool: BestPool, rng: Rng
) -> tuple[Codes, Array]:
    """Return the start rows and the ``count`` best of ``draws`` uniform draws, all distinct, with their scores.

    The pool receives all scored rows.
    """
    rows = np.concatenate([start, space.feasible.sample(space.affordable(draws), rng)])
    scores = comparable(score(rows))
    pool.add(rows, scores)
    given = len(start)
    # Twice the count, because draws may repeat each other or a start row.
    drawn, heights = best_rows(rows[given:], scores[given:], 2 * count, rng)
    climbers = np.concatenate([rows[:given], drawn])
    heights = np.concatenate([scores[:given], heights])
    first = find_first_rows(climbers)
    first = first[: int((first < given).sum()) + count]
    return climbers[first], heights[first]


def keep_highest(climbers: Codes, heights: Array, share: float, rng: Rng) -> tuple[Codes, Array]:
    """Return a share of the climbers, the highest ones, but at least `_FEWEST_CLIMBERS`."""
    most = max(_FEWEST_CLIMBERS, math.ceil(share * len(climbers)))
    return best_rows(climbers, heights, most, rng)


def step_to_neighbours(
    score: Score,
    space: Space,
    climbers: Codes,
    heights: Array,
    pool: BestPool,
    rng: Rng,
    values: int,
) -> tuple[Codes, Array]:
    """Move each climber to its best neighbour or to a combination of several better ones.

    Args:
        score: Higher is better.
        space: The space to search.
        climbers: Feasible rows, ``(n, w)``.
        heights: Their scores, ``(n,)``.
        pool: Receives all scored rows.
        rng: Random generator.
        values: Number of random values of one parameter that are tried at most.

    Returns:
        The climbers that could improve, at their new rows, and the scores there; the others are dropped.
    """
    near, owner = hamming(space, climbers, rng, limit=values)
    scores = comparable(score(near)) if len(near) else np.empty(0)
    pool.add(near, scores)
    better = np.flatnonzero(scores > heights[owner])
    near, owner, scores = near[better], owner[better], scores[better]
    if not len(near):
        return near, scores
    joint, joint_owner = combine_changes(space, climbers, near, owner, scores)
    if len(joint):
        joint_scores = comparable(score(joint))
        pool.add(joint, joint_scores)
        owner = np.concatenate([owner, joint_owner])
        order = np.argsort(owner, kind="stable")
        near, owner = np.concatenate([near, joint])[order], owner[order]
        scores = np.concatenate([scores, joint_scores])[order]
    best = best_by_owner(owner, scores, rng)
    best = best[find_first_rows(near[best])]
    return near[best], scores[best]


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
    best = order[_run_starts(group[order])]  # the best change for every row and parameter
    best = best[np.lexsort((-scores[best], owner[best]))]
    change, owner = change[best], owner[best]
    start = _run_starts(owner)
    length = np.diff(start, append=len(owner))
    total = np.cumsum(change, axis=0)
    total -= np.repeat(total[start] - change[start], length, axis=0)
    several = np.ones(len(owner), dtype=np.bool_)
    several[start] = False
    joint, owner = rows[owner[several]] + total[several], owner[several]
    is_feasible = space.feasible.contains(joint)
    return joint[is_feasible], owner[is_feasible]


def _run_starts(increasing: Ints) -> Ints:
    """Return the index at which each run of equal numbers begins."""
    return np.flatnonzero(np.diff(increasing, prepend=increasing[:1] - 1))
