"""Choosing rows by score, ties broken by chance."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.searches.protocol import Taken

_LOOK = 32
"""So many rows are looked up at once when the best free ones are wanted."""


def best_rows(rows: Codes, scores: Array, n: int, rng: Rng) -> tuple[Codes, Array]:
    """Return the n rows with the highest scores, best first, and these scores.

    Equal scores are ordered by chance: early in a run a model cannot tell most of a space apart, and the order of
    the feasible set must not decide. NaN counts as the lowest score.
    """
    order = _order(scores, rng)[:n]
    return rows[order], scores[order]


def best_free_rows(
    rows: Codes, scores: Array, n: int, rng: Rng, taken: Taken
) -> tuple[Codes, Array]:
    """Return the n rows with the highest scores among those that are not taken, as `best_rows` does.

    Rows are looked up in the order of their scores until there are n: far fewer than all, as a rule.
    """
    order = _order(scores, rng)
    found = np.empty(0, dtype=np.int64)
    look = max(_LOOK, 2 * n)
    for at in range(0, len(order), look):
        ahead = order[at : at + look]
        found = np.concatenate([found, ahead[~taken(rows[ahead])]])
        if len(found) >= n:
            break
    found = found[:n]
    return rows[found], scores[found]


def distinct(rows: Codes) -> Codes:
    """Return the rows without repetition, in the order of their first appearance."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]


def _order(scores: Array, rng: Rng) -> Ints:
    low = np.where(np.isnan(scores), -np.inf, scores)
    order: Ints = np.lexsort((rng.random(len(scores)), -low))
    return order
