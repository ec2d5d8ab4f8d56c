"""Uniform draws of ranks in a feasible set."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Rng
from baco_like.parameters.permutation_codes import INT64_LIMIT, Ranks, rank_dtype


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
