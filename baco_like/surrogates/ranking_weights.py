"""Weights of models of related tasks: how well each ranks the observations of this task.

Ranking-weighted Gaussian process ensembles: Feurer, Letham and Bakshy, "Scalable Meta-Learning for Bayesian
Optimization using Ranking-Weighted Gaussian Process Ensembles" (AutoML workshop at ICML 2018). Only ranks count, so a
task with ten times larger values, or in another unit, is as useful as one with equal values.
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Mask

GUARD = 95.0
"""A source is left out if its median loss exceeds this percentile of the target model's losses."""


def ranking_losses(drawn: Array, y: Array) -> Array:
    """Return for each drawn function the number of ordered pairs that it ranks differently from the values.

    The paper's ranking loss: sum over j, k of [(f_j < f_k) xor (y_j < y_k)]; pairs of equal values do not count.

    Args:
        drawn: Functions drawn from a model, at the observed points, ``(s, n)``.
        y: The observed values, ``(n,)``.

    Returns:
        ``(s,)``.
    """
    return _disagreements(drawn[:, :, None] < drawn[:, None, :], y)


def held_out_losses(drawn: Array, y: Array) -> Array:
    """Return the ranking losses of a model that was fitted to these values, from its leave-one-out predictions.

    Each point's value is drawn from the model without this point and compared with the observed values of the others:
    sum over j, k of [(f_j < y_k) xor (y_j < y_k)].

    Args:
        drawn: Draws of every point's value without this point, ``(s, n)``.
        y: The observed values, ``(n,)``.

    Returns:
        ``(s,)``.
    """
    return _disagreements(drawn[:, :, None] < y, y)


def _disagreements(is_below: Mask, y: Array) -> Array:
    wrong = (is_below != (y[:, None] < y)) & (y[:, None] != y)
    return np.asarray(wrong.sum(axis=(1, 2)), dtype=float)


def count_pairs(y: Array) -> int:
    """Return the number of ordered pairs of different values: the loss of a model that is always wrong."""
    return int((y[:, None] != y).sum())


def ranking_weights(sources: Array, target: Array) -> Array:
    """Return the weights of the sources, then the target's weight; they add up to 1.

    A weight is the share of the draws in which the model's loss is the lowest (the paper's weights); equal losses share
    a draw. Many useless sources together would win draws from the target by chance, so a source whose median loss
    exceeds the 95th percentile of the target's losses is left out first (the paper's guard against weight dilution).

    Args:
        sources: Losses by source and draw, ``(m, s)``.
        target: Losses of the target's model by draw, ``(s,)``.

    Returns:
        ``(m + 1,)``.
    """
    kept = np.median(sources, axis=1) <= np.percentile(target, GUARD)
    losses = np.vstack([np.where(kept[:, None], sources, np.inf), target])
    lowest = losses == losses.min(axis=0)
    return np.asarray((lowest / lowest.sum(axis=0)).mean(axis=1))
