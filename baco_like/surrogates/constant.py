"""A model that says the same of every configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.surrogates.protocol import Data, Featured


@dataclass(frozen=True)
class ConstantModel:
    """Predicts one mean and one variance.

    Attributes:
        mean: The mean.
        variance: The variance, non-negative.
    """

    mean: float
    variance: float

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return the mean and the variance, n times each."""
        return np.full(len(codes), self.mean), np.full(len(codes), self.variance)


@dataclass(frozen=True)
class Constant:
    """The surrogate that ignores the configuration: mean and variance of the values; a baseline."""

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> ConstantModel:
        """Return the model of mean and population variance."""
        return ConstantModel(float(data.y.mean()), float(data.y.var()))


@dataclass(frozen=True)
class ConstantFeasibility:
    """Gives every configuration the same probability of running.

    Attributes:
        chance: The probability, in [0, 1].
    """

    chance: float

    def probability(self, codes: Codes) -> Array:
        """Return the probability n times."""
        return np.full(len(codes), self.chance)
