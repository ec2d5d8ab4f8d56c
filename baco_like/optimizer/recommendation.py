"""Which of the observed configurations to take: by the model, else by repeated measurements, else the best one."""

from __future__ import annotations

from typing import Any

import numpy as np

from baco_like._typing import Array, Ints
from baco_like.exceptions import TrialError
from baco_like.optimizer.predictions import predicted
from baco_like.optimizer.state import OptimizerState
from baco_like.records.history import History
from baco_like.records.trial import Status, Trial
from baco_like.strategies.protocol import Predictive, Strategy
from baco_like.surrogates.transform import fit_transform


def recommended(now: OptimizerState, strategy: Strategy[Any]) -> Trial | None:
    """Return the trial that `Optimizer.recommend` answers with, or None before the first success."""
    other = best_by_repeats(now.history) or now.history.best()
    candidates = [t for t in now.history.trials if t.value is not None and t.origin != "imported"]
    if other is None or not candidates or not isinstance(strategy, Predictive):
        return other
    try:
        expected = predicted(now, strategy, [t.config for t in candidates])
    except TrialError:
        return other
    return candidates[int(np.argmin(expected.median))]


def best_by_repeats(history: History) -> Trial | None:
    """Return a trial of the configuration whose repeated measurements together promise most.

    The mean of each configuration is moved towards that of all, the more the fewer measurements it has: the best linear
    unbiased prediction of a random effect (Robinson, "That BLUP is a good thing", Statistical Science 1991, section
    1), with the variances estimated from the repeats. So a lucky single measurement does not win against a
    configuration that was good ten times. Of the configuration that wins, the trial nearest to its mean is returned.

    Returns:
        The trial, or None where no configuration was measured twice: then nothing is known of the noise.
    """
    rows = np.flatnonzero(history.where(Status.OK) & history.inside)
    if len(rows) < 2:
        return None
    _, owner = np.unique(history.codes[rows], axis=0, return_inverse=True)
    owner = owner.reshape(-1)  # NumPy 2.0 gave it two dimensions
    counts = np.bincount(owner)
    if counts.max() < 2:
        return None
    costs = history.costs[rows]
    values = fit_transform(costs).forward(costs)
    means = np.bincount(owner, values) / counts
    winner = int(np.argmin(_shrunk(values, owner, counts, means)))
    off = np.where(owner == winner, np.abs(values - means[owner]), np.inf)
    return history.trials[int(rows[np.argmin(off)])]


def _shrunk(values: Array, owner: Ints, counts: Ints, means: Array) -> Array:
    """Return the predicted effect of each configuration."""
    noise = float(((values - means[owner]) ** 2).sum() / (counts - 1).sum())
    grand = float(means.mean())
    spread = float(((means - grand) ** 2).sum() / max(1, len(means) - 1) - (noise / counts).mean())
    if (
        spread <= 0.0
    ):  # the configurations do not differ more than the noise: the one that is known best counts
        return means + np.sqrt(noise / counts)
    return grand + spread / (spread + noise / counts) * (means - grand)
