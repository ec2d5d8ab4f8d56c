"""Predict with the model of a run's strategy, and choose the best observed configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baco_like._random import Purpose
from baco_like.exceptions import ConfigError, TrialError
from baco_like.optimizer.objectives import choose_from_front
from baco_like.optimizer.state import OptimizerState
from baco_like.records import History, Status, Trial, read_confirmation
from baco_like.records.confirmation import is_current
from baco_like.strategies.protocol import Prediction, Predictive
from baco_like.surrogates.transform import fit_transform


def predict(state: OptimizerState, configs: Sequence[Mapping[str, Any]]) -> Prediction:
    """Return the prediction of the cost; the probability of running is 0 where a known constraint is violated.

    Raises:
        TrialError: The strategy has no model, or too few trials are observed.
        ConfigError: A value is not in its parameter's domain, or ``configs`` is a single configuration.
    """
    if isinstance(configs, Mapping):
        raise ConfigError("predict takes a list of configurations; write predict([config])")
    strategy, space, history = state.strategy, state.problem.space, state.history
    if not isinstance(strategy, Predictive):
        raise TrialError(
            f"strategy {type(strategy).__name__} has no model to predict with; use strategy='auto'"
        )
    codes = space.encode(list(configs))
    rng = state.generator(Purpose.MODEL, len(history))
    result = strategy.predict(state.problem, history, state.strategy_state, codes, rng)
    feasible = np.where(space.feasible.contains(codes), result.feasible, 0.0)
    return result._replace(feasible=feasible)


def recommend(
    state: OptimizerState, weights: Mapping[str, float] | None = None, limits: Sequence[str] = ()
) -> Trial | None:
    """Return the trial for `Optimizer.recommend`, or None before the first success.

    With several objectives, `choose_from_front` chooses.

    The latest confirmation decides, unless the search has continued after it; else the model, else the repeats, else
    the best single value.
    """
    if state.history.objectives:
        return choose_from_front(state.history, weights, tuple(limits))
    if weights or limits:
        raise ValueError("weights and limits choose from the front of several objectives")
    confirmed = _read_confirmed(state.history)
    if confirmed is not None:
        return confirmed
    fallback = best_by_repeats(state.history) or state.history.best()
    candidates = [t for t in state.history.trials if t.value is not None and t.origin != "imported"]
    if not candidates or not isinstance(state.strategy, Predictive):
        return fallback
    try:
        prediction = predict(state, [t.config for t in candidates])
    except TrialError:
        return fallback
    return candidates[int(np.argmin(prediction.median))]


def _read_confirmed(history: History) -> Trial | None:
    """Return the recommended trial of a confirmation of the present results with its new values, or None."""
    confirmation = read_confirmation(history) if is_current(history) else None
    chosen = None if confirmation is None else confirmation.recommended
    if chosen is None or chosen.id >= 0:
        return chosen
    same = history.trials_of(chosen.config)
    return next(
        iter(same), None
    )  # a default that was measured for the first time by the confirmation


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
    rows = np.flatnonzero(history.where(Status.OK) & history.is_target)
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
    noise = float(((values - means[owner]) ** 2).sum() / (counts - 1).sum())
    grand = float(means.mean())
    spread = float(((means - grand) ** 2).sum() / max(1, len(means) - 1) - (noise / counts).mean())
    if spread > 0.0:
        shrunk = grand + spread / (spread + noise / counts) * (means - grand)
    else:  # the configurations differ no more than the noise: prefer those that were measured often
        shrunk = means + np.sqrt(noise / counts)
    off = np.where(owner == np.argmin(shrunk), np.abs(values - means[owner]), np.inf)
    return history.trials[int(rows[np.argmin(off)])]


def why(trial: Trial) -> dict[str, Any]:
    """Return the origin of a trial and the predictions of the model when it was suggested."""
    note = dict(trial.tag) if isinstance(trial.tag, Mapping) else {}
    return {"origin": trial.origin, **{k: v for k, v in note.items() if k != "hyperparameters"}}
