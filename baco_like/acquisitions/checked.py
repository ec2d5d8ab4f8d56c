"""Checks of the scores of acquisition functions of other packages; our own are not checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from baco_like._plugins import check_floats, is_foreign, name_of
from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.protocol import AcquisitionFunction, Score
from baco_like.exceptions import PluginError
from baco_like.surrogates.protocol import Model


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
        return _check_scores(owner, score(codes), len(codes))

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
