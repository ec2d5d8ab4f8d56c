"""Models with chosen predictions, to test code that uses models against closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Rng


@dataclass(frozen=True)
class ChosenModel:
    """A model whose mean and variance are given functions of the codes.

    Attributes:
        mean: ``(n, w)`` -> ``(n,)``.
        variance: ``(n, w)`` -> ``(n,)``, non-negative.
    """

    mean: Callable[[Codes], Array]
    variance: Callable[[Codes], Array]

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """An empty mapping."""
        return {}

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return the chosen mean and variance, ``(n,)`` each."""
        return self.mean(codes), self.variance(codes)

    def predict_joint(self, codes: Codes) -> tuple[Array, Array]:
        """Return the chosen mean ``(n,)`` and a diagonal covariance ``(n, n)``."""
        return self.mean(codes), np.diag(self.variance(codes))

    def draw(self, rng: Rng) -> Callable[[Codes], Array]:
        """Return the mean plus the same random multiple of the standard deviation everywhere."""
        multiple = rng.standard_normal()
        return lambda codes: self.mean(codes) + multiple * np.sqrt(self.variance(codes))


@dataclass(frozen=True)
class ChosenFeasibility:
    """A feasibility model whose probability is a given function of the codes.

    Attributes:
        chance: ``(n, w)`` -> ``(n,)``, in [0, 1].
    """

    chance: Callable[[Codes], Array]

    def probability(self, codes: Codes) -> Array:
        """Return the chosen probability, ``(n,)``."""
        return self.chance(codes)
