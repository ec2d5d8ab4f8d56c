"""The logarithm of the expected gain of dominated hypervolume, exact for independent normal objectives."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array
from baco_like.acquisitions.functions import deviations, log_h

_BLOCK = 1 << 20
"""Largest number of entries of a temporary array."""


def log_ehvi(means: Array, variances: Array, lower: Array, upper: Array) -> Array:
    """Return log E[gain of hypervolume] of n candidates with m independent normal objectives, ``(n,)``.

    A candidate gains the volume that it dominates within the boxes below the front. So the expectation is a sum over
    boxes of products over objectives of E[(u - max(f, l))+] = s (h((u - mu) / s) - h((l - mu) / s)), with h as in
    `baco_like.acquisitions.functions.log_h` (Yang et al., "Efficient computation of expected hypervolume improvement
    using box decomposition algorithms", 2019, section 3). Logarithms are summed, because far from the front all terms
    underflow (Ament et al., NeurIPS 2023, section 4).

    Args:
        means: Means of the costs, ``(n, m)``.
        variances: Their variances, ``(n, m)``.
        lower: Lower corners of the boxes, ``(k, m)``; -infinity where a box has no lower end.
        upper: Upper corners, ``(k, m)``.
    """
    from scipy.special import logsumexp

    count, (boxes, objectives) = len(means), lower.shape
    result = np.empty(count)
    size = max(1, _BLOCK // max(boxes, 1))
    for at in range(0, count, size):
        block = slice(at, at + size)
        total = np.zeros((len(means[block]), boxes))
        for j in range(objectives):
            deviation = deviations(variances[block, j])[:, None]
            mean = means[block, j][:, None]
            # Boxes share their ends; each end is evaluated once.
            ends = np.unique(np.concatenate([lower[:, j], upper[:, j]]))
            ends = ends[np.isfinite(ends)]
            heights = log_h((ends - mean) / deviation)
            high = heights[:, np.searchsorted(ends, upper[:, j])]
            bounded = np.isfinite(lower[:, j])
            low = heights[:, np.searchsorted(ends, lower[bounded, j])]
            high[:, bounded] += np.log(-np.expm1(np.minimum(low - high[:, bounded], -1e-300)))
            total += high + np.log(deviation)
        result[block] = logsumexp(total, axis=1)
    return result
