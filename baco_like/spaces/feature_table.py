"""Features of several code columns from one table: one pass instead of one for each parameter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco_like._typing import Array, Codes
from baco_like.parameters.protocol import Parameter

_TABLED = 4096
"""Most values of a parameter for which its features are tabulated."""


def feature_column(parameter: Parameter) -> Array | None:
    """Return the feature of each code, or None if there are many codes or several columns of features."""
    if parameter.width > 1 or parameter.cardinality > _TABLED:
        return None
    every = np.arange(parameter.cardinality, dtype=np.float64)[:, None]
    table = parameter.features(every)
    return table[:, 0] if table.shape[1] == 1 else None


class FeatureTable:
    """A table of numbers by code, for several code columns.

    Args:
        tables: Pairs of a code column and the numbers of its codes 0, 1, ...
    """

    def __init__(self, tables: Sequence[tuple[int, Array]]) -> None:
        columns = np.array([column for column, _ in tables], dtype=np.int64)
        is_range = len(columns) > 0 and bool((np.diff(columns) == 1).all())
        # A slice takes no copy.
        self._columns = slice(int(columns[0]), int(columns[-1]) + 1) if is_range else columns
        self._numbers = np.concatenate([np.empty(0), *(table for _, table in tables)])
        lengths = np.array([len(table) for _, table in tables], dtype=np.int64)
        self._start = (np.cumsum(lengths) - lengths).astype(np.float64)  # of each column's table

    def __call__(self, codes: Codes) -> Array:
        """Return the numbers of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        places = (codes[:, self._columns] + self._start).astype(np.int64)
        return np.asarray(self._numbers.take(places))
