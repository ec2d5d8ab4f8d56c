"""Ranks of permutations in lexicographic order (Lehmer codes), for many rows at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from baco_like._typing import Codes, Ints, Mask, Rng

Ranks = npt.NDArray[Any]
"""Ranks, ``(n,)``: int64, or Python integers (dtype object) if a count exceeds int64."""

INT64_LIMIT = 2**63


def rank_dtype(count: int) -> type:
    """Return the dtype that holds ranks below ``count``."""
    return np.int64 if count < INT64_LIMIT else object


def random_ranks(count: int, n: int, rng: Rng) -> Ranks:
    """Return n independent uniform ranks in ``range(count)``, exactly uniform for counts of any size."""
    if count <= INT64_LIMIT:
        return rng.integers(0, count, n, dtype=np.int64).astype(rank_dtype(count))
    words = -(-count.bit_length() // 32)
    surplus = 32 * words - count.bit_length()
    kept: list[int] = []
    while len(kept) < n:  # more than half of the draws are below the count
        for row in rng.integers(0, 2**32, (n - len(kept), words), dtype=np.uint32):
            draw = int.from_bytes(row.astype("<u4").tobytes(), "little") >> surplus
            if draw < count:
                kept.append(draw)
    return np.array(kept, dtype=object)


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
