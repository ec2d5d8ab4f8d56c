"""An acquisition is a frozen recipe; bound to a model it becomes a score over codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from baco_like._typing import Array, Codes
from baco_like.surrogates.protocol import Model

Score = Callable[[Codes], Array]
"""Maps codes ``(n, w)`` to scores ``(n,)``; higher is better, on a log scale if it can be."""


class Acquisition(Protocol):
    """A recipe for scores; values are minimised."""

    def bind(self, model: Model, incumbent: float) -> Score:
        """Return the score of candidates.

        Args:
            model: Predicts values on the model's scale.
            incumbent: The best value so far, on the same scale.
        """
