"""Acquisition functions: expected improvement, probability of improvement, confidence bound, Thompson sampling.

A score can be weighted by the probability of running, and by the user's prior about the optimum.

Models predict the noise-free value. So expected improvement here is BaCO's expected improvement of a noise-free
evaluation (Hellsten et al., ASPLOS 2023, section 3.3), which does not return to configurations that are known well.
All functions score codes ``(n, w)`` -> ``(n,)``, and higher is better.

Far from the incumbent, expected improvement underflows and an optimizer sees a plateau of zeros. Its logarithm has a
slope everywhere (Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization",
NeurIPS 2023, section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.forest import ConstantFeasibility
from baco_like.surrogates.protocol import FeasibilityModel, Model, SamplingModel, UpdatableModel

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
HALF_LOG_HALF_PI = 0.5 * math.log(0.5 * math.pi)
FAR = -1e3
"""Below this, two terms of the asymptotic series are exact in double precision, while the closed form cancels."""

LEAST_DEVIATION = 1e-10
"""Floor of a standard deviation; smaller than the rounding error of values of order one. It keeps log EI finite."""

LEAST_PROBABILITY = 1e-12
"""Floor of the probability of running; its logarithm stays finite."""

LARGEST_SCORE = 1e8
"""Scores are clipped to +-this; log EI reaches -1e8 at 1e4 standard deviations from the incumbent."""

SETBACK = 4.0 * LARGEST_SCORE
"""Penalty of a configuration below the minimum feasibility; larger than any difference of two clipped scores."""

PRIOR_FLOOR = 1e-6
"""Added to the user's prior, so that a configuration with prior probability 0 can still be suggested."""


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


def comparable(scores: Array) -> Array:
    """Return the scores with NaN replaced by -inf."""
    return np.where(np.isnan(scores), -np.inf, scores)


def condition_on_pending(model: Model, codes: Codes) -> Model:
    """Return the model conditioned on its own means at the pending configurations ("kriging believer").

    Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to parallelize optimization" (2010). The means do not
    change anywhere, while the variance near these configurations falls.

    Args:
        model: Fitted to the observations; one that cannot be updated is returned unchanged.
        codes: Pending configurations, ``(m, w)``; may be empty.
    """
    if len(codes) == 0 or not isinstance(model, UpdatableModel):
        return model
    return model.condition(codes, model.predict(codes)[0])


def weight_by_feasibility(score: Score, model: FeasibilityModel, minimum: float) -> Score:
    """Return the log score plus the log probability of feasibility.

    BaCO (Hellsten et al., ASPLOS 2023, section 4.2) multiplies expected improvement by the probability of feasibility
    (Gardner et al., ICML 2014) and accepts only configurations whose probability exceeds a limit: near the boundary
    a confident model pulls suggestions towards the infeasible side. Here configurations below the limit rank last
    but keep their order, so that a local search has a slope to follow.

    Args:
        score: Maps codes ``(n, w)`` to log scores ``(n,)``. If the score is in the units of the values instead,
            halving the probability costs 0.7 units.
        model: Predicts the probability of feasibility.
        minimum: Least accepted probability, from `draw_minimum`.
    """
    if isinstance(model, ConstantFeasibility):  # adding a constant does not change the order
        return score

    def weighted_score(codes: Codes) -> Array:
        return add_feasibility(score(codes), feasibility_weight(model, codes), minimum)

    return weighted_score


def feasibility_weight(model: FeasibilityModel, codes: Codes) -> Array:
    """Return the weights of the scores of configurations, ``(n,)``: the probabilities of feasibility.

    A model whose probabilities should count more than once has a method ``weight`` beside ``probability``.
    """
    weight: Callable[[Codes], Array] = getattr(model, "weight", model.probability)
    return weight(codes)


def add_feasibility(scores: Array, probability: Array, minimum: float) -> Array:
    """Return log scores plus the log probabilities of feasibility, all ``(n,)``; see `weight_by_feasibility`."""
    clipped = np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)
    total = clipped + np.log(np.maximum(probability, LEAST_PROBABILITY))
    return np.where(probability < minimum, total - SETBACK, total)


def draw_minimum(rng: Rng, largest: float = 0.5) -> float:
    """Draw the least accepted probability of feasibility for one suggestion.

    BaCO draws the limit at random, and it is zero with positive probability, so that no region is excluded for ever.
    As in the BaCO program, the distribution is uniform over eleven steps from 0 to ``largest``. The program's
    ``largest`` is 0.1 for a forest that weights successes four times as much as failures; the forest in
    `baco_like.surrogates` weights them equally, so its limit is higher. Other limits made no difference on pnpoly and
    expdist (benchmarks/quality/log/failures.md).
    """
    return largest * float(rng.integers(11)) / 10.0


def prior_weight(log_prior: Score, observations: int, strength: float) -> Score:
    """Return (strength / observations) times the log prior, to be added to log scores.

    This is piBO (Hvarfner et al., ICLR 2022) on the log scale.

    Args:
        log_prior: Logarithm of the user's probability that a configuration is the optimum, ``(n, w)`` -> ``(n,)``,
            up to a constant.
        observations: Number of known values; the influence of the prior fades with it.
        strength: The exponent at one observation, piBO's beta.
    """
    exponent = strength / max(observations, 1)
    return lambda codes: exponent * np.logaddexp(log_prior(codes), np.log(PRIOR_FLOOR))
