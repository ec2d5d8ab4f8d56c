"""The scale on which values are modelled: logarithms if all values have the same sign, then standardised.

Run times spread over orders of magnitude and ratios count; in BaCO's ablation (section 5.3, Fig. 9) no other change
cost as much as modelling without logarithms. The same holds for rates. They are maximised, so they are negative costs,
and their scale is minus the logarithm of the rate: the logarithm of the time, up to a constant.

If signs differ or a value is zero, ``asinh`` of the robustly standardised value replaces the logarithm: it is linear
near the median and logarithmic far from it. All transforms are monotone, so they keep the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from baco_like._typing import Array

LEAST = float(np.finfo(float).tiny)
LARGEST = float(np.finfo(float).max)
LARGEST_LOG = 709.0
"""exp of this is still finite."""

LARGEST_DEVIATION = 1e154
"""The square of this is still finite."""


class Scale(Protocol):
    """A monotone map from the user's unit to the scale on which values are modelled; all arrays are ``(n,)``."""

    def forward(self, y: Array) -> Array:
        """Return values on the model's scale."""

    def backward(self, z: Array) -> Array:
        """Return values in the user's unit, the inverse of `forward`; finite if ``z`` is finite."""

    def forward_variance(self, y: Array, variance: Array) -> Array:
        """Return the variances on the model's scale of values ``y``, to first order (delta method)."""

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance in the user's unit of values that are normal on the model's scale."""


FitScale = Callable[[Array], Scale]
"""Fits a scale to one or more finite values; `fit_transform` is one."""


@dataclass(frozen=True)
class Transform:
    """A `Scale`: the model's value is sign * (u - mean) / deviation with u = warp(sign * y).

    The warp is log(y), or asinh((y / unit - centre) / width), or y / unit.

    Attributes:
        kind: The warp.
        sign: -1 for negative values under a logarithm, else 1.
        unit: Power of two near the largest magnitude, so that differences cannot overflow.
        centre: Median of y / unit.
        width: Spread of y / unit.
        mean: Mean of u.
        deviation: Standard deviation of u, or 1 if all values are equal.
    """

    kind: Literal["log", "asinh", "linear"]
    sign: float = 1.0
    unit: float = 1.0
    centre: float = 0.0
    width: float = 1.0
    mean: float = 0.0
    deviation: float = 1.0

    def forward(self, y: Array) -> Array:
        """Return values on the model's scale; for a logarithm, 0 counts as the smallest positive number."""
        return self.sign * (self.warp(y) - self.mean) / self.deviation

    def backward(self, z: Array) -> Array:
        """Return values in the user's unit, the inverse of `forward`; finite if ``z`` is finite."""
        u = self.sign * np.asarray(z, dtype=float) * self.deviation + self.mean
        if self.kind == "log":
            return self.sign * np.exp(np.clip(u, -745.0, LARGEST_LOG))
        if self.kind == "linear":
            return _saturating_product(u, self.unit, 1.0)
        return self._from_width(np.sinh(np.clip(u, -LARGEST_LOG, LARGEST_LOG)))

    def forward_variance(self, y: Array, variance: Array) -> Array:
        """Return the variances on the model's scale of values ``y``, to first order (delta method)."""
        y = self.sign * np.asarray(y, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kind == "log":
                deviation = np.sqrt(variance) * (1.0 / np.maximum(y, LEAST) / self.deviation)
            elif self.kind == "linear":
                deviation = np.sqrt(variance) / self.unit / self.deviation
            else:
                slope = 1.0 / np.hypot(1.0, (y / self.unit - self.centre) / self.width)
                slope = slope / self.width / self.unit
                deviation = np.sqrt(variance) * (slope / self.deviation)
        return np.where(np.asarray(variance) > 0.0, np.minimum(deviation, 1e3) ** 2, 0.0)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance in the user's unit of values that are normal on the model's scale.

        Closed forms for the lognormal variable and for the hyperbolic sine of a normal variable.
        """
        m = self.sign * np.asarray(mean, dtype=float) * self.deviation + self.mean
        if self.kind == "linear":
            spread = np.sqrt(np.asarray(variance, dtype=float))
            spread = _saturating_product(spread, self.deviation, self.unit)
            return _saturating_product(m, self.unit, 1.0), _bounded_square(spread)
        v = np.minimum(np.asarray(variance, dtype=float) * self.deviation**2, LARGEST_LOG)
        if self.kind == "log":
            centre = m + 0.5 * v
            relative = 0.5 * np.log(np.maximum(np.expm1(v), LEAST))
            spread = _bounded_exp(centre + relative) * (v > 0.0)
            return self.sign * _bounded_exp(centre), _bounded_square(spread)
        m, v = np.clip(m, -LARGEST_LOG / 4, LARGEST_LOG / 4), np.minimum(v, LARGEST_LOG / 4)
        spread = np.sqrt(0.5 * np.expm1(v) * (np.exp(v) * np.cosh(2.0 * m) + 1.0))
        spread = _saturating_product(spread, self.width, self.unit)
        return self._from_width(np.sinh(m) * np.exp(0.5 * v)), _bounded_square(spread)

    def warp(self, y: Array) -> Array:
        """Return u, the transformed values before standardisation."""
        y = self.sign * np.asarray(y, dtype=float)
        if self.kind == "log":
            return np.log(np.maximum(y, np.nextafter(0.0, 1.0)))
        if self.kind == "linear":
            return y / self.unit
        return np.asarray(np.arcsinh((y / self.unit - self.centre) / self.width))

    def _from_width(self, u: Array) -> Array:
        return _saturating_product(
            _saturating_product(u, self.width, 1.0) + self.centre, self.unit, 1.0
        )


def fit_transform(y: Array) -> Transform:
    """Return the transform that gives ``y`` mean 0 and population variance 1, or 0 if all values are equal.

    Args:
        y: One or more finite values in the user's unit.

    Raises:
        ValueError: ``y`` is empty, or a value is not finite.
    """
    y = _check_values(y, "a transform")
    if np.all(y > 0.0) or np.all(y < 0.0):
        return _standardise(Transform("log", sign=float(np.sign(y[0]))), y)
    return fit_asinh(y)


def fit_asinh(y: Array) -> Transform:
    """Return the transform by ``asinh``, linear between the quartiles and logarithmic far from them, standardised.

    For several objectives: the logarithm stretches the range of the least values, and with it the volume that is
    dominated there.

    Args:
        y: One or more finite values in the user's unit.

    Raises:
        ValueError: ``y`` is empty, or a value is not finite.
    """
    y = _check_values(y, "a transform")
    unit = _power_of_two(float(np.abs(y).max()))
    scaled = y / unit
    ascending = np.sort(scaled)
    centre = float(0.5 * (ascending[(len(y) - 1) // 2] + ascending[len(y) // 2]))
    width = _spread(scaled, ascending)
    return _standardise(Transform("asinh", unit=unit, centre=centre, width=width), y)


def standardise(y: Array) -> Transform:
    """Return the linear scale that gives ``y`` mean 0 and population variance 1, or 0 if all values are equal.

    Args:
        y: One or more finite values in the user's unit.

    Raises:
        ValueError: ``y`` is empty, or a value is not finite.
    """
    y = _check_values(y, "a scale")
    return _standardise(Transform("linear", unit=_power_of_two(float(np.abs(y).max()))), y)


def _check_values(y: Array, name: str) -> Array:
    y = np.asarray(y, dtype=float)
    if y.size == 0 or not np.all(np.isfinite(y)):
        raise ValueError(f"{name} needs one or more finite values; leave failures out")
    return y


def _standardise(transform: Transform, y: Array) -> Transform:
    """Return the transform with mean and deviation fitted to ``y``."""
    u = transform.warp(y)
    mean, deviation = float(u.mean()), float(u.std())
    # Below this limit the differences are rounding errors, which a deviation of 1 must not magnify.
    if deviation <= 1e-13 * max(1.0, abs(mean)):
        deviation = 1.0
    return replace(transform, mean=mean, deviation=deviation)


def quantile_of(ascending: Array, share: float) -> float:
    """Return the same quantile of sorted numbers as `np.quantile`, which takes ten times as long for few numbers.

    Args:
        ascending: One or more finite numbers, ``(n,)``.
        share: From 0 to 1.
    """
    place = share * (len(ascending) - 1)
    below = int(place)
    low, high = float(ascending[below]), float(ascending[min(below + 1, len(ascending) - 1)])
    part = place - below
    return high - (high - low) * (1.0 - part) if part >= 0.5 else low + (high - low) * part


def _spread(scaled: Array, ascending: Array) -> float:
    """Return the interquartile range relative to a normal variable's, or the standard deviation if that is 0."""
    quartiles = quantile_of(ascending, 0.75) - quantile_of(ascending, 0.25)
    for width in (quartiles / 1.349, float(scaled.std())):
        if width > 1e-200:
            return width
    return 1.0


def _power_of_two(x: float) -> float:
    """Return the largest power of two up to ``x`` (1 for 0), kept away from the ends of the range of doubles."""
    if x == 0.0:
        return 1.0
    return math.ldexp(1.0, min(max(math.frexp(x)[1] - 1, -1000), 1000))


def _bounded_exp(x: Array) -> Array:
    return np.exp(np.clip(x, -745.0, LARGEST_LOG))


def _bounded_square(deviation: Array) -> Array:
    return np.asarray(np.minimum(deviation, LARGEST_DEVIATION) ** 2)


def _saturating_product(x: Array, first: float, second: float) -> Array:
    """Return x * first * second, limited to finite numbers."""
    with np.errstate(over="ignore"):
        product = x * first * second
    return np.maximum(np.minimum(product, LARGEST), -LARGEST)
