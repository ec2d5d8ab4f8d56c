"""Features of several code columns from one table: one pass instead of one for each parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Ints


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """A table of numbers by code, for several code columns; build it with `FeatureTable.of`.

    Attributes:
        columns: The code columns, ``(k,)``.
        start: First index of each column's table, ``(k,)``.
        numbers: The concatenated tables.
    """

    columns: Ints
    start: Ints
    numbers: Array

    @classmethod
    def of(cls, tables: Sequence[tuple[int, Array]]) -> FeatureTable:
        """Build it from pairs of a column and the numbers of its codes 0, 1, ..."""
        lengths = np.array([len(table) for _, table in tables], dtype=np.int64)
        numbers = np.concatenate([table for _, table in tables]) if tables else np.empty(0)
        columns = np.array([column for column, _ in tables], dtype=np.int64)
        return cls(columns, np.cumsum(lengths) - lengths, numbers)

    def __call__(self, codes: Codes) -> Array:
        """Return the numbers of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        return np.asarray(self.numbers[codes[:, self.columns].astype(np.int64) + self.start])
