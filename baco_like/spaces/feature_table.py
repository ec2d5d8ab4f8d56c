"""Features of several code columns from one table: one pass instead of one for each parameter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco_like._typing import Array, Codes


class FeatureTable:
    """A table of numbers by code, for several code columns.

    Args:
        tables: Pairs of a code column and the numbers of its codes 0, 1, ...
    """

    def __init__(self, tables: Sequence[tuple[int, Array]]) -> None:
        self._columns = np.array([column for column, _ in tables], dtype=np.int64)
        self._numbers = np.concatenate([np.empty(0), *(table for _, table in tables)])
        lengths = np.array([len(table) for _, table in tables], dtype=np.int64)
        self._start = np.cumsum(lengths) - lengths  # of each column's table

    def __call__(self, codes: Codes) -> Array:
        """Return the numbers of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        return np.asarray(self._numbers[codes[:, self._columns].astype(np.int64) + self._start])
