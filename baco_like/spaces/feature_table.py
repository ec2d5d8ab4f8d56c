"""Features of several code columns from one table: one pass instead of one for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real, RealColumns
from baco_like.spaces.feasible.ragged import as_slice

_TABLED = 4096
"""Most values of a parameter for which its features are tabulated."""


def feature_columns(parameter: Parameter) -> Array | None:
    """Return the features of each code, ``(codes, k)``, or None if there are many codes."""
    if parameter.width > 1 or parameter.cardinality > _TABLED:
        return None
    return parameter.features(np.arange(parameter.cardinality, dtype=np.float64)[:, None])


def feature_column(parameter: Parameter) -> Array | None:
    """Return the feature of each code, or None if there are many codes or several columns of features."""
    table = feature_columns(parameter)
    return table[:, 0] if table is not None and table.shape[1] == 1 else None


class FeatureTable:
    """A table of numbers by code, for several code columns.

    Args:
        tables: Pairs of a code column and the numbers of its codes 0, 1, ...
    """

    def __init__(self, tables: Sequence[tuple[int, Array]]) -> None:
        self._columns = as_slice(np.array([column for column, _ in tables], dtype=np.int64))
        self._numbers = np.concatenate([np.empty(0), *(table for _, table in tables)])
        lengths = np.array([len(table) for _, table in tables], dtype=np.int64)
        self._start = (np.cumsum(lengths) - lengths).astype(np.float64)  # of each column's table

    def __call__(self, codes: Codes) -> Array:
        """Return the numbers of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        places = (codes[:, self._columns] + self._start).astype(np.int64)
        return np.asarray(self._numbers.take(places))


class OwnedFeatures(Protocol):
    """The members of a space that `FeatureColumns` reads."""

    parameters: dict[str, Parameter]
    columns: dict[str, slice]
    active: tuple[str, ...]

    @property
    def feature_owner(self) -> Ints:
        """For each feature column, the index of its active parameter, ``(k,)``."""


class FeatureColumns:
    """The features of a space's parameters: one pass for all tables, one for all reals, one for each other.

    Args:
        space: The space.
        tables: The tabulated features of some active parameters; those of one feature column only.
    """

    def __init__(self, space: OwnedFeatures, tables: Mapping[str, Array]) -> None:
        parameters, columns = space.parameters, space.columns
        widths = np.bincount(space.feature_owner, minlength=len(space.active))
        ends = np.cumsum(widths)
        at = dict(zip(space.active, map(slice, ends - widths, ends), strict=True))
        self._width = int(widths.sum())
        self._table = FeatureTable([(columns[name].start, table) for name, table in tables.items()])
        self._tabled = np.array([at[name].start for name in tables], dtype=np.int64)
        reals = {n: p for n in space.active if isinstance(p := parameters[n], Real)}
        self._reals = RealColumns(list(reals.values()))
        self._real_codes = np.array([columns[name].start for name in reals], dtype=np.int64)
        self._real_features = np.array([at[name].start for name in reals], dtype=np.int64)
        self._others = [
            (parameters[name], columns[name], at[name])
            for name in space.active
            if name not in tables and name not in reals
        ]

    def __call__(self, codes: Codes) -> Features:
        """Return the features of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        features = np.empty((len(codes), self._width))
        features[:, self._real_features] = self._reals.to_unit(codes[:, self._real_codes])
        if self._tabled.size:
            features[:, self._tabled] = self._table(codes)
        for parameter, columns, at in self._others:
            features[:, at] = parameter.features(codes[:, columns])
        return features
