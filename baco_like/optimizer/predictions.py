"""What the strategy of a run expects of configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like.exceptions import ConfigError, TrialError
from baco_like.optimizer.state import OptimizerState
from baco_like.strategies.protocol import Prediction, Predictive, Strategy


def predicted(
    now: OptimizerState, strategy: Strategy[Any], configs: Sequence[Mapping[str, Any]]
) -> Prediction:
    """Return what is expected, of costs; what a known constraint excludes has a probability of 0.

    Raises:
        TrialError: The strategy has no model, or too little is observed.
        ConfigError: A configuration has a value that is not in its parameter's domain; or it is no list of
            configurations.
    """
    if isinstance(configs, Mapping):
        raise ConfigError("predict takes a list of configurations; write predict([config])")
    if not isinstance(strategy, Predictive):
        raise TrialError(
            f"strategy {type(strategy).__name__} has no model to predict with; use strategy='bayesian'"
        )
    space, history = now.problem.space, now.history
    codes = space.encode(list(configs))
    rng = generator(now.options.seed, Purpose.MODEL, len(history))
    found = strategy.predict(now.problem, history, now.state, codes, rng)
    return found._replace(feasible=np.where(space.feasible.contains(codes), found.feasible, 0.0))
