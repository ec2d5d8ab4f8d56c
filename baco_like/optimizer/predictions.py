"""Predict with the model of a run's strategy, and explain a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from baco_like._random import Purpose
from baco_like.exceptions import ConfigError, TrialError
from baco_like.optimizer.state import OptimizerState
from baco_like.records import (
    History,
    Objective,
    Status,
    Trial,
)
from baco_like.records.front import hypervolume
from baco_like.records.objective import sign_of
from baco_like.records.objective_values import finite_number
from baco_like.records.sources import read_sources, source_of
from baco_like.strategies.protocol import Prediction, Predictive


def history_of(history: History, objective: str | None) -> History:
    """Return the history with the costs of one objective; None: the first objective.

    Raises:
        ValueError: The run has no such objective.
    """
    if objective is None:
        return history
    names = [each.name for each in history.objectives]
    if objective not in names:
        known = ", ".join(map(repr, names)) or "one, whose name need not be given"
        raise ValueError(f"objective = {objective!r}: the run has {known}")
    j = names.index(objective)
    costs, variances = history.objective_costs()
    own = history.with_costs(costs[:, j], variances[:, j])
    return replace(own, direction=history.objectives[j].direction, objectives=())


def hypervolume_of(history: History, objective: str, reference: Mapping[str, float]) -> float:
    """Return the volume that the front of a history dominates, see `Optimizer.hypervolume`.

    Args:
        history: The history.
        objective: Name of the objective if there is only one.
        reference: For each objective the worst value that counts.

    Raises:
        ValueError: The names are not those of the objectives, or a value is not a finite number.
    """
    objectives = history.objectives or (Objective(objective, direction=history.direction),)
    point = values_by_objective(objectives, reference, "reference")
    ok = history.where(Status.OK)
    signs = np.array([sign_of(o.direction) for o in objectives])
    return hypervolume(history.objective_costs()[0][ok], signs * point)


def values_by_objective(
    objectives: tuple[Objective, ...], values: Mapping[str, float], argument: str
) -> np.ndarray:
    """Return the numbers in the order of the objectives.

    Raises:
        ValueError: The names are not those of the objectives, or a value is not a finite number.
    """
    names = [objective.name for objective in objectives]
    if not isinstance(values, Mapping) or set(values) != set(names):
        raise ValueError(
            f"{argument} = {values!r:.80}: expected one number for each of {', '.join(map(repr, names))}"
        )
    numbers = [finite_number(values[name]) for name in names]
    for name, number in zip(names, numbers, strict=True):
        if number is None:
            raise ValueError(f"{argument}[{name!r}] = {values[name]!r:.80} is not a finite number")
    return np.array(numbers, dtype=float)


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


def why(trial: Trial, history: History) -> dict[str, Any]:
    """Return the origin of a trial and the predictions of the model when it was suggested.

    For a proposal of a source these are its note, and what the source has brought so far.
    """
    note = dict(trial.tag) if isinstance(trial.tag, Mapping) else {}
    own = {"origin": trial.origin, **{k: v for k, v in note.items() if k != "hyperparameters"}}
    source = source_of(trial)
    record = None if source is None else read_sources(history).get(source)
    if record is None:  # also for a proposal that is only a candidate
        return own
    return {**own, "trials": record.trials, "gains": record.gains, "share": record.share}
