"""Select rows by score; ties are broken at random."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.protocol import IsExcluded

_FIRST_CHECKED = 32
"""Rows that are checked for exclusion first; checking all candidates would take longer than scoring them."""

_GROWTH = 8
"""Factor by which the number of checked rows grows while too few of them are free."""


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
