"""A real number between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Column, Features, Ints, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import distances, priors
from baco_like.parameters.bases import ParameterDefaults, check_bounds, checked_default
from baco_like.parameters.extent import ColumnKind, Extent
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import is_number, plain, real_number


@final
@dataclass(frozen=True)
class Real(ParameterDefaults):
    """A real number in ``[low, high]``, both included; its code is the number itself.

    Attributes:
        low: The smallest value.
        high: The largest value; equal to ``low`` for a constant.
        log: Whether steps are ratios, as for sizes: sampling, distance and features then use the logarithm.
        default: Value in the default configuration, or None.
        prior: Density of the values that the user expects to be good, or None.

    Raises:
        SpaceError: A bound is missing, not finite, or not positive with ``log``; the domain is empty; the default
            is outside; the prior does not fit.
    """

    kind = ParameterKind.CONTINUOUS
    width = 1
    values = None

    low: float
    high: float
    log: bool = False
    default: float | None = None
    prior: priors.Density | None = None

    def __post_init__(self) -> None:
        vars(self).update(low=real_number(self.low, "low"), high=real_number(self.high, "high"))
        check_bounds(self.low, self.high, self.log)
        if self.high - self.low == math.inf:
            raise SpaceError(f"{self.low!r} and {self.high!r} are too far apart for doubles")
        vars(self).update(default=checked_default(self, self.default))
        if self.prior is not None:
            if not isinstance(self.prior, priors.Density):
                raise SpaceError(
                    f"the prior of a real must be a Gaussian or PiecewiseLinear density, got {self.prior!r}"
                )
            priors.check_density(self.prior, self.log)

    @property
    def code_range(self) -> tuple[float, float]:
        """The bounds."""
        return self.low, self.high

    @property
    def extent(self) -> Extent:
        """Type and bounds of `column`."""
        return Extent(ColumnKind.FLOAT, self.low, self.high)

    @property
    def cardinality(self) -> int | float:
        """``inf``, or 1 for a constant."""
        return 1 if self.low == self.high else math.inf

    def contains(self, value: Any) -> bool:
        """Whether it is a number within the bounds; bools are rejected."""
        value = plain(value)
        return is_number(value) and self.low <= value <= self.high

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return the numbers, ``(n, 1)``.

        Raises:
            ConfigError: A value is not a number or is outside the bounds.
        """
        for value in values:
            if not self.contains(value):
                raise ConfigError(f"{value!r} is not a number in [{self.low!r}, {self.high!r}]")
        return np.array([float(plain(value)) for value in values]).reshape(-1, 1)

    def decode(self, codes: Codes) -> list[Any]:
        """Return the numbers as Python floats."""
        return list(self.column(codes).tolist())

    def column(self, codes: Codes) -> Column:
        """Return the numbers, ``(n, 1)`` -> ``(n,)``."""
        return np.asarray(codes[:, 0], dtype=np.float64)

    def legal(self, codes: Codes) -> Mask:
        """Whether each number is within the bounds."""
        column = codes[:, 0]
        return np.asarray((column >= self.low) & (column <= self.high))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n numbers from the prior, by default uniform on the parameter's scale."""
        if self.prior is None or self.low == self.high:
            return self.sample_uniform(n, rng)
        drawn = priors.sample_density(self.prior, self.low, self.high, self.log, n, rng)
        return np.clip(drawn, self.low, self.high)[:, None]

    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n numbers drawn uniformly on the parameter's scale."""
        if self.low == self.high:
            return np.full((n, 1), self.low)
        return self.from_unit(rng.random((n, 1)))

    def log_density(self, codes: Codes) -> Array:
        """Return the log ratio of the prior's density to the uniform density, ``(n, 1)`` -> ``(n,)``."""
        if self.prior is None or self.low == self.high:
            return np.zeros(len(codes))
        return priors.density_log(self.prior, codes[:, 0], self.low, self.high, self.log)

    def to_unit(self, codes: Codes) -> Array:
        """Return positions in [0, 1] on the parameter's scale, ``(n, 1)`` -> ``(n, 1)``."""
        start, end = priors.scale_ends(self.low, self.high, self.log)
        positions = priors.to_scale(np.clip(codes, self.low, self.high), self.log)
        return np.clip((positions - start) / (end - start), 0.0, 1.0)

    def from_unit(self, points: Array) -> Codes:
        """Return the numbers at positions in [0, 1] of the parameter's scale, ``(n, 1)`` -> ``(n, 1)``."""
        start, end = priors.scale_ends(self.low, self.high, self.log)
        numbers = priors.from_scale(start * (1.0 - points) + end * points, self.log)
        return np.clip(numbers, self.low, self.high)

    def neighbours(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return empty arrays: a real number has no next one."""
        return codes[:0], np.empty(0, dtype=np.int64)

    def narrowed(self, low: float, high: float) -> Real:
        """Return the parameter between two closer bounds, without default and prior."""
        return Real(low, high, log=self.log)

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return ``|a - b|``, of the logarithms with ``log`` (Hellsten et al. 2023, section 4.1)."""
        left, right = (priors.to_scale(codes[:, 0], self.log) for codes in (a, b))
        return distances.absolute(left, right)

    def features(self, codes: Codes) -> Features:
        """Return the position in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
        return np.empty((len(codes), 0)) if self.low == self.high else self.to_unit(codes[:, :1])


class RealColumns:
    """Several reals at once: one array operation in place of one for each parameter.

    Args:
        reals: The parameters; none is a constant.
    """

    def __init__(self, reals: Sequence[Real]) -> None:
        ends = [priors.scale_ends(real.low, real.high, real.log) for real in reals]
        self._start, self._end = np.array(ends, dtype=np.float64).reshape(-1, 2).T
        self._low = np.array([real.low for real in reals])
        self._high = np.array([real.high for real in reals])
        self._logs: Ints = np.flatnonzero([real.log for real in reals])

    def to_unit(self, codes: Codes) -> Array:
        """Return positions in [0, 1] on the parameters' scales, ``(n, k)`` -> ``(n, k)``."""
        positions = np.minimum(np.maximum(codes, self._low), self._high)
        if self._logs.size:
            positions[:, self._logs] = np.log(positions[:, self._logs])
        positions -= self._start
        positions /= self._end - self._start
        return np.asarray(np.minimum(np.maximum(positions, 0.0), 1.0))

    def from_unit(self, points: Array) -> Codes:
        """Return the numbers at positions in [0, 1] of the parameters' scales, ``(n, k)`` -> ``(n, k)``."""
        numbers = self._start * (1.0 - points) + self._end * points
        if self._logs.size:
            numbers[:, self._logs] = np.exp(numbers[:, self._logs])
        return np.asarray(np.minimum(np.maximum(numbers, self._low), self._high))
