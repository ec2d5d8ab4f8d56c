"""A whole number between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Column, Features, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import distances
from baco_like.parameters import prior as priors
from baco_like.parameters.values import checked_default, is_number, number, plain

MAX_VALUES = 2**53
"""Codes count from the lower bound, and doubles are exact up to here."""

_INT64 = 2**63 - 1


@final
@dataclass(frozen=True)
class Integer:
    """A whole number in ``[low, high]``, both included; its code is the number minus ``low``.

    Attributes:
        low: The least value; it may be of any size up to the largest double.
        high: The greatest value; equal to ``low`` for a constant.
        log: Whether it grows by factors: sampling, distance and features are then those of its logarithm.
        default: The user's default value, or None.
        prior: One weight for each value, or a density on the parameter's scale, or None.

    Raises:
        SpaceError: A bound is no whole number, or not positive with ``log``; the domain is empty or has more than
            2**53 values; the default is outside; the prior does not fit.
    """

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
        if self.default is not None:
            default = plain(self.default)
            checked_default(default, self.contains(default), f"[{self.low}, {self.high}]")
            object.__setattr__(self, "default", int(default))
        if isinstance(self.prior, priors.Gaussian | priors.PiecewiseLinear):
            priors.check_density(self.prior, self.log)
            self._check_wide()
        elif self.prior is not None:
            object.__setattr__(self, "prior", priors.weights(self.prior, self._count))

    @property
    def _count(self) -> int:
        return self.high - self.low + 1

    @property
    def width(self) -> int:
        """One code column."""
        return 1

    @property
    def cardinality(self) -> int | float:
        """Number of values."""
        return self._count

    def contains(self, value: Any) -> bool:
        """Whether it is a whole number (an int, or a float such as 2.0, but no bool) within the bounds."""
        value = plain(value)
        return is_number(value) and self.low <= value <= self.high and value == int(value)

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return the numbers minus ``low``, ``(n, 1)``.

        Raises:
            ConfigError: A value is no whole number or outside the bounds.
        """
        for value in values:
            if not self.contains(value):
                raise ConfigError(f"{value!r} is not a whole number in [{self.low}, {self.high}]")
        offsets = [[float(int(plain(value)) - self.low)] for value in values]
        return np.array(offsets, dtype=np.float64).reshape(-1, 1)

    def decode(self, codes: Codes) -> list[Any]:
        """Return the numbers as Python ints."""
        return [self.low + offset for offset in codes[:, 0].astype(np.int64).tolist()]

    def column(self, codes: Codes) -> Column:
        """Return the numbers, ``(n, 1)`` -> ``(n,)``, int64, or Python ints where they would not fit."""
        offsets = codes[:, 0].astype(np.int64)
        if max(abs(self.low), abs(self.high)) <= _INT64:
            return offsets + self.low
        return offsets.astype(object) + self.low

    def legal(self, codes: Codes) -> Mask:
        """Whether each code is a whole number of the domain."""
        column = codes[:, 0]
        return np.asarray((column >= 0) & (column < self._count) & (column == np.floor(column)))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n codes from the prior, by default uniform on the parameter's scale.

        With ``log`` or a density, a number stands for the interval from half below it to half above it.
        """
        if isinstance(self.prior, tuple):
            return priors.sample_weighted(self.prior, n, rng).astype(np.float64)[:, None]
        if self._count == 1:
            return np.zeros((n, 1))
        if self.prior is None and not self.log:
            return rng.integers(0, self._count, size=(n, 1)).astype(np.float64)
        offsets = self._sampled_offsets(n, rng)
        return np.clip(np.rint(offsets), 0.0, self._count - 1.0)[:, None]

    @property
    def _half_below(self) -> float:
        return float(self.low) - 0.5

    def _ends(self) -> tuple[float, float]:
        """Return the ends, on the scale, of the intervals that the numbers stand for."""
        low, high = self._half_below, float(self.high) + 0.5
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def _check_wide(self) -> None:
        start, end = self._ends()
        if not end - start > 1e-9 * max(abs(start), abs(end), 1.0):
            raise SpaceError(
                f"the domain [{self.low}, {self.high}] is too narrow for a density; give weights"
            )

    def _sampled_offsets(self, n: int, rng: Rng) -> Array:
        """Return numbers minus ``low``, not yet rounded."""
        if self.prior is None or isinstance(self.prior, tuple):
            below = self._half_below
            offsets: Array = below * np.expm1(rng.random(n) * math.log1p(self._count / below)) - 0.5
            return offsets
        start, end = self._ends()
        places = priors.sample_density(self.prior, start, end, n, rng, self.log)
        return (np.exp(places) if self.log else places) - float(self.low)

    def log_density(self, codes: Codes) -> Array:
        """Return log of the prior's density over that of no prior, ``(n, 1)`` -> ``(n,)``."""
        if self.prior is None or self._count == 1:
            return np.zeros(len(codes))
        if isinstance(self.prior, tuple):
            return priors.weights_log_density(self.prior)[codes[:, 0].astype(np.int64)]
        values = float(self.low) + codes[:, 0]
        start, end = self._ends()
        return priors.density_log(
            self.prior, np.log(values) if self.log else values, start, end, self.log
        )

    def _offsets(self, codes: Codes) -> Array:
        """Return the distance from ``low`` on the scale: exact, where the numbers themselves may not fit a double."""
        column = np.asarray(codes[:, 0], dtype=np.float64)
        return np.log1p(column / float(self.low)) if self.log else column

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return ``|a - b|``, of the logarithms with ``log`` (Hellsten et al. 2023, section 4.1)."""
        return distances.absolute(self._offsets(a), self._offsets(b))

    def features(self, codes: Codes) -> Features:
        """Return the place in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
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
