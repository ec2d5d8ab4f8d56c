"""Choose the best observed configuration: by the model, else by repeats, else by the best single value."""

from __future__ import annotations

from typing import Any

import numpy as np

from baco_like._typing import Array, Ints
from baco_like.exceptions import TrialError
from baco_like.optimizer.predictions import predict
from baco_like.optimizer.state import OptimizerState
from baco_like.records.history import History
from baco_like.records.trial import Status, Trial
from baco_like.strategies.protocol import Predictive, Strategy
from baco_like.surrogates.transform import fit_transform


def recommend(state: OptimizerState, strategy: Strategy[Any]) -> Trial | None:
    """Return the trial for `Optimizer.recommend`, or None before the first success."""
    fallback = best_by_repeats(state.history) or state.history.best()
    candidates = [t for t in state.history.trials if t.value is not None and t.origin != "imported"]
    if fallback is None or not candidates or not isinstance(strategy, Predictive):
        return fallback
    try:
        prediction = predict(state, strategy, [t.config for t in candidates])
    except TrialError:
        return fallback
    return candidates[int(np.argmin(prediction.median))]


def best_by_repeats(history: History) -> Trial | None:
    """Return a trial of the configuration whose repeated measurements are best, or None without repeats.

    The mean of each configuration is shrunk towards the overall mean, the more the fewer measurements it has: the best
    linear unbiased prediction of a random effect (Robinson, "That BLUP is a good thing", Statistical Science 1991,
    section 1), with variances estimated from the repeats. So a lucky single measurement does not win against a
    configuration that was good ten times.

    Returns:
        Of the winning configuration the trial nearest to its mean. None if no configuration was measured twice, because
        then the noise is unknown.
    """
    rows = np.flatnonzero(history.where(Status.OK) & history.inside)
    if len(rows) < 2:
        return None
    _, owner = np.unique(history.codes[rows], axis=0, return_inverse=True)
    owner = owner.reshape(-1)  # NumPy 2.0 returns two dimensions
    counts = np.bincount(owner)
    if counts.max() < 2:
        return None
    costs = history.costs[rows]
    values = fit_transform(costs).forward(costs)
    means = np.bincount(owner, values) / counts
    winner = int(np.argmin(_shrink_means(values, owner, counts, means)))
    off = np.where(owner == winner, np.abs(values - means[owner]), np.inf)
    return history.trials[int(rows[np.argmin(off)])]


def _shrink_means(values: Array, owner: Ints, counts: Ints, means: Array) -> Array:
    """Return the shrunk mean of each configuration, (m,).

    Args:
        values: Transformed costs, (n,).
        owner: Index of the configuration of each value, (n,).
        counts: Number of measurements of each configuration, (m,).
        means: Mean of each configuration, (m,).
    """
    noise = float(((values - means[owner]) ** 2).sum() / (counts - 1).sum())
    grand = float(means.mean())
    spread = float(((means - grand) ** 2).sum() / max(1, len(means) - 1) - (noise / counts).mean())
    # The configurations differ no more than the noise: prefer those that were measured often.
    if spread <= 0.0:
        return means + np.sqrt(noise / counts)
    return grand + spread / (spread + noise / counts) * (means - grand)
