"""Rows of codes without repetition."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Codes, Ints


def drop_duplicates(rows: Codes) -> Codes:
    """Return the distinct rows in the order of their first appearance, ``(n, w)`` -> ``(m, w)``."""
    return rows[find_first_rows(rows)]


def find_first_rows(rows: Codes) -> Ints:
    """Return the index of every distinct row's first appearance, increasing; 0.0 and -0.0 are the same."""
    raw = np.ascontiguousarray(rows + 0.0)
    keys = raw.view(np.dtype((np.void, raw.itemsize * raw.shape[1]))).ravel().tolist()
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    return np.sort(np.fromiter(first.values(), np.int64, len(first)))
