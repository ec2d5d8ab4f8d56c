"""Acquisition functions: expected improvement, probability of improvement, confidence bound, Thompson sampling.

Models predict the noise-free value. So expected improvement here is BaCO's expected improvement of a noise-free
evaluation (Hellsten et al., ASPLOS 2023, section 3.3), which does not return to configurations that are known well.
All functions score codes ``(n, w)`` -> ``(n,)``, and higher is better.

Far from the incumbent, expected improvement underflows and an optimizer sees a plateau of zeros. Its logarithm has a
slope everywhere (Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization",
NeurIPS 2023, section 4.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.protocol import Model, SamplingModel, UpdatableModel

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
HALF_LOG_HALF_PI = 0.5 * math.log(0.5 * math.pi)
FAR = -1e3
"""Below this, two terms of the asymptotic series are exact in double precision, while the closed form cancels."""

LEAST_DEVIATION = 1e-10
"""Floor of a standard deviation; smaller than the rounding error of values of order one. It keeps log EI finite."""


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


def log_h(z: Array) -> Array:
    """Return log h(z) with h(z) = phi(z) + z Phi(z), elementwise; expected improvement is the deviation times h(z).

    Three ranges: the definition above -1; then, with erfcx the scaled complementary error function,

        log h(z) = -z^2/2 - log(2 pi)/2 + log(1 - |z| sqrt(pi/2) erfcx(-z / sqrt(2)))

    (Ament et al. 2023, section 4.1, without its nested logarithms, which this range does not need); and below `FAR` the
    asymptotic series h(z) = phi(z) (1/z^2 - 3/z^4 + ...), because the difference in the bracket cancels to 1/z^2.
    """
    from scipy.special import erfcx, ndtr

    z = np.asarray(z, dtype=float)
    result = np.empty_like(z)
    near = ~(z < -1.0)
    if near.any():
        n = z[near]
        result[near] = np.log(np.exp(-0.5 * n * n - HALF_LOG_2PI) + n * ndtr(n))
    middle = (z < -1.0) & (z >= FAR)
    if middle.any():
        m = z[middle]
        bracket = 1.0 + m * math.exp(HALF_LOG_HALF_PI) * erfcx(-m / math.sqrt(2.0))
        result[middle] = -0.5 * m * m - HALF_LOG_2PI + np.log(bracket)
    far = z < FAR
    if far.any():
        f = z[far]
        square = f * f
        result[far] = -0.5 * square - HALF_LOG_2PI - np.log(square) + np.log1p(-3.0 / square)
    return np.asarray(result)


def log_ei(mean: Array, variance: Array, incumbent: float) -> Array:
    """Return log E[max(incumbent - f, 0)] for normal f, elementwise (Jones et al. 1998, Eq. 15).

    Args:
        mean: Means of f, ``(n,)``.
        variance: Variances of f, ``(n,)``.
        incumbent: The value that f must fall below.
    """
    deviation = deviations(variance)
    return np.log(deviation) + log_h((incumbent - mean) / deviation)


def log_pi(mean: Array, variance: Array, incumbent: float) -> Array:
    """Return log P(f < incumbent) for normal f, elementwise."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr((incumbent - mean) / deviations(variance)))


def deviations(variance: Array) -> Array:
    """Return standard deviations, at least `LEAST_DEVIATION`."""
    return np.sqrt(np.maximum(variance, LEAST_DEVIATION**2))


def condition_on_pending(model: UpdatableModel, codes: Codes) -> UpdatableModel:
    """Return the model conditioned on its own means at the pending configurations ("kriging believer").

    Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to parallelize optimization" (2010). The means do not
    change anywhere, while the variance near these configurations falls.

    Args:
        model: Fitted to the observations.
        codes: Pending configurations, ``(m, w)``; may be empty.
    """
    if len(codes) == 0:
        return model
    return model.condition(codes, model.predict(codes)[0])
