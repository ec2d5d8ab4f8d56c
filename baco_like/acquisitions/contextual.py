"""Contextual variance, an exploration factor (Willemsen et al. 2021, section III-F)."""

from __future__ import annotations

import math


def exploration_factor(
    mean_variance: float, best: float, initial_mean: float, initial_variance: float
) -> float:
    """Return lambda = (mean_variance / (initial_mean / best)) / initial_variance, at least 0.

    It shrinks with the model's uncertainty and with the fraction of the first sample's mean that is
    left.

    Args:
        mean_variance: Mean posterior variance over the candidates now.
        best: Best cost so far, in the user's unit. Where both are negative they are rates that are maximised; what is
            left of the time that a rate stands for is the inverse ratio.
        initial_mean: Mean cost of the first sample, in the user's unit.
        initial_variance: Mean posterior variance over the candidates after the first sample.

    Returns:
        The factor. Where the two ratios have no meaning (a zero, or values of either sign) that
        ratio counts as 1, which the formula gives for an initial sample without improvement.
    """
    now, then = (initial_mean, best) if initial_mean < 0.0 else (best, initial_mean)
    left = now / then if then != 0.0 else 1.0
    if not math.isfinite(left) or left < 0.0:
        left = 1.0
    explored = mean_variance / initial_variance if initial_variance > 0.0 else 1.0
    return max(0.0, left * explored)
