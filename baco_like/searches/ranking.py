"""Choosing rows by score, ties broken by chance."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Rng


def best_rows(rows: Codes, scores: Array, n: int, rng: Rng) -> tuple[Codes, Array]:
    """Return the n rows with the highest scores, best first, and these scores.

    Equal scores are ordered by chance: early in a run a model cannot tell most of a space apart, and the order of
    the feasible set must not decide. NaN counts as the lowest score.
    """
    scores = np.where(np.isnan(scores), -np.inf, scores)
    order = np.lexsort((rng.random(len(scores)), -scores))[:n]
    return rows[order], scores[order]


def distinct(rows: Codes) -> Codes:
    """Return the rows without repetition, in the order of their first appearance."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]
