"""Acquisition functions: expected improvement, probability of improvement, confidence bound, Thompson sampling.

Models predict the noise-free value. So expected improvement here is BaCO's expected improvement of a noise-free
evaluation (Hellsten et al., ASPLOS 2023, section 3.3), which does not return to configurations that are known well.
All functions score codes ``(n, w)`` -> ``(n,)``, and higher is better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.numerics import log_ei, log_pi
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.protocol import Model, SamplingModel


@dataclass(frozen=True)
class ExpectedImprovement:
    """log E[max(incumbent - margin - f, 0)] (Jones, Schonlau and Welch 1998, Eq. 15).

    Attributes:
        margin: Least improvement that counts, on the model's scale; a larger one explores more (the xi of the
            literature, the lambda of Willemsen et al. 2021, section III-C).
    """

    margin: float = 0.0

    def bind(self, model: Model, incumbent: float, rng: Rng) -> Score:
        """Return the log expected improvement as a score; ``rng`` is not used."""
        return lambda codes: log_ei(*model.predict(codes), incumbent - self.margin)


@dataclass(frozen=True)
class ProbabilityOfImprovement:
    """log P(f < incumbent - margin) (Kushner 1964; Willemsen et al. 2021, section III-C).

    Attributes:
        margin: Least improvement that counts, on the model's scale.
    """

    margin: float = 0.0

    def bind(self, model: Model, incumbent: float, rng: Rng) -> Score:
        """Return the log probability of improvement as a score; ``rng`` is not used."""
        return lambda codes: log_pi(*model.predict(codes), incumbent - self.margin)


@dataclass(frozen=True)
class LowerConfidenceBound:
    """Minus (mean - deviations * standard deviation), in the units of the values and not on a log scale.

    Source: GP-UCB (Srinivas et al., ICML 2010), mirrored for minimisation.

    Attributes:
        deviations: Number of standard deviations below the mean; more of them explore more.
    """

    deviations: float = 2.0

    def bind(self, model: Model, incumbent: float, rng: Rng) -> Score:
        """Return the negated bound as a score; ``incumbent`` and ``rng`` are not used."""

        def score(codes: Codes) -> Array:
            mean, variance = model.predict(codes)
            return self.deviations * np.sqrt(variance) - mean

        return score


@dataclass(frozen=True)
class ThompsonSampling:
    """Minus one function drawn from the posterior (Thompson 1933); needs a model that can draw functions."""

    def bind(self, model: SamplingModel, incumbent: float, rng: Rng) -> Score:
        """Draw a function by ``rng`` and return it negated; ``incumbent`` is not used."""
        function = model.draw(rng)
        return lambda codes: -function(codes)
