"""Weights of a score: by the probability of running, and by the user's prior about the optimum."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.feasibility import ConstantFeasibility
from baco_like.surrogates.protocol import FeasibilityModel

LEAST_PROBABILITY = 1e-12
"""Floor of the probability of running; its logarithm stays finite."""

LARGEST_SCORE = 1e8
"""Scores are clipped to +-this; log EI reaches -1e8 at 1e4 standard deviations from the incumbent."""

SETBACK = 4.0 * LARGEST_SCORE
"""Penalty of a configuration below the minimum feasibility; larger than any difference of two clipped scores."""

PRIOR_FLOOR = 1e-6
"""Added to the user's prior, so that a configuration with prior probability 0 can still be suggested."""


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
        probability = model.probability(codes)
        clipped = np.clip(score(codes), -LARGEST_SCORE, LARGEST_SCORE)
        total = clipped + np.log(np.maximum(probability, LEAST_PROBABILITY))
        return np.where(probability < minimum, total - SETBACK, total)

    return weighted_score


def draw_minimum(rng: Rng, largest: float = 0.5) -> float:
    """Draw the least accepted probability of feasibility for one suggestion.

    BaCO draws the limit at random, and it is zero with positive probability, so that no region is excluded for ever.
    As in the BaCO program, the distribution is uniform over eleven steps from 0 to ``largest``. The program's
    ``largest`` is 0.1 for a forest that weights successes four times as much as failures; the forest in
    `baco_like.surrogates` weights them equally, so its limit is higher. Other limits made no difference on pnpoly and
    expdist (benchmarks/quality/log/failures.md).
    """
    return largest * float(rng.integers(11)) / 10.0


def weight_by_prior(
    score: Score, log_prior: Score, observations: int, strength: float = 10.0
) -> Score:
    """Return the score plus (strength / observations) times the log prior.

    This is piBO (Hvarfner et al., ICLR 2022) on the log scale.

    Args:
        score: Maps codes ``(n, w)`` to log scores ``(n,)``.
        log_prior: Logarithm of the user's probability that a configuration is the optimum, ``(n, w)`` -> ``(n,)``,
            up to a constant.
        observations: Number of known values; the influence of the prior fades with it.
        strength: The exponent at one observation, piBO's beta.
    """
    exponent = strength / max(observations, 1)

    def weighted_score(codes: Codes) -> Array:
        return np.asarray(
            score(codes) + exponent * np.logaddexp(log_prior(codes), np.log(PRIOR_FLOOR))
        )

    return weighted_score
