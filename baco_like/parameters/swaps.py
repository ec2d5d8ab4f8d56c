"""Permutations that differ by one swap of two elements."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Codes, Ints


def adjacent_swaps(codes: Codes) -> tuple[Codes, Ints]:
    """Return, for each permutation, its m - 1 swaps of two elements at consecutive positions.

    Args:
        codes: Positions of the elements, ``(n, m)``.

    Returns:
        The rows, ``(n (m - 1), m)``, and their owners, increasing.
    """
    n, m = codes.shape
    owner = np.repeat(np.arange(n), m - 1)
    first = np.tile(np.arange(m - 1), n)[:, None]
    rows = codes[owner]
    swapped = np.where(rows == first, first + 1, np.where(rows == first + 1, first, rows))
    return swapped.astype(np.float64), owner


def all_swaps(codes: Codes) -> tuple[Codes, Ints]:
    """Return, for each permutation, its m (m - 1) / 2 swaps of two elements, and their owners."""
    n, m = codes.shape
    first, second = np.triu_indices(m, 1)
    owner = np.repeat(np.arange(n), len(first))
    rows = codes[owner]
    entry = np.arange(len(rows))
    a, b = np.tile(first, n), np.tile(second, n)
    rows[entry, a], rows[entry, b] = codes[owner, b], codes[owner, a]
    return rows, owner
