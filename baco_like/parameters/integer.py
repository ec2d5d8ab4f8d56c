"""A whole number between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Column, Features, Ints, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import distances, priors, scale
from baco_like.parameters.extent import Extent, integer_extent
from baco_like.parameters.own_values import checked_default, first_own_value
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import INT64, is_number, number, plain, text_readings

MAX_VALUES = 2**53
"""Codes count from the lower bound, and doubles are exact up to here."""


@final
@dataclass(frozen=True)
class Integer:
    """A whole number in ``[low, high]``, both included; its code is the number minus ``low``.

    Attributes:
        low: The least value; its size is limited only by the largest double.
        high: The greatest value; equal to ``low`` for a constant.
        log: Whether the values grow by factors: sampling, distance and features then use the logarithm.
        default: The user's default value, or None.
        prior: One weight for each value, or a density on the parameter's scale, or None.

    Raises:
        SpaceError: A bound is not a whole number, or not positive with ``log``; the domain is empty or has more
            than 2**53 values; the default is outside; the prior does not fit.
    """

    kind = ParameterKind.ORDERED
    width = 1
    values = None

    low: int
    high: int
    log: bool = False
    default: int | None = None
    prior: priors.Weights | priors.Density | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _whole(self.low, "low"))
        object.__setattr__(self, "high", _whole(self.high, "high"))
        if self.low > self.high:
            raise SpaceError(
                f"the domain [{self.low}, {self.high}] is empty; low must not exceed high"
            )
        if self._count > MAX_VALUES:
            raise SpaceError(
                f"the domain [{self.low}, {self.high}] has more than 2**53 values; use Real"
            )
        if self.log and self.low <= 0:
            raise SpaceError(f"log=True needs positive bounds, got low = {self.low}")
        domain = f"[{self.low}, {self.high}]"
        object.__setattr__(self, "default", checked_default(self, self.default, domain))
        if isinstance(self.prior, priors.Gaussian | priors.PiecewiseLinear):
            priors.check_density(self.prior, self.log)
            self._check_wide()
        elif self.prior is not None:
            object.__setattr__(self, "prior", priors.weights(self.prior, self._count))

    @property
    def _count(self) -> int:
        return self.high - self.low + 1

    @property
    def code_range(self) -> tuple[float, float]:
        """The codes of the bounds."""
        return 0.0, float(self._count - 1)

    @property
    def extent(self) -> Extent:
        """Type and bounds of `column`."""
        return integer_extent(self.low, self.high)

    @property
    def cardinality(self) -> int | float:
        """Number of values."""
        return self._count

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
        offsets = [[float(int(plain(value)) - self.low)] for value in values]
        return np.array(offsets, dtype=np.float64).reshape(-1, 1)

    def decode(self, codes: Codes) -> list[Any]:
        """Return the numbers as Python ints."""
        return [self.low + offset for offset in codes[:, 0].astype(np.int64).tolist()]

    def value_from_text(self, text: Any) -> Any | None:
        """Return the number that a cell of a table or a JSON value means, or None."""
        return first_own_value(self, text_readings(text))

    def column(self, codes: Codes) -> Column:
        """Return the numbers, ``(n, 1)`` -> ``(n,)``, int64, or Python ints where they would not fit."""
        offsets = codes[:, 0].astype(np.int64)
        if max(abs(self.low), abs(self.high)) <= INT64:
            return offsets + self.low
        return offsets.astype(object) + self.low

    def legal(self, codes: Codes) -> Mask:
        """Whether each code is a whole number of the domain."""
        column = codes[:, 0]
        return np.asarray((column >= 0) & (column < self._count) & (column == np.floor(column)))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n codes from the prior, by default uniform on the parameter's scale.

        With a density, each number has the interval from 0.5 below it to 0.5 above it.
        """
        if isinstance(self.prior, tuple):
            return priors.sample_weighted(self.prior, n, rng).astype(np.float64)[:, None]
        if self.prior is None or self._count == 1:
            return self.sample_uniform(n, rng)
        start, end = self._ends()
        positions = priors.sample_density(self.prior, start, end, n, rng, self.log)
        offsets = (np.exp(positions) if self.log else positions) - float(self.low)
        return np.clip(np.rint(offsets), 0.0, self._count - 1.0)[:, None]

    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n codes drawn uniformly on the parameter's scale, linear or logarithmic."""
        if self._count == 1:
            return np.zeros((n, 1))
        if self.log:
            return self.from_unit(rng.random((n, 1)))
        return rng.integers(0, self._count, size=(n, 1)).astype(np.float64)

    @property
    def _half_below(self) -> float:
        return float(self.low) - 0.5

    def _ends(self) -> tuple[float, float]:
        """Return the ends of the domain on the scale: 0.5 below ``low`` and 0.5 above ``high``."""
        low, high = self._half_below, float(self.high) + 0.5
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def _check_wide(self) -> None:
        start, end = self._ends()
        if not end - start > 1e-9 * max(abs(start), abs(end), 1.0):
            raise SpaceError(
                f"the domain [{self.low}, {self.high}] is too narrow for a density; give weights"
            )

    def log_density(self, codes: Codes) -> Array:
        """Return the log ratio of the prior's density to the uniform density, ``(n, 1)`` -> ``(n,)``."""
        if self.prior is None or self._count == 1:
            return np.zeros(len(codes))
        if isinstance(self.prior, tuple):
            return priors.weights_log_density(self.prior)[codes[:, 0].astype(np.int64)]
        values = float(self.low) + codes[:, 0]
        start, end = self._ends()
        return priors.density_log(
            self.prior, np.log(values) if self.log else values, start, end, self.log
        )

    @property
    def _log_length(self) -> float:
        """The length of the domain, from 0.5 below ``low`` to 0.5 above ``high``, on the logarithmic scale."""
        return math.log1p(self._count / self._half_below)

    def to_unit(self, codes: Codes) -> Array:
        """Return the middles of the numbers' intervals on the unit scale, ``(n, 1)`` -> ``(n, 1)``.

        Intervals have the same length; with ``log`` they extend from 0.5 below to 0.5 above the number on the
        logarithmic scale.
        """
        if not self.log:
            return scale.interval_middles(codes, self._count)
        ends = np.log1p(codes / self._half_below) + np.log1p((codes + 1.0) / self._half_below)
        return np.asarray(ends / 2.0 / self._log_length)

    def from_unit(self, points: Array) -> Codes:
        """Return the codes of the intervals that contain the points, ``(n, 1)`` -> ``(n, 1)``."""
        if not self.log:
            return scale.interval_codes(points, self._count)
        offsets = np.floor(self._half_below * np.expm1(points * self._log_length))
        return np.clip(offsets, 0.0, self._count - 1.0)

    def interval_lengths(self, codes: Codes) -> Array | None:
        """Return the lengths of the numbers' intervals on the logarithmic scale, or None without ``log``."""
        if not self.log:
            return None
        return np.log1p(1.0 / (self.column(codes).astype(np.float64) - 0.5))

    def neighbours(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return the codes one below and one above, ``(m, 1)``, and the row each belongs to, ``(m,)``."""
        return scale.adjacent_codes(codes, self._count)

    def _offsets(self, codes: Codes) -> Array:
        """Return the distance from ``low`` on the scale; exact even if the numbers do not fit a double."""
        column = np.asarray(codes[:, 0], dtype=np.float64)
        return np.log1p(column / float(self.low)) if self.log else column

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return ``|a - b|``, of the logarithms with ``log`` (Hellsten et al. 2023, section 4.1)."""
        return distances.absolute(self._offsets(a), self._offsets(b))

    def features(self, codes: Codes) -> Features:
        """Return the position in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
        if self._count == 1:
            return np.empty((len(codes), 0))
        end = self._offsets(np.array([[self._count - 1.0]]))
        return (self._offsets(codes) / end)[:, None]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description."""
        return {
            "type": "integer",
            "low": self.low,
            "high": self.high,
            "log": self.log,
            "default": self.default,
            "prior": priors.prior_to_dict(self.prior),
        }


def _whole(value: Any, what: str) -> int:
    value = number(value, what)
    if value != int(value):
        raise SpaceError(f"{what} must be a whole number, got {value!r}; use Real")
    try:
        float(int(value))
    except OverflowError:
        raise SpaceError(f"{what} is beyond the largest double") from None
    return int(value)
