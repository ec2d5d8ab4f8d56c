"""The feasible set as a box: every point is mapped to the feasible configuration nearest to its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.records.history import row_keys
from baco_like.spaces.space import Space
from baco_like.strategies.geometry.continuous import UnitBox

_KEPT = 100_000
"""Most repaired rows that are remembered."""

_GRID = 2.0**40
"""Coordinates are rounded to multiples of 2**-40, so that a point and the point of its row have the same row."""

_FINE = 1024
"""Steps on the axis of a real, or of an integer with more values."""


@final
@dataclass(frozen=True, eq=False)
class RepairedBox:
    """[0, 1]^k as in `UnitBox`, where every point is mapped to a feasible configuration.

    Attributes:
        space: The space.
        unit: Its box.
        repaired: Cached feasible rows, by the key of the row that they replace.
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
        """Number of steps on each axis, ``(k,)``: its number of values, at most 1,024."""
        return np.minimum(self.unit.counts, _FINE)

    def steps(self, share: float) -> Array:
        """Return steps of a share of every axis, ``(k,)``: whole values, at least one.

        They are half a value longer on the axes of a permutation, so that an element's key passes the next one.
        """
        values = np.maximum(np.round(share * self.counts), 1.0)
        for parameter, _, axis in self.unit.rest:
            if parameter.width > 1:
                values[axis : axis + parameter.width] += 0.5
        return np.asarray(values / self.counts)

    def starts(self, n: int, rng: Rng) -> Codes:
        """Return at most n random feasible rows that are mapped to themselves, ``(<= n, w)``."""
        drawn = self.space.feasible.sample(n, rng)
        codes = self.unit.from_unit(_rounded(self.unit.to_unit(drawn)))
        return codes[self.space.feasible.contains(codes)]

    def row(self, point: Array) -> tuple[bytes, Array]:
        """Return the key and the codes, ``(w,)``, of the feasible configuration of a point, ``(k,)``.

        It has the least index-distance from the point's configuration in the unit box; ties depend on the point only.
        """
        codes = self.unit.from_unit(
            np.round(np.nan_to_num(point, nan=0.5) * _GRID)[None, :] / _GRID
        )
        (key,) = row_keys(codes)
        nearest = self.repaired.get(key)
        if nearest is None:
            nearest = self._nearest(key, codes)
            if len(self.repaired) >= _KEPT:
                self.repaired.clear()
            self.repaired[key] = nearest
        return nearest

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
        point: Array = self.unit.to_unit(row[None, :])[0]
        return point


def _rounded(points: Array) -> Array:
    return np.asarray(np.round(points * _GRID) / _GRID)
