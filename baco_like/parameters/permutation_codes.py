"""Permutations as codes, the position of each element: ranks in lexicographic order, and swaps of two elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from baco_like._typing import Codes, Ints, Mask

Ranks = npt.NDArray[Any]
"""Ranks, ``(n,)``: int64, or Python integers (dtype object) if a count exceeds int64."""

INT64_LIMIT = 2**63


def rank_dtype(count: int) -> type:
    """Return the dtype that holds ranks below ``count``."""
    return np.int64 if count < INT64_LIMIT else object


def is_permutation(codes: Codes) -> Mask:
    """Whether each row, ``(n, m)``, holds every position 0 to m - 1 once."""
    expected = np.arange(codes.shape[1])
    return np.asarray((np.sort(codes, axis=1) == expected).all(axis=1))


def permutation_ranks(codes: Codes) -> Ranks:
    """Return lexicographic ranks in ``range(m!)`` of permutations, ``(n, m)`` -> ``(n,)``."""
    m = codes.shape[1]
    dtype = rank_dtype(math.factorial(m))
    ranks: Ranks = np.zeros(len(codes), dtype=dtype)
    for i in range(m):
        smaller_later = (codes[:, i + 1 :] < codes[:, i : i + 1]).sum(axis=1)
        ranks = ranks + smaller_later.astype(dtype) * math.factorial(m - 1 - i)
    return ranks


def permutations_from_ranks(ranks: Ranks, m: int) -> Ints:
    """Return the permutations with these ranks, ``(n,)`` -> ``(n, m)``; the inverse of `permutation_ranks`."""
    rows = np.zeros((len(ranks), m), dtype=np.int64)
    for i in range(m):
        unit = math.factorial(m - 1 - i)
        rows[:, i] = ranks // unit
        ranks = ranks % unit
    for i in range(m - 2, -1, -1):
        rows[:, i + 1 :] += rows[:, i + 1 :] >= rows[:, i : i + 1]
    return rows


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
