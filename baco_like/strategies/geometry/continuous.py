"""Configurations as points of a box, for algorithms that move through continuous space.

Every parameter that is not constant has one axis; a permutation of m elements has m axes:

- A real is a number on its scale (logarithmic with ``log``).
- Each of the n values of an integer, ordinal or categorical parameter is an interval, represented by its middle
  (Schoonhoven et al. 2022, section III-C2: the grid 1/2n, 3/2n, ..., and the nearest grid point on the way back). The
  intervals have the same length, except those of an integer with ``log``: they extend from half below to half above the
  integer on the logarithmic scale.
- A permutation is represented by random keys: one coordinate per element, with the elements in the order of their
  coordinates (Bean 1994).

`UnitBox.to_unit` and `UnitBox.from_unit` use [0, 1]^k. `UnitBox.extents` scales it to the box of Willemsen et al.
(section IV-C), in which one step of a value has the same length on every axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.spaces.space import Space

_COUNTED = 1024
"""A parameter with more values has the whole axis [0, 1] in the scaled box, like a real."""


@final
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
    """

    fixed: Array
    axes: int
    counts: Array
    binned: Ints
    binned_axes: Ints
    rest: tuple[tuple[Parameter, int, int], ...]

    @classmethod
    def of(cls, space: Space) -> UnitBox:
        """Return the box of a space."""
        fixed = np.zeros(space.width)
        counts: list[float] = []
        binned: list[tuple[int, int]] = []
        rest: list[tuple[Parameter, int, int]] = []
        for name, parameter in space.parameters.items():
            column, axis = space.columns[name].start, len(counts)
            if parameter.cardinality == 1:
                fixed[column] = parameter.code_range[0]
                continue
            listed = parameter.kind in (ParameterKind.ORDERED, ParameterKind.UNORDERED)
            if listed and parameter.interval_lengths(np.zeros((1, 1))) is None:
                binned.append((column, axis))
            else:
                rest.append((parameter, column, axis))
            elements = parameter.width
            counts += [elements] * elements if elements > 1 else [parameter.cardinality]
        columns, axes = np.array(binned, dtype=np.int64).reshape(-1, 2).T
        sizes = np.array(counts, dtype=np.float64)
        return cls(fixed, len(counts), sizes, columns, axes, tuple(rest))

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
        return codes
