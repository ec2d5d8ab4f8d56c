"""The feasible set as a box: a point represents the feasible configuration nearest to the point's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.records.history import row_keys
from baco_like.spaces.space import Space
from baco_like.strategies.geometry.continuous import UnitBox

_CACHE_SIZE = 100_000
"""Number of repaired rows in the cache."""

_GRID = 2.0**40
"""Coordinates are rounded to multiples of its inverse, so that the point of a row represents the same row."""

_FINE = 1024
"""Number of steps on the axis of a real, and limit for the other axes."""


@final
@dataclass(frozen=True, eq=False)
class RepairedBox:
    """[0, 1]^k as in `UnitBox`, where every point represents a feasible configuration.

    Attributes:
        space: The space.
        unit: Its box.
        repaired: Cache of repaired rows by the key of the replaced row; it does not depend on the run.
    """

    space: Space
    unit: UnitBox
    repaired: dict[bytes, tuple[bytes, Array]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, space: Space) -> RepairedBox:
        """Return the box of a space."""
        return cls(space, UnitBox.of(space))

    @property
    def axes(self) -> int:
        """Number of axes, k."""
        return self.unit.axes

    @property
    def counts(self) -> Array:
        """Number of steps on each axis, ``(k,)``: the number of values, at most 1,024."""
        return np.minimum(self.unit.counts, _FINE)

    def steps(self, share: float) -> Array:
        """Return steps of a share of every axis, ``(k,)``: whole values, at least one.

        On the axes of a permutation they are half a value longer, so that an element's key passes the next key.
        """
        values = np.maximum(np.round(share * self.counts), 1.0)
        for parameter, _, axis in self.unit.rest:
            if parameter.width > 1:
                values[axis : axis + parameter.width] += 0.5
        return np.asarray(values / self.counts)

    def starts(self, n: int, rng: Rng) -> Codes:
        """Return at most n random feasible rows whose points represent the same rows, ``(<= n, w)``."""
        draws = self.space.feasible.sample(n, rng)
        codes = self.unit.from_unit(_round_to_grid(self.unit.to_unit(draws)))
        return codes[self.space.feasible.contains(codes)]

    def row(self, point: Array) -> tuple[bytes, Array]:
        """Return the key and the codes, ``(w,)``, of the configuration that a point, ``(k,)``, represents.

        It has the least index-distance from the point's configuration in the unit box; ties are broken by the point
        alone.
        """
        codes = self.unit.from_unit(_round_to_grid(np.nan_to_num(point, nan=0.5))[None, :])
        (key,) = row_keys(codes)
        if key not in self.repaired:
            if len(self.repaired) >= _CACHE_SIZE:
                self.repaired.clear()
            self.repaired[key] = self._nearest(key, codes)
        return self.repaired[key]

    def _nearest(self, key: bytes, codes: Codes) -> tuple[bytes, Array]:
        feasible = self.space.feasible
        if feasible.contains_few(codes)[0]:
            return key, codes[0]
        if feasible.single_rows is None:
            rng = np.random.default_rng(np.frombuffer(key, dtype=np.uint32))
            near = feasible.nearest(codes, rng)
        else:
            near = np.array([feasible.single_rows.nearest(codes[0].tolist())])
        return row_keys(near)[0], near[0]

    def point(self, row: Array) -> Array:
        """Return the point of a row of codes, ``(w,)`` -> ``(k,)``."""
        return np.asarray(self.unit.to_unit(row[None, :])[0])


def _round_to_grid(points: Array) -> Array:
    return np.asarray(np.round(points * _GRID) / _GRID)
