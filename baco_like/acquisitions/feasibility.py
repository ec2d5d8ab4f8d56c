"""Weight a score by the probability of running, above a minimum that is drawn anew each time.

BaCO, section 4.2: EI times the probability of feasibility (Gardner et al. 2014), and only
configurations whose probability is above a limit, because a model that is sure of the feasible
region pulls the choice towards the infeasible one. The limit is random, and zero with positive
probability, so that nothing is cut off for ever.
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.constant import ConstantFeasibility
from baco_like.surrogates.protocol import FeasibilityModel

LEAST_PROBABILITY = 1e-12
LARGEST_SCORE = 1e8
"""Scores beyond it count as it; log EI is there 1e4 deviations from the incumbent."""

SETBACK = 4.0 * LARGEST_SCORE
"""What a configuration below the minimum loses; more than the widest difference of two scores."""


def weighted(score: Score, model: FeasibilityModel, minimum: float) -> Score:
    """Return log score plus log probability of feasibility.

    Configurations below the minimum rank below all others, but are still ordered among themselves,
    so a search has a slope to follow and something to return where nothing is above.

    Args:
        score: On a log scale; for a score in the units of values, half a probability costs 0.7 of
            the unit.
        model: Gives the probabilities.
        minimum: Least probability, from `draw_minimum`.
    """
    if isinstance(model, ConstantFeasibility):  # no order changes
        return score

    def both(codes: Codes) -> Array:
        probability = model.probability(codes)
        plain = np.clip(score(codes), -LARGEST_SCORE, LARGEST_SCORE)
        total = plain + np.log(np.maximum(probability, LEAST_PROBABILITY))
        return np.where(probability < minimum, total - SETBACK, total)

    return both


def draw_minimum(rng: Rng, largest: float = 0.5) -> float:
    """Return the least probability of feasibility for one suggestion: zero in one of eleven draws.

    The distribution is the BaCO program's: uniform over eleven steps from 0 to ``largest``. Its
    largest is 0.1 for a forest that counts successes four times as much as failures; the one here
    does not, so its limit is higher.
    """
    return largest * float(rng.integers(11)) / 10.0
