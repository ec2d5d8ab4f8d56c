"""The lower confidence bound: the best that can be hoped for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.protocol import Model


@dataclass(frozen=True)
class LowerConfidenceBound:
    """Minus (mean - deviations * standard deviation), so that higher is better; not on a log scale.

    Attributes:
        deviations: How many standard deviations below the mean.
    """

    deviations: float = 2.0

    def bind(self, model: Model, incumbent: float) -> Score:
        """Return the score; the incumbent does not matter."""

        def score(codes: Codes) -> Array:
            mean, variance = model.predict(codes)
            return self.deviations * np.sqrt(variance) - mean

        return score
