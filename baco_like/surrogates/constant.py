"""Feasibility models that give every configuration the same probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes


@dataclass(frozen=True)
class ConstantFeasibility:
    """Gives every configuration the same probability of running.

    Attributes:
        chance: The probability, in [0, 1].
    """

    chance: float

    def probability(self, codes: Codes) -> Array:
        """Return the probability for each row, ``(n, w)`` -> ``(n,)``."""
        return np.full(len(codes), self.chance)
