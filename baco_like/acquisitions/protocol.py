"""The contract of acquisition functions: bound to a fitted model, they score configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from baco_like._typing import Array, Codes, Rng
from baco_like.surrogates.protocol import Model

Score = Callable[[Codes], Array]
"""Maps codes ``(n, w)`` to scores ``(n,)``; higher is better, on a log scale where possible."""


class AcquisitionFunction(Protocol):
    """Says how promising a configuration is, given a model of the minimised values."""

    def bind(self, model: Model, incumbent: float, rng: Rng) -> Score:
        """Return the score of configurations under a fitted model.

        Args:
            model: Predicts values on the model's scale.
            incumbent: The lowest value so far, on the same scale.
            rng: Random generator, for functions that draw; the returned score is deterministic.
        """
