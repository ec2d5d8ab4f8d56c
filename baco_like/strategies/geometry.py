"""Configurations as points of a box, for algorithms that move through continuous space.

Every parameter that is not constant has one axis; a permutation of m elements has m axes:

- A real is a number on its scale (logarithmic with ``log``).
- Each of the n values of an integer, ordinal or categorical parameter is an interval, represented by its middle
  (Schoonhoven et al. 2022, section III-C2: the grid 1/2n, 3/2n, ..., and the nearest grid point on the way back). The
  intervals have the same length, except those of an integer with ``log``: they extend from half below to half above the
  integer on the logarithmic scale.
- A sequence has an axis for each place, divided into the end and the elements.
- A permutation is represented by random keys: one coordinate per element, with the elements in the order of their
  coordinates (Bean 1994).

`UnitBox.to_unit` and `UnitBox.from_unit` use [0, 1]^k. `UnitBox.extents` scales it to the box of Willemsen et al.
(section IV-C), in which one step of a value has the same length on every axis. `RepairedBox` is the feasible set as a
box: a point represents the feasible configuration nearest to the point's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.parameters.protocol import Parameter, ParameterKind, is_permutation, is_sequence
from baco_like.records.rows import row_keys
from baco_like.spaces import Space
from baco_like.spaces.activity import Activity

_COUNTED = 1024
"""A parameter with more values has the whole axis [0, 1] in the scaled box, like a real."""

_CACHE_SIZE = 100_000
"""Number of repaired rows in the cache."""

_GRID = 2.0**40
"""Coordinates are rounded to multiples of its inverse, so that the point of a row represents the same row."""

_FINE = 1024
"""Number of steps on the axis of a real, and limit for the other axes."""


@dataclass(frozen=True, eq=False)
class UnitBox:
    """A space as the box [0, 1]^k.

    Attributes:
        fixed: One row with the codes of the constants, ``(w,)``.
        axes: Number of axes, k.
        counts: Number of values on each axis, ``(k,)``; infinity for reals.
        binned: Code columns of the parameters whose values have intervals of the same length.
        binned_axes: Axes of these parameters.
        rest: The other parameters, with their first code column and first axis.
        activity: Which conditional parameters are active; points ignore the coordinates of the others.
    """

    fixed: Array
    axes: int
    counts: Array
    binned: Ints
    binned_axes: Ints
    rest: tuple[tuple[Parameter, int, int], ...]
    activity: Activity

    @classmethod
    def of(cls, space: Space) -> UnitBox:
        """Return the box of a space."""
        fixed = np.zeros(space.width)
        counts: list[float] = []
        binned: list[tuple[int, int]] = []
        rest: list[tuple[Parameter, int, int]] = []
        for name, parameter in space.parameters.items():
            column, axis = space.columns[name].start, len(counts)
            width = parameter.width
            if parameter.cardinality == 1:
                fixed[space.columns[name]] = parameter.from_unit(np.full((1, width), 0.5))[0]
                continue
            listed = parameter.kind in (ParameterKind.ORDERED, ParameterKind.UNORDERED)
            if listed and width == 1 and parameter.interval_lengths(np.zeros((1, 1))) is None:
                binned.append((column, axis))
            else:
                rest.append((parameter, column, axis))
            if is_sequence(parameter):
                values = float(len(parameter.elements))
            elif is_permutation(parameter):
                values = float(width)
            else:  # a grid with as many values along each of several columns
                values = parameter.cardinality ** (1 / width)
            counts += [values if width > 1 else parameter.cardinality] * width
        columns, axes = np.array(binned, dtype=np.int64).reshape(-1, 2).T
        sizes = np.array(counts, dtype=np.float64)
        return cls(fixed, len(counts), sizes, columns, axes, tuple(rest), space.activity)

    @property
    def extents(self) -> Array:
        """Lengths of the axes in the box of Willemsen et al., ``(k,)``: m * eps for a parameter with m values.

        ``eps`` is one over the greatest m. Reals and parameters with more than 1,024 values have length 1 and do not
        count for ``eps``.
        """
        small = self.counts <= _COUNTED
        most = self.counts[small].max(initial=1.0)
        return np.where(small, self.counts / most, 1.0)

    def to_unit(self, codes: Codes) -> Array:
        """Return the points that represent rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        points = np.empty((len(codes), self.axes))
        points[:, self.binned_axes] = (codes[:, self.binned] + 0.5) / self.counts[self.binned_axes]
        for parameter, column, axis in self.rest:
            m = parameter.width
            points[:, axis : axis + m] = parameter.to_unit(codes[:, column : column + m])
        return points

    def scaled(self, codes: Codes) -> Array:
        """Return the points of the scaled box that represent rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        return self.to_unit(codes) * self.extents

    def from_scaled(self, points: Array) -> Codes:
        """Return the legal codes, feasible or not, nearest to points of the scaled box, ``(n, k)`` -> ``(n, w)``."""
        return self.from_unit(points / self.extents)

    def from_unit(self, points: Array) -> Codes:
        """Return the legal codes, feasible or not, that points represent, ``(n, k)`` -> ``(n, w)``.

        Coordinates outside [0, 1] are clipped. It is the inverse of `to_unit` up to rounding for reals and for integers
        with over 2**45 values.
        """
        points = np.clip(points, 0.0, 1.0)
        codes = np.tile(self.fixed, (len(points), 1))
        counts = self.counts[self.binned_axes]
        intervals = np.floor(points[:, self.binned_axes] * counts)
        codes[:, self.binned] = np.minimum(intervals, counts - 1.0)
        for parameter, column, axis in self.rest:
            m = parameter.width
            codes[:, column : column + m] = parameter.from_unit(points[:, axis : axis + m])
        return self.activity.at_rest(codes)


@dataclass(frozen=True, eq=False)
class RepairedBox:
    """[0, 1]^k as in `UnitBox`, where every point represents a feasible configuration.

    Attributes:
        space: The space.
        repaired: Cache of repaired rows by the key of the replaced row; it does not depend on the run.
    """

    space: Space
    repaired: dict[bytes, tuple[bytes, Array]] = field(default_factory=dict, repr=False)

    @cached_property
    def unit(self) -> UnitBox:
        """The box of the space."""
        return UnitBox.of(self.space)

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
            if is_permutation(parameter):
                values[axis : axis + parameter.width] += 0.5
        return np.asarray(values / self.counts)

    def starts(self, n: int, rng: Rng) -> Codes:
        """Return at most n random feasible rows whose points represent the same rows, ``(<= n, w)``."""
        draws = self.space.feasible.spread(n, rng)
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
            near = feasible.nearest(codes, np.random.default_rng(np.frombuffer(key, np.uint32)))
        else:
            near = np.array([feasible.single_rows.nearest(codes[0].tolist())])
        return row_keys(near)[0], near[0]

    def point(self, row: Array) -> Array:
        """Return the point of a row of codes, ``(w,)`` -> ``(k,)``."""
        return np.asarray(self.unit.to_unit(row[None, :])[0])


def _round_to_grid(points: Array) -> Array:
    return np.asarray(np.round(points * _GRID) / _GRID)
