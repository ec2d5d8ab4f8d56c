"""Acquisition functions by name, for the setting ``acquisition``; checks of those of other packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baco_like._plugins import Plugin, Registry, check_floats, is_foreign, name_of
from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.functions import (
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
)
from baco_like.acquisitions.protocol import AcquisitionFunction, Score
from baco_like.exceptions import PluginError
from baco_like.surrogates.protocol import Model

_OWN: Mapping[str, Callable[[], AcquisitionFunction]] = {
    "ei": ExpectedImprovement,
    "poi": ProbabilityOfImprovement,
    "lcb": LowerConfidenceBound,
}

REGISTRY = Registry("baco_like.acquisitions", "acquisition function", _OWN, "ei")
"""Expected improvement, probability of improvement, the lower confidence bound, and those of plug-ins."""


def create_acquisition(name: str) -> AcquisitionFunction:
    """Return the acquisition function with this name and its default settings.

    Raises:
        ValueError: The name is unknown.
        PluginError: The plug-in cannot be imported, or makes something else than an acquisition function.
    """
    part = REGISTRY.find(name)
    if not isinstance(part, Plugin):
        return part()
    function: AcquisitionFunction = part.create(("bind",))
    return function


def bind_acquisition(
    function: AcquisitionFunction, model: Model, incumbent: float, rng: Rng
) -> Score:
    """Return the score of configurations, see `AcquisitionFunction.bind`; scores of foreign functions are checked."""
    score = function.bind(model, incumbent, rng)
    if not is_foreign(function):
        return score
    owner = f"acquisition function {name_of(function)}"
    if not callable(score):
        raise PluginError(f"{owner}: bind returned {score!r:.60}, not a function of rows of codes")

    def checked_score(codes: Codes) -> Array:
        return _check_scores(owner, score(codes), len(codes)) if len(codes) else np.empty(0)

    return checked_score


def _check_scores(owner: str, values: Any, count: int) -> Array:
    """Return the scores; unlike predictions they may be infinite."""
    scores = check_floats(owner, "scores", values, count)
    missing = int(np.isnan(scores).sum())
    if missing:
        raise PluginError(
            f"{owner}: the scores of {missing} of {count} configurations are NaN; return -inf for a configuration that "
            "must not be suggested"
        )
    return scores
