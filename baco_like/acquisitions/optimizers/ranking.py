"""Choosing rows by score, ties broken by chance."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.optimizers.protocol import Taken

_LOOK = 32
"""So many rows are looked up at once when the best free ones are wanted."""

_FURTHER = 8
"""Where too few of them are free, so many times as many are looked up next."""


def best_rows(rows: Codes, scores: Array, n: int, rng: Rng) -> tuple[Codes, Array]:
    """Return the n rows with the highest scores, best first, and these scores.

    Equal scores are ordered by chance: early in a run a model cannot tell most of a space apart, and the order of
    the feasible set must not decide. NaN counts as the lowest score.
    """
    best = _best(comparable(scores), n, rng)
    return rows[best], scores[best]


def best_free_rows(
    rows: Codes, scores: Array, n: int, rng: Rng, taken: Taken
) -> tuple[Codes, Array]:
    """Return the n rows with the highest scores among those that are not taken, as `best_rows` does.

    Rows are looked up in the order of their scores until there are n: far fewer than all, as a rule.
    """
    low = comparable(scores)
    found = np.empty(0, dtype=np.int64)
    left = np.arange(len(rows))
    look = max(_LOOK, 2 * n)
    while len(left) and len(found) < n:
        ahead = _best(low[left], look, rng)
        best = left[ahead]
        found = np.concatenate([found, best[~taken(rows[best])]])
        left = np.delete(left, ahead) if len(found) < n else left
        look *= _FURTHER
    found = found[:n]
    return rows[found], scores[found]


def best_by_owner(owner: Ints, scores: Array, rng: Rng) -> Ints:
    """Return for each owner the index of its highest score, in the order of the owners.

    Args:
        owner: Increasing, ``(n,)``.
        scores: ``(n,)``.
        rng: Chance, which decides between equal scores.
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


def comparable(scores: Array) -> Array:
    """Return the scores with NaN as the lowest of all."""
    return np.where(np.isnan(scores), -np.inf, scores)


def _best(low: Array, n: int, rng: Rng) -> Ints:
    """Return the indices of the n highest numbers, highest first; which of the equal ones, and their order, is chance.

    Only what is chosen is sorted.
    """
    chosen = np.arange(len(low) if n else 0)
    if 0 < n < len(low):
        least = np.partition(low, len(low) - n)[len(low) - n]
        above, tied = np.flatnonzero(low > least), np.flatnonzero(low == least)
        if len(above) + len(tied) > n:
            tied = rng.choice(tied, n - len(above), replace=False)
        chosen = np.concatenate([above, tied])
    order: Ints = chosen[np.lexsort((rng.random(len(chosen)), -low[chosen]))]
    return order
