"""Predict with the model of a run's strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like.exceptions import ConfigError, TrialError
from baco_like.optimizer.state import OptimizerState
from baco_like.strategies.protocol import Prediction, Predictive, Strategy


def predict(
    state: OptimizerState, strategy: Strategy[Any], configs: Sequence[Mapping[str, Any]]
) -> Prediction:
    """Return the prediction of the cost; the probability of feasibility is 0 where a known constraint is violated.

    Raises:
        TrialError: The strategy has no model, or too few trials are observed.
        ConfigError: A value is not in its parameter's domain, or ``configs`` is a single configuration.
    """
    if isinstance(configs, Mapping):
        raise ConfigError("predict takes a list of configurations; write predict([config])")
    if not isinstance(strategy, Predictive):
        raise TrialError(
            f"strategy {type(strategy).__name__} has no model to predict with; use strategy='bayesian'"
        )
    space, history = state.problem.space, state.history
    codes = space.encode(list(configs))
    rng = generator(state.options.seed, Purpose.MODEL, len(history))
    result = strategy.predict(state.problem, history, state.strategy_state, codes, rng)
    feasible = np.where(space.feasible.contains(codes), result.feasible, 0.0)
    return result._replace(feasible=feasible)
