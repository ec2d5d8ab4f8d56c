"""The logarithm of the expected gain of dominated hypervolume, exact for independent normal objectives."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Ints, Mask
from baco_like.acquisitions.functions import HALF_LOG_2PI, deviations, log_h

_BLOCK = 1 << 15
"""Number of entries of a temporary array, which fits into the processor's cache."""

_LEAST = 1e-250
"""Sums below this are computed with logarithms: some of their terms have underflowed."""


def log_ehvi(means: Array, variances: Array, lower: Array, upper: Array) -> Array:
    """Return log E[gain of hypervolume] of n candidates with m independent normal objectives, ``(n,)``.

    A candidate gains the volume that it dominates within the boxes below the front. So the expectation is a sum over
    boxes of products over objectives of E[(u - max(f, l))+] = s (h((u - mu) / s) - h((l - mu) / s)), with h as in
    `baco_like.acquisitions.functions.log_h` (Yang et al., "Efficient computation of expected hypervolume improvement
    using box decomposition algorithms", 2019, section 3). Far from the front all terms underflow, and logarithms are
    summed instead (Ament et al., NeurIPS 2023, section 4).

    Args:
        means: Means of the costs, ``(n, m)``.
        variances: Their variances, ``(n, m)``.
        lower: Lower corners of the boxes, ``(k, m)``; -infinity where a box has no lower end.
        upper: Upper corners, ``(k, m)``.
    """
    deviation = deviations(variances)
    result = np.empty(len(means))
    size = max(1, _BLOCK // max(len(lower), 1))
    for at in range(0, len(means), size):
        block = slice(at, at + size)
        total = _sum_of_products(means[block], deviation[block], lower, upper)
        small = np.flatnonzero(~(total > _LEAST))
        total[small] = 1.0
        result[block] = np.log(total) + np.log(deviation[block]).sum(axis=1)
        if len(small):
            rows = small + at
            result[rows] = _log_sum(means[rows], deviation[rows], lower, upper)
    return result


def _ends_of(lower: Array, upper: Array) -> tuple[Array, Ints, Ints, Mask]:
    """Return the finite ends of the boxes in one objective, where those of each box are, and which boxes have both.

    Boxes share their ends, and each end is evaluated once.
    """
    bounded = np.isfinite(lower)
    ends = np.unique(np.concatenate([lower[bounded], upper]))
    return ends, np.searchsorted(ends, lower[bounded]), np.searchsorted(ends, upper), bounded


def _sum_of_products(means: Array, deviation: Array, lower: Array, upper: Array) -> Array:
    """Return the expected gains in units of the deviations, ``(n,)``."""
    from scipy.special import ndtr

    product = np.ones((len(means), len(lower)))
    for j in range(lower.shape[1]):
        ends, at_lower, at_upper, bounded = _ends_of(lower[:, j], upper[:, j])
        z = (ends - means[:, j, None]) / deviation[:, j, None]
        heights = np.exp(-0.5 * z * z - HALF_LOG_2PI) + z * ndtr(z)
        lengths = heights[:, at_upper]
        lengths[:, bounded] -= heights[:, at_lower]
        product *= lengths
    return np.asarray(product.sum(axis=1))


def _log_sum(means: Array, deviation: Array, lower: Array, upper: Array) -> Array:
    """Return the logarithms of the expected gains, also where they are below all floats, ``(n,)``."""
    from scipy.special import logsumexp

    total = np.zeros((len(means), len(lower)))
    for j in range(lower.shape[1]):
        ends, at_lower, at_upper, bounded = _ends_of(lower[:, j], upper[:, j])
        heights = log_h((ends - means[:, j, None]) / deviation[:, j, None])
        high = heights[:, at_upper]
        low = heights[:, at_lower]
        high[:, bounded] += np.log(-np.expm1(np.minimum(low - high[:, bounded], -1e-300)))
        total += high + np.log(deviation[:, j, None])
    return np.asarray(logsumexp(total, axis=1))
