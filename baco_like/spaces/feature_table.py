"""Features of several parameters at once: one pass instead of one for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints
from baco_like.constraints.protocol import Constraint
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real, RealColumns
from baco_like.spaces.activity import Activity
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.feasible.ragged import as_slice

_TABLED = 4096
"""Most values of a parameter for which its features are tabulated."""


class FeaturedSpace(Protocol):
    """The members of `Space` from which features are made."""

    parameters: dict[str, Parameter]
    columns: dict[str, slice]
    active: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    feasible: FeasibleSet
    activity: Activity

    def affordable(self, draws: int) -> int:
        """Return the number of random rows that are worth their time."""


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


class OwnFeatures:
    """The features of a space's parameters: one pass for all tables, one for all reals, one for each other.

    Args:
        space: The space.
        tables: For some active parameters, one number for each code in place of their own features. With these, other
            single columns are tabulated too, which is faster for a few rows and slower for thousands.

    Attributes:
        owner: For each column, the index of its parameter in `Space.active`, ``(k,)``.
    """

    def __init__(self, space: FeaturedSpace, tables: Mapping[str, Array] | None = None) -> None:
        row = space.feasible.sample(1, np.random.default_rng(0))
        known = {
            name: _tabulate(space.parameters[name])
            if tables is None or name not in tables
            else tables[name][:, None]
            for name in space.active
        }
        is_complete = all(table is not None for table in known.values())
        numbers: list[tuple[int, Array]] = []
        reals: list[Real] = []
        tabled, real, real_codes, widths = list[int](), list[int](), list[int](), list[int]()
        self._others: list[tuple[Parameter, slice, slice]] = []
        for name, table in known.items():
            parameter, columns, begin = space.parameters[name], space.columns[name], sum(widths)
            width = (parameter.features(row[:, columns]) if table is None else table).shape[1]
            widths.append(width)
            if table is not None and (is_complete or (tables is not None and width == 1)):
                numbers += [(columns.start, column) for column in table.T]
                tabled += range(begin, begin + width)
            elif isinstance(parameter, Real):
                reals.append(parameter)
                real_codes.append(columns.start)
                real.append(begin)
            else:
                self._others.append((parameter, columns, slice(begin, begin + width)))
        self.owner: Ints = np.repeat(np.arange(len(widths)), widths)
        self._table, self._reals = FeatureTable(numbers), RealColumns(reals)
        self._tabled, self._real = np.array(tabled, np.int64), np.array(real, np.int64)
        self._real_codes = np.array(real_codes, np.int64)

    def __call__(self, codes: Codes) -> Features:
        """Return the features of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        if len(self._tabled) == len(self.owner):
            return self._table(codes)
        features = np.empty((len(codes), len(self.owner)))
        features[:, self._real] = self._reals.to_unit(codes[:, self._real_codes])
        if self._tabled.size:
            features[:, self._tabled] = self._table(codes)
        for parameter, columns, at in self._others:
            features[:, at] = parameter.features(codes[:, columns])
        return features


def _tabulate(parameter: Parameter) -> Array | None:
    """Return the features of each code, ``(codes, k)``, or None if there are many codes."""
    if parameter.width > 1 or parameter.cardinality > _TABLED:
        return None
    return parameter.features(np.arange(parameter.cardinality, dtype=np.float64)[:, None])
