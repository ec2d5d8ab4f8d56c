"""How much models of other tasks are worth for this one, by how they rank what is known of it.

Ranking-weighted Gaussian process ensembles: Feurer, Letham and Bakshy, "Scalable Meta-Learning for Bayesian
Optimization using Ranking-Weighted Gaussian Process Ensembles" (AutoML workshop at ICML 2018). Only ranks
count, so a task whose values are all ten times as large, or in another unit, is as good as one of equal values.
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Mask

GUARD = 95.0
"""A source is left out when its median loss is above this percentile of the target model's losses."""


def ranking_losses(drawn: Array, y: Array) -> Array:
    """Return for each drawn function how many ordered pairs it ranks otherwise than the values do.

    The paper's ranking loss: sum over j, k of [(f_j < f_k) xor (y_j < y_k)]; pairs of equal values do not count.

    Args:
        drawn: Functions drawn from a model, at the observed points, ``(s, n)``.
        y: The observed values, ``(n,)``.

    Returns:
        ``(s,)``.
    """
    return _disagreements(drawn[:, :, None] < drawn[:, None, :], y)


def held_out_losses(drawn: Array, y: Array) -> Array:
    """Return the same for the model of the target itself, which would rank the points that it has seen too well.

    Every point's value is drawn from the model that has not seen this point, and compared with the observed values of
    the others, which that model has seen: sum over j, k of [(f_j < y_k) xor (y_j < y_k)].

    Args:
        drawn: Draws of every point's value without this point, ``(s, n)``.
        y: The observed values, ``(n,)``.

    Returns:
        ``(s,)``.
    """
    return _disagreements(drawn[:, :, None] < y, y)


def _disagreements(below: Mask, y: Array) -> Array:
    wrong = (below != (y[:, None] < y)) & (y[:, None] != y)
    return np.asarray(wrong.sum(axis=(1, 2)), dtype=float)


def pairs(y: Array) -> int:
    """Return how many ordered pairs of different values there are: the loss of a model that is always wrong."""
    return int((y[:, None] != y).sum())


def ranking_weights(sources: Array, target: Array) -> Array:
    """Return the weights of the sources, then that of the target; they add up to 1.

    A weight is the share of the draws in which the model's loss is the least of all (the paper's weights); equal losses
    share a draw. So that many useless sources do not take weight from the target by chance, those whose median loss is
    above the 95th percentile of the target's are left out first (the paper's guard against weight dilution).

    Args:
        sources: Losses by source and draw, ``(m, s)``.
        target: Losses of the target's model by draw, ``(s,)``.

    Returns:
        ``(m + 1,)``.
    """
    kept = np.median(sources, axis=1) <= np.percentile(target, GUARD)
    losses = np.vstack([np.where(kept[:, None], sources, np.inf), target])
    least = losses == losses.min(axis=0)
    return np.asarray((least / least.sum(axis=0)).mean(axis=1))
