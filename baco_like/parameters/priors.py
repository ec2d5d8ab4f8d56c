"""Priors: where the user expects good values, as weights on values or a density on a range.

A density lives on the parameter's scale (of the logarithm for log parameters) and is truncated at the ends of the
domain. Log densities are always relative to the uniform density, so 0 means "no opinion".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from baco_like._typing import Array, Ints, Rng
from baco_like.exceptions import SpaceError
from baco_like.parameters.values import real_number


@dataclass(frozen=True)
class Gaussian:
    """A normal density, truncated at the ends of the domain.

    Attributes:
        mean: The value believed best, in the parameter's own units (positive for a log parameter).
        std: The standard deviation; for a log parameter, of the natural logarithm (0.69 is a factor of 2).

    Raises:
        SpaceError: A number is missing or not finite, or ``std`` is not positive.
    """

    mean: float
    std: float

    def __post_init__(self) -> None:
        mean = real_number(self.mean, "mean of the prior")
        vars(self).update(mean=mean, std=real_number(self.std, "std of the prior"))
        if self.std <= 0:
            raise SpaceError(f"std of the prior must be positive, got {self.std!r}")


@dataclass(frozen=True)
class PiecewiseLinear:
    """A density that is linear between weights at equal distances over the domain's scale.

    Attributes:
        weights: At least two non-negative numbers, not all zero; the first is at the lower end, the last at the upper.

    Raises:
        SpaceError: Fewer than two weights, a negative one, or all zero.
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        vars(self).update(weights=weights(self.weights))
        if len(self.weights) < 2:
            raise SpaceError("a piecewise linear prior needs at least two weights")


Density: TypeAlias = Gaussian | PiecewiseLinear
Weights: TypeAlias = tuple[float, ...]


def weights(given: Sequence[Any], count: int | None = None) -> Weights:
    """Return checked weights as floats.

    Raises:
        SpaceError: Their number is not ``count``, one is negative or not a finite number, or all are zero.
    """
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise SpaceError(f"a prior must be a list of weights or a density, got {given!r}")
    checked = tuple(real_number(weight, "a weight of the prior") for weight in given)
    if count is not None and len(checked) != count:
        raise SpaceError(f"a prior needs a weight for each of {count} values, got {len(checked)}")
    if min(checked, default=0.0) < 0 or not max(checked, default=0.0) > 0:
        raise SpaceError("the weights of a prior must not be negative, and one must be positive")
    return checked


def check_density(density: Density, log: bool) -> None:
    """Refuse a density that does not fit the scale.

    Raises:
        SpaceError: The mean of a log parameter's prior is not positive.
    """
    if log and isinstance(density, Gaussian) and density.mean <= 0:
        raise SpaceError(f"the prior's mean must be positive with log=True, got {density.mean!r}")


def sample_weighted(given: Weights, n: int, rng: Rng) -> Ints:
    """Return n indices drawn in proportion to the weights."""
    return rng.choice(len(given), size=n, p=_shares(given))


def weights_log_density(given: Weights) -> Array:
    """Return, for each value, the log ratio of its probability to the uniform probability."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(_shares(given)) + math.log(len(given)))


def _shares(given: Weights) -> Array:
    share = np.asarray(given) / max(given)  # first: the sum of weights near 1e308 is not finite
    return np.asarray(share / share.sum())


def to_scale(numbers: Array, log: bool) -> Array:
    """Return numbers on their scale: unchanged, or their natural logarithm (they must be positive)."""
    return np.log(numbers) if log else np.asarray(numbers, dtype=np.float64)


def from_scale(positions: Array, log: bool) -> Array:
    """Return the numbers at these positions of the scale; the inverse of `to_scale` up to rounding."""
    return np.exp(positions) if log else np.asarray(positions, dtype=np.float64)


def scale_ends(low: float, high: float, log: bool) -> tuple[float, float]:
    """Return the ends of a domain on its scale."""
    return (math.log(low), math.log(high)) if log else (low, high)


def sample_density(density: Density, low: float, high: float, log: bool, n: int, rng: Rng) -> Array:
    """Return n numbers in ``[low, high]``, drawn from the truncated density."""
    start, end = scale_ends(low, high, log)
    u = rng.random(n)
    if isinstance(density, PiecewiseLinear):
        shares = _piecewise_quantile(np.asarray(density.weights), u)
        return from_scale(start + (end - start) * shares, log)
    return from_scale(_gaussian_quantile(density, u, start, end, log), log)


def density_log(density: Density, numbers: Array, low: float, high: float, log: bool) -> Array:
    """Return the log ratio of the density at some numbers to the uniform density on ``[low, high]``."""
    start, end = scale_ends(low, high, log)
    positions = to_scale(numbers, log)
    if isinstance(density, PiecewiseLinear):
        knots = np.asarray(density.weights) / max(density.weights)
        mean = float(np.mean((knots[1:] + knots[:-1]) / 2))
        shares = (positions - start) / (end - start)
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(np.interp(shares, np.linspace(0.0, 1.0, len(knots)), knots) / mean)
            )
    first, last = _standardise(density, np.array([start, end]), log).tolist()
    if _is_flat(first, last):
        return np.zeros(len(numbers))
    z = _standardise(density, positions, log)
    mass = _log_mass(first, last)
    return np.asarray(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - mass + math.log(last - first))


def to_json(argument: Any) -> Any:
    """Return an argument of a parameter as JSON; `prior_from_dict` reads priors."""
    if isinstance(argument, Gaussian):
        return {"gaussian": [argument.mean, argument.std]}
    if isinstance(argument, PiecewiseLinear):
        return {"piecewise_linear": list(argument.weights)}
    return [to_json(part) for part in argument] if isinstance(argument, tuple) else argument


def prior_from_dict(data: Any) -> Any:
    """Return the prior described by weights, ``{"gaussian": [mean, std]}`` or ``{"piecewise_linear": [..]}``.

    Raises:
        SpaceError: The description has another form.
    """
    if not isinstance(data, Mapping):
        return data
    match dict(data):
        case {"gaussian": [mean, std], **rest} if not rest:
            return Gaussian(mean, std)
        case {"piecewise_linear": [*knots], **rest} if not rest:
            return PiecewiseLinear(tuple(knots))
    raise SpaceError(f"prior {data!r} is neither weights, 'gaussian' nor 'piecewise_linear'")


def _standardise(density: Gaussian, positions: Array, log: bool) -> Array:
    mean = math.log(density.mean) if log else density.mean
    return np.asarray((positions - mean) / density.std)


def _is_flat(first: float, last: float) -> bool:
    """Whether a normal density is constant between the ends up to rounding."""
    return (last - first) * max(1.0, abs(first), abs(last)) < 1e-7


def _log_mass(first: float, last: float) -> float:
    """Return the logarithm of the standard normal's mass on ``[first, last]``, accurate in both tails."""
    from scipy.special import log_ndtr

    if first > 0:
        first, last = -last, -first
    bottom, top = float(log_ndtr(first)), float(log_ndtr(last))
    return top + math.log(-math.expm1(bottom - top))


def _gaussian_quantile(density: Gaussian, u: Array, start: float, end: float, log: bool) -> Array:
    """Return the positions of ``[start, end]`` below which shares ``u`` of a truncated normal density lie."""
    from scipy.special import log_ndtr, ndtri_exp

    first, last = _standardise(density, np.array([start, end]), log)
    if _is_flat(first, last):
        return start + (end - start) * u
    sign = 1.0
    if first > 0:  # the lower tail is the accurate one
        first, last, sign = -last, -first, -1.0
    bottom, top = log_ndtr(first), log_ndtr(last)
    with np.errstate(divide="ignore"):
        mass = np.minimum(np.logaddexp(bottom + np.log1p(-u), top + np.log(u)), 0.0)
    mean = math.log(density.mean) if log else density.mean
    return np.asarray(np.clip(mean + density.std * (sign * ndtri_exp(mass)), start, end))


def _piecewise_quantile(knots: Array, u: Array) -> Array:
    """Return the positions in [0, 1] below which shares ``u`` of a piecewise linear density lie."""
    knots = knots / knots.max()
    areas = (knots[1:] + knots[:-1]) / 2
    heights = np.concatenate([[0.0], np.cumsum(areas)])
    target = u * heights[-1]
    piece = np.clip(np.searchsorted(heights, target, side="right") - 1, 0, len(areas) - 1)
    left, right, area = knots[piece], knots[piece + 1], target - heights[piece]
    # Solve left t + (right - left) t^2 / 2 = area for t in [0, 1]; this form has no cancellation.
    root = np.sqrt(np.maximum(left * left + 2.0 * (right - left) * area, 0.0))
    share = np.divide(2.0 * area, left + root, out=np.zeros_like(area), where=(left + root) > 0)
    return np.asarray(np.clip((piece + np.clip(share, 0.0, 1.0)) / len(areas), 0.0, 1.0))
