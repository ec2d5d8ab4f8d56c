"""A whole number between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Column, Features, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import distances, priors
from baco_like.parameters.bases import SteppedNumber, check_bounds, checked_default
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import (
    INT64,
    Extent,
    extent_of,
    indices,
    is_number,
    number,
    plain,
    real_number,
)

MAX_VALUES = 2**53
"""Codes count from the lower bound, and doubles are exact up to here."""


@final
@dataclass(frozen=True)
class Integer(SteppedNumber):
    """A whole number in ``[low, high]``, both included; its code is the number minus ``low``.

    Attributes:
        low: The smallest value; its size is limited only by the largest double.
        high: The largest value; equal to ``low`` for a constant.
        log: Whether steps are ratios, as for sizes: sampling, distance and features then use the logarithm.
        default: Value in the default configuration, or None.
        prior: One weight for each value, or a density on the parameter's scale, or None.

    Raises:
        SpaceError: A bound is not a whole number, or not positive with ``log``; the domain is empty or has more
            than 2**53 values; the default is outside; the prior does not fit.
    """

    kind = ParameterKind.ORDERED
    values = None

    low: int
    high: int
    log: bool = False
    default: int | None = None
    prior: priors.Weights | priors.Density | None = None

    def __post_init__(self) -> None:
        vars(self).update(low=_whole(self.low, "low"), high=_whole(self.high, "high"))
        check_bounds(self.low, self.high, self.log)
        domain = f"the domain [{self.low}, {self.high}]"
        if self.cardinality > MAX_VALUES:
            raise SpaceError(f"{domain} has more than 2**53 values; use Real")
        vars(self).update(default=checked_default(self, self.default))
        if isinstance(self.prior, priors.Density):
            priors.check_density(self.prior, self.log)
            start, end = priors.scale_ends(*self._ends, self.log)
            if not end - start > 1e-9 * max(abs(start), abs(end), 1.0):
                raise SpaceError(f"{domain} is too narrow for a density; give weights")
        elif self.prior is not None:
            vars(self).update(prior=priors.weights(self.prior, self.cardinality))

    @property
    def extent(self) -> Extent:
        """Type and bounds of `column`."""
        return extent_of((self.low, self.high))

    @property
    @override
    def cardinality(self) -> int:
        """Number of values."""
        return self.high - self.low + 1

    def contains(self, value: Any) -> bool:
        """Whether it is a whole number within the bounds: an int or a float such as 2.0, not a bool."""
        value = plain(value)
        return is_number(value) and self.low <= value <= self.high and value == int(value)

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return the numbers minus ``low``, ``(n, 1)``.

        Raises:
            ConfigError: A value is not a whole number or is outside the bounds.
        """
        for value in values:
            if not self.contains(value):
                raise ConfigError(f"{value!r} is not a whole number in [{self.low}, {self.high}]")
        return np.array([float(int(plain(v)) - self.low) for v in values]).reshape(-1, 1)

    @override
    def column(self, codes: Codes) -> Column:
        """Return the numbers, ``(n, 1)`` -> ``(n,)``, int64, or Python ints where they would not fit."""
        offsets = indices(codes)
        fits = max(abs(self.low), abs(self.high)) <= INT64
        return (offsets if fits else offsets.astype(object)) + self.low

    @override
    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n codes drawn uniformly on the parameter's scale, linear or logarithmic."""
        logarithmic = self.log and self.cardinality > 1
        return self.from_unit(rng.random((n, 1))) if logarithmic else super().sample_uniform(n, rng)

    @property
    def _log_length(self) -> float:
        """The length of the domain, from 0.5 below ``low`` to 0.5 above ``high``, on the logarithmic scale."""
        return math.log1p(self.cardinality / self._ends[0])

    @override
    def to_unit(self, codes: Codes) -> Array:
        """Return the middles of the numbers' intervals on the unit scale, ``(n, 1)`` -> ``(n, 1)``.

        Intervals have the same length; with ``log`` they extend from 0.5 below to 0.5 above the number on the
        logarithmic scale.
        """
        if not self.log:
            return super().to_unit(codes)
        start, _ = self._ends
        return np.asarray(
            (np.log1p(codes / start) + np.log1p((codes + 1.0) / start)) / 2.0 / self._log_length
        )

    @override
    def from_unit(self, points: Array) -> Codes:
        """Return the codes of the intervals that contain the points, ``(n, 1)`` -> ``(n, 1)``."""
        if not self.log:
            return super().from_unit(points)
        offsets = np.floor(self._ends[0] * np.expm1(points * self._log_length))
        return np.clip(offsets, *self.code_range)

    @override
    def interval_lengths(self, codes: Codes) -> Array | None:
        """Return the lengths of the numbers' intervals on the logarithmic scale, or None without ``log``."""
        return np.log1p(1.0 / (self.column(codes).astype(np.float64) - 0.5)) if self.log else None

    def _offsets(self, codes: Codes) -> Array:
        """Return the distance from ``low`` on the scale; exact even if the numbers do not fit a double."""
        column = np.asarray(codes[:, 0], dtype=np.float64)
        return np.log1p(column / float(self.low)) if self.log else column

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return ``|a - b|``, of the logarithms with ``log`` (Hellsten et al. 2023, section 4.1)."""
        return distances.absolute(self._offsets(a), self._offsets(b))

    def features(self, codes: Codes) -> Features:
        """Return the position in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
        if self.cardinality == 1:
            return np.empty((len(codes), 0))
        return (self._offsets(codes) / self._offsets(np.array([[self.code_range[1]]])))[:, None]


def _whole(value: Any, what: str) -> int:
    value = number(value, what)
    real_number(value, what)  # refuses numbers beyond the largest double
    if value != int(value):
        raise SpaceError(f"{what} must be a whole number, got {value!r}; use Real")
    return int(value)
