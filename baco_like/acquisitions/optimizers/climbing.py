"""The parts that searches which climb from many starts have in common."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.optimizers.combination import combined
from baco_like.acquisitions.optimizers.pool import Pool
from baco_like.acquisitions.optimizers.protocol import Score
from baco_like.acquisitions.optimizers.ranking import best_by_owner, best_rows, comparable
from baco_like.spaces.neighbourhood import hamming
from baco_like.spaces.rows import first_appearances
from baco_like.spaces.space import Space


def scored_starts(
    score: Score, space: Space, draws: int, start: Codes, starts: int, pool: Pool, rng: Rng
) -> tuple[Codes, Array]:
    """Return the start rows and the best of uniform draws, with their scores; the pool gets all that is scored."""
    rows = np.concatenate([start, space.feasible.sample(space.affordable(draws), rng)])
    scores = comparable(score(rows))
    pool.add(rows, scores)
    return chosen_starts(rows, scores, len(start), starts, rng)


def chosen_starts(
    rows: Codes, scores: Array, given: int, count: int, rng: Rng
) -> tuple[Codes, Array]:
    """Return the first ``given`` rows and the ``count`` best of the others, all distinct, with their scores."""
    drawn, heights = best_rows(rows[given:], scores[given:], 2 * count, rng)
    climbers = np.concatenate([rows[:given], drawn])
    heights = np.concatenate([scores[:given], heights])
    chosen = first_appearances(climbers)
    chosen = chosen[: int((chosen < given).sum()) + count]
    return climbers[chosen], heights[chosen]


def stepped(
    score: Score,
    space: Space,
    climbers: Codes,
    heights: Array,
    pool: Pool,
    rng: Rng,
    values: int,
) -> tuple[Codes, Array]:
    """Return the climbers that could improve, where they are then: at the best neighbour or combination of several.

    Args:
        score: Higher is better.
        space: Where.
        climbers: Feasible rows, ``(n, w)``.
        heights: Their scores, ``(n,)``.
        pool: Gets everything that is scored.
        rng: Chance.
        values: At most so many random values of one parameter are tried.
    """
    near, owner = hamming(space, climbers, rng, limit=values)
    scores = comparable(score(near)) if len(near) else np.empty(0)
    pool.add(near, scores)
    better = np.flatnonzero(scores > heights[owner])
    near, owner, scores = near[better], owner[better], scores[better]
    if not len(near):
        return near, scores
    joint, whose = combined(space, climbers, near, owner, scores)
    if len(joint):
        reached = comparable(score(joint))
        pool.add(joint, reached)
        owner = np.concatenate([owner, whose])
        order = np.argsort(owner, kind="stable")
        near, owner = np.concatenate([near, joint])[order], owner[order]
        scores = np.concatenate([scores, reached])[order]
    best = best_by_owner(owner, scores, rng)
    best = best[first_appearances(near[best])]
    return near[best], scores[best]
