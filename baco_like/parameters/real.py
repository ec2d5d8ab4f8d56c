"""A real number between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Column, Features, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import distances, scale
from baco_like.parameters import prior as priors
from baco_like.parameters.values import checked_default, is_number, plain, real_number


@final
@dataclass(frozen=True)
class Real:
    """A real number in ``[low, high]``, both included; its code is the number itself.

    Attributes:
        low: The least value.
        high: The greatest value; equal to ``low`` for a constant.
        log: Whether it grows by factors: sampling, distance and features are then those of its logarithm.
        default: The user's default value, or None.
        prior: Where good values are expected, or None.

    Raises:
        SpaceError: A bound is missing, not finite, or not positive with ``log``; the domain is empty; the default
            is outside; the prior does not fit.
    """

    low: float
    high: float
    log: bool = False
    default: float | None = None
    prior: priors.Density | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", real_number(self.low, "low"))
        object.__setattr__(self, "high", real_number(self.high, "high"))
        if self.low > self.high:
            raise SpaceError(
                f"the domain [{self.low!r}, {self.high!r}] is empty; low must not exceed high"
            )
        if self.high - self.low == math.inf:
            raise SpaceError(f"{self.low!r} and {self.high!r} are too far apart for doubles")
        if self.log and self.low <= 0:
            raise SpaceError(f"log=True needs positive bounds, got low = {self.low!r}")
        if self.default is not None:
            default = plain(self.default)
            checked_default(default, self.contains(default), f"[{self.low!r}, {self.high!r}]")
            object.__setattr__(self, "default", float(default))
        if self.prior is not None:
            if not isinstance(self.prior, priors.Gaussian | priors.PiecewiseLinear):
                raise SpaceError(
                    f"the prior of a real must be a Gaussian or PiecewiseLinear density, got {self.prior!r}"
                )
            priors.check_density(self.prior, self.log)

    @property
    def width(self) -> int:
        """One code column."""
        return 1

    @property
    def cardinality(self) -> int | float:
        """``inf``, or 1 for a constant."""
        return 1 if self.low == self.high else math.inf

    def contains(self, value: Any) -> bool:
        """Whether it is a number (and no bool) within the bounds."""
        value = plain(value)
        return is_number(value) and self.low <= value <= self.high

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return the numbers, ``(n, 1)``.

        Raises:
            ConfigError: A value is no number or outside the bounds.
        """
        for value in values:
            if not self.contains(value):
                raise ConfigError(f"{value!r} is not a number in [{self.low!r}, {self.high!r}]")
        return np.array([[float(plain(value))] for value in values]).reshape(-1, 1)

    def decode(self, codes: Codes) -> list[Any]:
        """Return the numbers as Python floats."""
        numbers: list[Any] = self.column(codes).tolist()
        return numbers

    def column(self, codes: Codes) -> Column:
        """Return the numbers, ``(n, 1)`` -> ``(n,)``."""
        return np.asarray(codes[:, 0], dtype=np.float64)

    def legal(self, codes: Codes) -> Mask:
        """Whether each number is within the bounds."""
        column = codes[:, 0]
        return np.asarray((column >= self.low) & (column <= self.high))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n numbers from the prior, by default uniform on the parameter's scale."""
        if self.low == self.high:
            return np.full((n, 1), self.low)
        if self.prior is None:
            return scale.from_unit(rng.random((n, 1)), self.low, self.high, self.log)
        start, end = scale.ends(self.low, self.high, self.log)
        places = priors.sample_density(self.prior, start, end, n, rng, self.log)
        return np.clip(scale.backward(places, self.log), self.low, self.high)[:, None]

    def log_density(self, codes: Codes) -> Array:
        """Return log of the prior's density over that of no prior, ``(n, 1)`` -> ``(n,)``."""
        if self.prior is None or self.low == self.high:
            return np.zeros(len(codes))
        start, end = scale.ends(self.low, self.high, self.log)
        places = scale.forward(codes[:, 0], self.log)
        return priors.density_log(self.prior, places, start, end, self.log)

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return ``|a - b|``, of the logarithms with ``log`` (Hellsten et al. 2023, section 4.1)."""
        return distances.absolute(
            scale.forward(a[:, 0], self.log), scale.forward(b[:, 0], self.log)
        )

    def features(self, codes: Codes) -> Features:
        """Return the place in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
        if self.low == self.high:
            return np.empty((len(codes), 0))
        return scale.to_unit(codes[:, :1], self.low, self.high, self.log)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description."""
        return {
            "type": "real",
            "low": self.low,
            "high": self.high,
            "log": self.log,
            "default": self.default,
            "prior": priors.prior_to_dict(self.prior),
        }
