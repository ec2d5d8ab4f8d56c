"""Logarithms of improvement functions, accurate where the functions themselves underflow to zero.

Far from the incumbent, expected improvement underflows and an optimizer sees a plateau of zeros. Its logarithm has a
slope everywhere (Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization",
NeurIPS 2023, section 4.1).
"""

from __future__ import annotations

import math

import numpy as np

from baco_like._typing import Array

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
HALF_LOG_HALF_PI = 0.5 * math.log(0.5 * math.pi)
FAR = -1e3
"""Below this, two terms of the asymptotic series are exact in double precision, while the closed form cancels."""

LEAST_DEVIATION = 1e-10
"""Floor of a standard deviation; smaller than the rounding error of values of order one. It keeps log EI finite."""


def log_h(z: Array) -> Array:
    """Return log h(z) with h(z) = phi(z) + z Phi(z), elementwise; expected improvement is the deviation times h(z).

    Three ranges: the definition above -1; then, with erfcx the scaled complementary error function,

        log h(z) = -z^2/2 - log(2 pi)/2 + log(1 - |z| sqrt(pi/2) erfcx(-z / sqrt(2)))

    (Ament et al. 2023, section 4.1, without its nested logarithms, which this range does not need); and below `FAR` the
    asymptotic series h(z) = phi(z) (1/z^2 - 3/z^4 + ...), because the difference in the bracket cancels to 1/z^2.
    """
    from scipy.special import erfcx, ndtr

    z = np.asarray(z, dtype=float)
    result = np.empty_like(z)
    near = ~(z < -1.0)
    if near.any():
        n = z[near]
        result[near] = np.log(np.exp(-0.5 * n * n - HALF_LOG_2PI) + n * ndtr(n))
    middle = (z < -1.0) & (z >= FAR)
    if middle.any():
        m = z[middle]
        bracket = 1.0 + m * math.exp(HALF_LOG_HALF_PI) * erfcx(-m / math.sqrt(2.0))
        result[middle] = -0.5 * m * m - HALF_LOG_2PI + np.log(bracket)
    far = z < FAR
    if far.any():
        f = z[far]
        square = f * f
        result[far] = -0.5 * square - HALF_LOG_2PI - np.log(square) + np.log1p(-3.0 / square)
    return np.asarray(result)


def log_ei(mean: Array, variance: Array, incumbent: float) -> Array:
    """Return log E[max(incumbent - f, 0)] for normal f, elementwise (Jones et al. 1998, Eq. 15).

    Args:
        mean: Means of f, ``(n,)``.
        variance: Variances of f, ``(n,)``.
        incumbent: The value that f must fall below.
    """
    deviation = deviations(variance)
    return np.log(deviation) + log_h((incumbent - mean) / deviation)


def log_pi(mean: Array, variance: Array, incumbent: float) -> Array:
    """Return log P(f < incumbent) for normal f, elementwise."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr((incumbent - mean) / deviations(variance)))


def deviations(variance: Array) -> Array:
    """Return standard deviations, at least `LEAST_DEVIATION`."""
    return np.sqrt(np.maximum(variance, LEAST_DEVIATION**2))
