"""Numbers between two bounds: whole ones, real ones, and real ones with a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, cast, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Column, Features, Ints, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import distances, priors
from baco_like.parameters.bases import IndexedParameter, ParameterDefaults, checked_default
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import (
    INT64,
    ColumnKind,
    Extent,
    extent_of,
    indices,
    is_number,
    number,
    plain,
    real_number,
)


def check_bounds(low: float, high: float, log: bool) -> None:
    """Check the bounds of a number.

    Raises:
        SpaceError: The domain is empty, or not positive with ``log``.
    """
    if low > high:
        raise SpaceError(f"the domain [{low!r}, {high!r}] is empty; low must not exceed high")
    if log and low <= 0:
        raise SpaceError(f"log=True needs positive bounds, got low = {low!r}")


class SteppedNumber(IndexedParameter):
    """A parameter of the numbers ``low``, ``low + step``, ..., ``high``; it may have a density as its prior."""

    low: Any
    high: Any
    step: Any = 1
    log = False

    def column(self, codes: Codes) -> Column:
        """Return the numbers, ``(n, 1)`` -> ``(n,)``."""
        raise NotImplementedError

    def decode(self, codes: Codes) -> list[Any]:
        """Return the numbers as Python numbers."""
        return list(self.column(codes).tolist())

    @property
    def _ends(self) -> tuple[float, float]:
        """The ends of the numbers' intervals: half a step below ``low`` and above ``high``."""
        return float(self.low) - 0.5 * self.step, float(self.high) + 0.5 * self.step

    @override
    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n codes from the prior, by default uniform on the parameter's scale.

        With a density, each number has the interval from half a step below it to half a step above it.
        """
        if not isinstance(self.prior, priors.Density):
            return super().sample(n, rng)
        if self.cardinality == 1:
            return np.zeros((n, 1))
        drawn = priors.sample_density(self.prior, *self._ends, self.log, n, rng)
        steps = np.rint((drawn - float(self.low)) / self.step)
        return np.asarray(np.clip(steps, *self.code_range)[:, None])

    @override
    def log_density(self, codes: Codes) -> Array:
        """Return the log ratio of the prior's density to the uniform density, ``(n, 1)`` -> ``(n,)``."""
        if not isinstance(self.prior, priors.Density):
            return super().log_density(codes)
        if self.cardinality == 1:
            return np.zeros(len(codes))
        numbers = float(self.low) + codes[:, 0] * self.step
        return priors.density_log(self.prior, numbers, *self._ends, self.log)


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


@final
@dataclass(frozen=True)
class Real(ParameterDefaults):
    """A real number in ``[low, high]``, both included; its code is the number itself.

    With a step it is a `SteppedReal` instead: ``low``, ``low + step``, and so on up to ``high``.

    Attributes:
        low: The smallest value.
        high: The largest value; equal to ``low`` for a constant.
        log: Whether steps are ratios, as for sizes: sampling, distance and features then use the logarithm.
        default: Value in the default configuration, or None.
        prior: Density of the values that the user expects to be good, or None.
        step: Distance of neighbouring values, or None for every number.

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
    step: InitVar[float | None] = None

    def __new__(
        cls,
        low: float,
        high: float,
        log: bool = False,
        default: float | None = None,
        prior: priors.Density | None = None,
        step: float | None = None,
    ) -> Real:
        """Return a new real, or a `SteppedReal` if it has a step."""
        if step is None:
            return super().__new__(cls)
        if log:
            raise SpaceError("a real with a step has no logarithmic scale; remove log or step")
        return cast("Real", SteppedReal(low, high, step, default, prior))

    def __getnewargs__(self) -> tuple[float, float]:
        return self.low, self.high

    def __post_init__(self, step: float | None) -> None:
        vars(self).update(low=real_number(self.low, "low"), high=real_number(self.high, "high"))
        check_bounds(self.low, self.high, self.log)
        if self.high - self.low == math.inf:
            raise SpaceError(f"{self.low!r} and {self.high!r} are too far apart for doubles")
        vars(self).update(default=checked_default(self, self.default))
        _check_prior(self.prior, self.log)

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

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description, without the step that it does not have."""
        return {k: v for k, v in super().to_dict().items() if k != "step"}

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


def _check_prior(prior: Any, log: bool) -> None:
    if prior is None:
        return
    if not isinstance(prior, priors.Density):
        raise SpaceError(
            f"the prior of a real must be a Gaussian or PiecewiseLinear density, got {prior!r}"
        )
    priors.check_density(prior, log)


_LISTED = 2**16
"""Most values of a real with a step for which there is a list of them."""

_TOLERANCE = 1e-8
"""Distance from a multiple of the step, in steps, up to which a number is this value, as in Optuna."""


@final
@dataclass(frozen=True)
class SteppedReal(SteppedNumber):
    """The numbers ``low + k * step`` up to ``high``, as in Optuna's ``FloatDistribution``; the code is k.

    They are computed in doubles: ``Real(0, 1, step=0.05)`` has 0.15000000000000002, and 0.15 is read as this value.

    Attributes:
        low: The smallest value.
        high: The largest value: the given bound, or the last multiple of the step below it.
        step: Distance of neighbouring values.
        default: Value in the default configuration, or None.
        prior: Density of the values that the user expects to be good, or None.

    Raises:
        SpaceError: As for `Real`; the step is not positive, or there are more than 2**53 values.
    """

    kind = ParameterKind.ORDERED

    low: float
    high: float
    step: float
    default: float | None = None
    prior: priors.Density | None = None

    def __post_init__(self) -> None:
        ends = {name: real_number(getattr(self, name), name) for name in ("low", "high", "step")}
        low, high, step = ends.values()
        check_bounds(low, high, log=False)
        if step <= 0:
            raise SpaceError(f"step must be positive, got {step!r}")
        if (high - low) / step >= 2**53:
            raise SpaceError(f"the step {step!r} makes more than 2**53 values; leave it out")
        # In decimals, so that 1.0 is a multiple of 0.05.
        start, unit = Decimal(str(low)), Decimal(str(step))
        steps = int((Decimal(str(high)) - start) // unit)
        vars(self).update(low=low, high=float(start + steps * unit), step=step, _count=steps + 1)
        vars(self).update(default=checked_default(self, self.default))
        _check_prior(self.prior, log=False)

    @property
    @override
    def cardinality(self) -> int:
        """Number of values."""
        return int(vars(self)["_count"])

    @cached_property
    def values(self) -> tuple[float, ...] | None:
        """The values in increasing order, or None if there are more than 65,536."""
        if self.cardinality > _LISTED:
            return None
        return tuple(self.decode(np.arange(self.cardinality, dtype=np.float64)[:, None]))

    @property
    def extent(self) -> Extent:
        """Type and bounds of `column`."""
        return Extent(ColumnKind.FLOAT, self.low, self.high)

    def contains(self, value: Any) -> bool:
        """Whether it is one of the values up to 1e-8 steps; bools are rejected."""
        value = plain(value)
        if not (is_number(value) and self.low <= value <= self.high):
            return False
        steps = (float(value) - self.low) / self.step
        own = min(
            round(steps) * self.step + self.low, self.high
        )  # steps are inexact if there are many
        return abs(steps - round(steps)) < _TOLERANCE or value == own

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return the numbers of steps from ``low``, ``(n, 1)``.

        Raises:
            ConfigError: A value is not a number of the domain.
        """
        for value in values:
            if not self.contains(value):
                raise ConfigError(
                    f"{value!r} is not one of {self.low!r}, {self.low + self.step!r}, ..., {self.high!r}"
                )
        numbers = np.array([float(plain(value)) for value in values]).reshape(-1, 1)
        return np.clip(np.rint((numbers - self.low) / self.step), *self.code_range)

    @override
    def column(self, codes: Codes) -> Column:
        """Return the numbers, ``(n, 1)`` -> ``(n,)``."""
        return np.asarray(np.minimum(codes[:, 0] * self.step + self.low, self.high))

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return ``|a - b|`` (Hellsten et al. 2023, section 4.1)."""
        return distances.absolute(a[:, 0] * self.step, b[:, 0] * self.step)

    def features(self, codes: Codes) -> Features:
        """Return the position in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
        steps = self.cardinality - 1
        return codes / steps if steps else np.empty((len(codes), 0))

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description: the type ``real`` with its step."""
        prior = priors.to_json(self.prior)
        ends = {"low": self.low, "high": self.high, "step": self.step}
        return {"type": "real", **ends, "default": self.default, "prior": prior}


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
