"""Contextual variance: an exploration factor that follows the model's uncertainty."""

from __future__ import annotations

import math


def exploration_factor(
    mean_variance: float, best: float, initial_mean: float, initial_variance: float
) -> float:
    """Return lambda = (mean_variance / (initial_mean / best)) / initial_variance, at least 0.

    Source: Willemsen et al. 2021, section III-F. The factor shrinks as the model becomes certain and as the best cost
    improves on the mean of the first sample.

    Args:
        mean_variance: Mean posterior variance over the candidates now.
        best: Lowest cost so far, in the user's unit. Negative costs are rates that are maximised; the time that
            corresponds to a rate is its inverse, so the ratio is inverted for them.
        initial_mean: Mean cost of the first sample, in the user's unit.
        initial_variance: Mean posterior variance over the candidates after the first sample.

    Returns:
        The factor. A ratio that is undefined (division by zero, or costs of both signs) counts as 1, its value before
        any improvement.
    """
    now, then = (initial_mean, best) if initial_mean < 0.0 else (best, initial_mean)
    remaining = now / then if then != 0.0 else 1.0
    if not math.isfinite(remaining) or remaining < 0.0:
        remaining = 1.0
    explored = mean_variance / initial_variance if initial_variance > 0.0 else 1.0
    return max(0.0, remaining * explored)
