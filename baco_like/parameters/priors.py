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
        object.__setattr__(self, "mean", real_number(self.mean, "mean of the prior"))
        object.__setattr__(self, "std", real_number(self.std, "std of the prior"))
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
        object.__setattr__(self, "weights", weights(self.weights))
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
        raise SpaceError(
            f"the prior has {len(checked)} weights for {count} values; give one for each"
        )
    if min(checked, default=0.0) < 0 or not max(checked, default=0.0) > 0:
        raise SpaceError("the weights of a prior must not be negative, and one must be positive")
    return checked


def check_density(density: Density, log: bool) -> None:
    """Refuse a density that does not fit the scale.

    Raises:
        SpaceError: The mean of a log parameter's prior is not positive.
    """
    if log and isinstance(density, Gaussian) and density.mean <= 0:
        raise SpaceError(
            f"the mean of a log parameter's prior must be positive, got {density.mean!r}"
        )


def sample_weighted(given: Weights, n: int, rng: Rng) -> Ints:
    """Return n indices drawn in proportion to the weights."""
    return rng.choice(len(given), size=n, p=_shares(given))


def weights_log_density(given: Weights) -> Array:
    """Return, for each value, the log ratio of its probability to the uniform probability."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(_shares(given)) + math.log(len(given)))


def _shares(given: Weights) -> Array:
    share = np.asarray(given) / max(
        given
    )  # divided first: the sum of weights near 1e308 is not finite
    return np.asarray(share / share.sum())


def sample_density(
    density: Density, start: float, end: float, n: int, rng: Rng, log: bool
) -> Array:
    """Return n positions of the scale ``[start, end]``, drawn from the truncated density."""
    u = rng.random(n)
    if isinstance(density, PiecewiseLinear):
        return start + (end - start) * _piecewise_quantile(np.asarray(density.weights), u)
    from scipy.special import log_ndtr, ndtri_exp

    low, high = _standardised(density, np.array([start, end]), log)
    if _flat(low, high):
        return start + (end - start) * u
    flip = low > 0  # the lower tail is the accurate one
    if flip:
        low, high = -high, -low
    bottom, top = log_ndtr(low), log_ndtr(high)
    with np.errstate(divide="ignore"):
        mass = np.minimum(np.logaddexp(bottom + np.log1p(-u), top + np.log(u)), 0.0)
    drawn: Array = ndtri_exp(mass)
    places: Array = _centre(density, log) + density.std * (-drawn if flip else drawn)
    return np.clip(places, start, end)


def density_log(density: Density, places: Array, start: float, end: float, log: bool) -> Array:
    """Return the log ratio of the density at positions of the scale to the uniform density on ``[start, end]``."""
    if isinstance(density, PiecewiseLinear):
        knots = np.asarray(density.weights) / max(density.weights)
        mean = float(np.mean((knots[1:] + knots[:-1]) / 2))
        at = np.interp((places - start) / (end - start), np.linspace(0.0, 1.0, len(knots)), knots)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(at / mean))
    low, high = _standardised(density, np.array([start, end]), log).tolist()
    if _flat(low, high):
        return np.zeros(len(places))
    z = _standardised(density, places, log)
    result: Array = (
        -0.5 * z * z - 0.5 * math.log(2 * math.pi) - _log_mass(low, high) + math.log(high - low)
    )
    return result


def prior_to_dict(prior: Weights | Density | None) -> Any:
    """Return a JSON description; `prior_from_dict` is the inverse."""
    if isinstance(prior, Gaussian):
        return {"gaussian": [prior.mean, prior.std]}
    if isinstance(prior, PiecewiseLinear):
        return {"piecewise_linear": list(prior.weights)}
    return None if prior is None else list(prior)


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


def _centre(density: Gaussian, log: bool) -> float:
    return math.log(density.mean) if log else density.mean


def _standardised(density: Gaussian, places: Array, log: bool) -> Array:
    return np.asarray((places - _centre(density, log)) / density.std)


def _flat(low: float, high: float) -> bool:
    """Whether a normal density is constant between the ends up to rounding."""
    return (high - low) * max(1.0, abs(low), abs(high)) < 1e-7


def _log_mass(low: float, high: float) -> float:
    """Return the logarithm of the standard normal's mass on ``[low, high]``, accurate in both tails."""
    from scipy.special import log_ndtr

    if low > 0:
        low, high = -high, -low
    bottom, top = float(log_ndtr(low)), float(log_ndtr(high))
    return top + math.log(-math.expm1(bottom - top))


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
