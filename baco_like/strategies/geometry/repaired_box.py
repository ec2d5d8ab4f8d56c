"""The feasible set as a box: a point stands for the feasible configuration that is nearest to its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.records.history import row_keys
from baco_like.spaces.space import Space
from baco_like.strategies.geometry.continuous import UnitBox

_KEPT = 100_000
"""Repaired rows that are kept."""

_GRID = 2.0**40
"""Coordinates are rounded to multiples of its inverse, so that the point of a point's row stands for the same row."""

_FINE = 1024
"""So many steps has the axis of a real, or of an integer of more values."""


@final
@dataclass(frozen=True, eq=False)
class RepairedBox:
    """[0, 1]^k as in `UnitBox`, where every point stands for a feasible configuration.

    Attributes:
        space: The space.
        unit: Its box.
        mended: Rows found before, by the key of the row that they replace; it says nothing about a run.
    """

    space: Space
    unit: UnitBox
    mended: dict[bytes, tuple[bytes, Array]] = field(default_factory=dict, repr=False)

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
        """Number of steps on each axis, ``(k,)``: of its values, or 1,024 where there are more."""
        return np.minimum(self.unit.counts, _FINE)

    def steps(self, share: float) -> Array:
        """Return steps of a share of every axis, ``(k,)``: whole values, at least one.

        Half a value more on the axes of a permutation, so that an element's key passes the next one.
        """
        values = np.maximum(np.round(share * self.counts), 1.0)
        for parameter, _, axis in self.unit.rest:
            if parameter.width > 1:
                values[axis : axis + parameter.width] += 0.5
        return np.asarray(values / self.counts)

    def starts(self, n: int, rng: Rng) -> Codes:
        """Return at most n random feasible rows that stand for themselves, ``(<= n, w)``."""
        drawn = self.space.feasible.sample(n, rng)
        codes = self.unit.from_unit(_rounded(self.unit.to_unit(drawn)))
        return codes[self.space.feasible.contains(codes)]

    def row(self, point: Array) -> tuple[bytes, Array]:
        """Return the key and the codes, ``(w,)``, of the configuration that a point stands for, ``(k,)``.

        It is the one at the least index-distance from the configuration of the point in the unit box; which of equally
        near ones depends on the point's only.
        """
        codes = self.unit.from_unit(
            np.round(np.nan_to_num(point, nan=0.5) * _GRID)[None, :] / _GRID
        )
        (key,) = row_keys(codes)
        found = self.mended.get(key)
        if found is None:
            found = self._nearest(key, codes)
            if len(self.mended) >= _KEPT:
                self.mended.clear()
            self.mended[key] = found
        return found

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
        found: Array = self.unit.to_unit(row[None, :])[0]
        return found


def _rounded(points: Array) -> Array:
    return np.asarray(np.round(points * _GRID) / _GRID)
