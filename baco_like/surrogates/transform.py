"""The scale on which values are modelled: logarithms if all have the same sign, then standardised.

Run times spread over orders of magnitude, and what counts is ratios; in BaCO's ablation (section
5.3, Fig. 9) leaving the logarithms out cost most. The same holds of rates, which are maximised and
so are negative costs: there it is minus the logarithm of the rate, that of the time but for a
constant. Where signs differ or a value is zero, ``asinh`` of the robustly standardised value takes
the logarithm's place: it is linear about the median and a logarithm of either sign far from it. All
are monotone, so the order of the values, and with it the best, is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from baco_like._typing import Array

LEAST = float(np.finfo(float).tiny)
LARGEST_LOG = 709.0
"""exp of this is still finite."""

LARGEST_DEVIATION = 1e154
"""Its square is still finite."""


class Scale(Protocol):
    """A monotone map from the user's unit to the scale on which values are modelled."""

    def forward(self, y: Array) -> Array:
        """Return values on the model's scale."""

    def backward(self, z: Array) -> Array:
        """Return values in the user's unit, the inverse of `forward`; finite if ``z`` is."""

    def forward_variance(self, y: Array, variance: Array) -> Array:
        """Return variances of values on the model's scale, to first order."""

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance in the user's unit of values normal on the model's scale."""


FitScale = Callable[[Array], Scale]
"""Makes a scale of one or more finite values, such as `fit_transform`."""


@dataclass(frozen=True)
class Standardised:
    """The scale without a logarithm: (y / unit - mean) / deviation.

    Attributes:
        unit: Power of two near the largest magnitude, so that differences cannot overflow.
        mean: Mean of y / unit.
        deviation: Standard deviation of y / unit, 1 where they are all equal.
    """

    unit: float
    mean: float
    deviation: float

    def forward(self, y: Array) -> Array:
        """Return standardised values."""
        return (np.asarray(y, dtype=float) / self.unit - self.mean) / self.deviation

    def backward(self, z: Array) -> Array:
        """Return values in the user's unit, the inverse of `forward`."""
        return _saturating(np.asarray(z, dtype=float) * self.deviation + self.mean, self.unit, 1.0)

    def forward_variance(self, y: Array, variance: Array) -> Array:
        """Return variances on the model's scale."""
        with np.errstate(over="ignore"):
            deviation = np.sqrt(variance) / self.unit / self.deviation
        return np.asarray(np.minimum(deviation, 1e3) ** 2)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance in the user's unit."""
        centre = np.asarray(mean, dtype=float) * self.deviation + self.mean
        deviation = np.sqrt(np.asarray(variance, dtype=float))
        return (
            _saturating(centre, self.unit, 1.0),
            _squared(_saturating(deviation, self.deviation, self.unit)),
        )


@dataclass(frozen=True)
class Transform:
    """A monotone map from the user's unit to the model's scale; see `fit_transform`.

    With u = log(y), or u = asinh((y / unit - centre) / width), the model's value is (u - mean) /
    deviation.

    Attributes:
        kind: Which of the two.
        unit: Power of two near the largest magnitude, so that differences cannot overflow.
        centre: Median of y / unit.
        width: Spread of y / unit.
        mean: Mean of u.
        deviation: Standard deviation of u, 1 where they are all equal.
    """

    kind: Literal["log", "asinh"]
    unit: float
    centre: float
    width: float
    mean: float
    deviation: float

    def forward(self, y: Array) -> Array:
        """Return values on the model's scale; to a logarithm zero is the least positive number."""
        return (self._warp(np.asarray(y, dtype=float)) - self.mean) / self.deviation

    def backward(self, z: Array) -> Array:
        """Return values in the user's unit, the inverse of `forward`; finite if ``z`` is."""
        u = np.asarray(z, dtype=float) * self.deviation + self.mean
        if self.kind == "log":
            return np.exp(np.clip(u, -745.0, LARGEST_LOG))
        return self._from_width(np.sinh(np.clip(u, -LARGEST_LOG, LARGEST_LOG)))

    def forward_variance(self, y: Array, variance: Array) -> Array:
        """Return variances of values on the model's scale, to first order (delta method)."""
        y = np.asarray(y, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kind == "log":
                slope = 1.0 / np.maximum(y, LEAST)
            else:
                u = (y / self.unit - self.centre) / self.width
                slope = 1.0 / np.hypot(1.0, u) / self.width / self.unit
            deviation = np.sqrt(variance) * (slope / self.deviation)
        return np.where(np.asarray(variance) > 0.0, np.minimum(deviation, 1e3) ** 2, 0.0)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance in the user's unit of values normal on the model's scale.

        Closed forms of the lognormal and of the hyperbolic sine of a normal variable.
        """
        m = np.asarray(mean, dtype=float) * self.deviation + self.mean
        v = np.minimum(np.asarray(variance, dtype=float) * self.deviation**2, LARGEST_LOG)
        if self.kind == "log":
            centre = m + 0.5 * v
            relative = 0.5 * np.log(np.maximum(np.expm1(v), LEAST))
            return _exp(centre), _squared(_exp(centre + relative) * (v > 0.0))
        bounded = np.clip(m, -LARGEST_LOG / 4, LARGEST_LOG / 4)
        v = np.minimum(v, LARGEST_LOG / 4)
        centre = np.sinh(bounded) * np.exp(0.5 * v)
        spread = np.sqrt(0.5 * np.expm1(v) * (np.exp(v) * np.cosh(2.0 * bounded) + 1.0))
        return self._from_width(centre), _squared(_saturating(spread, self.width, self.unit))

    def _warp(self, y: Array) -> Array:
        if self.kind == "log":
            return np.log(np.maximum(y, np.nextafter(0.0, 1.0)))
        return np.asarray(np.arcsinh((y / self.unit - self.centre) / self.width))

    def _from_width(self, u: Array) -> Array:
        return _saturating(_saturating(u, self.width, 1.0) + self.centre, self.unit, 1.0)


@dataclass(frozen=True)
class Mirrored:
    """The scale of the values with the opposite sign, turned round: for negative values.

    Attributes:
        opposite: The scale of -y.
    """

    opposite: Transform

    def forward(self, y: Array) -> Array:
        """Return values on the model's scale; to a logarithm zero is the greatest negative number."""
        return -self.opposite.forward(-np.asarray(y, dtype=float))

    def backward(self, z: Array) -> Array:
        """Return values in the user's unit, the inverse of `forward`; finite if ``z`` is."""
        return -self.opposite.backward(-np.asarray(z, dtype=float))

    def forward_variance(self, y: Array, variance: Array) -> Array:
        """Return variances of values on the model's scale, to first order (delta method)."""
        return self.opposite.forward_variance(-np.asarray(y, dtype=float), variance)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance in the user's unit of values normal on the model's scale."""
        centre, spread = self.opposite.moments(-np.asarray(mean, dtype=float), variance)
        return -centre, spread


def fit_transform(y: Array) -> Transform | Mirrored:
    """Return the transform whose values of ``y`` have mean 0 and population variance 1 (or 0).

    Args:
        y: One or more finite values in the user's unit.

    Raises:
        ValueError: There is no value, or one is not finite.
    """
    y = np.asarray(y, dtype=float)
    if y.size == 0 or not np.all(np.isfinite(y)):
        raise ValueError("a transform needs one or more finite values; leave failures out")
    if np.all(y < 0.0):
        return Mirrored(_fit(-y))
    return _fit(y)


def _fit(y: Array) -> Transform:
    if np.all(y > 0.0):
        rough = Transform("log", 1.0, 0.0, 1.0, 0.0, 1.0)
    else:
        unit = _power_of_two(float(np.abs(y).max()))
        scaled = y / unit
        rough = Transform("asinh", unit, float(np.median(scaled)), _spread(scaled), 0.0, 1.0)
    u = rough.forward(y)
    mean, deviation = float(u.mean()), float(u.std())
    # Below this the differences are rounding: a standard deviation of 1 would blow them up.
    if deviation <= 1e-13 * max(1.0, abs(mean)):
        deviation = 1.0
    return Transform(rough.kind, rough.unit, rough.centre, rough.width, mean, deviation)


def standardise(y: Array) -> Standardised:
    """Return the scale whose values of ``y`` have mean 0 and population variance 1 (or 0), without a logarithm.

    Args:
        y: One or more finite values in the user's unit.

    Raises:
        ValueError: There is no value, or one is not finite.
    """
    y = np.asarray(y, dtype=float)
    if y.size == 0 or not np.all(np.isfinite(y)):
        raise ValueError("a scale needs one or more finite values; leave failures out")
    unit = _power_of_two(float(np.abs(y).max()))
    mean, deviation = float((y / unit).mean()), float((y / unit).std())
    return Standardised(unit, mean, deviation if deviation > 1e-13 * max(1.0, abs(mean)) else 1.0)


def _spread(scaled: Array) -> float:
    """Return the quartile range over a normal variable's, or the deviation where that is 0."""
    low, high = np.quantile(scaled, [0.25, 0.75])
    for width in (float(high - low) / 1.349, float(scaled.std())):
        if width > 1e-200:
            return width
    return 1.0


def _power_of_two(x: float) -> float:
    """Return the largest power of two up to ``x`` (1 for 0), kept off the range's ends."""
    if x == 0.0:
        return 1.0
    return math.ldexp(1.0, min(max(math.frexp(x)[1] - 1, -1000), 1000))


def _exp(x: Array) -> Array:
    return np.exp(np.clip(x, -745.0, LARGEST_LOG))


def _squared(deviation: Array) -> Array:
    return np.asarray(np.minimum(deviation, LARGEST_DEVIATION) ** 2)


def _saturating(x: Array, first: float, second: float) -> Array:
    """Return x * first * second, held at the largest finite number."""
    with np.errstate(over="ignore"):
        product = x * first * second
    largest = np.finfo(float).max
    return np.clip(product, -largest, largest)
