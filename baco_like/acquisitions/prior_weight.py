"""Weight a score by the user's belief about the optimum, less and less as evidence comes in."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes
from baco_like.acquisitions.protocol import Score

FLOOR = 1e-6
"""Added to the belief, so that a configuration believed impossible can still be found."""


def believed(score: Score, log_belief: Score, observations: int, strength: float = 10.0) -> Score:
    """Return the score plus (strength / observations) log belief.

    This is piBO (Hvarfner et al., ICLR 2022) on the log scale.

    Args:
        score: On a log scale.
        log_belief: Logarithm of the prior probability that a configuration is the optimum, up to a
            constant.
        observations: How many values are known; the exponent fades with them.
        strength: The exponent at one observation.
    """
    exponent = strength / max(observations, 1)

    def both(codes: Codes) -> Array:
        belief = np.logaddexp(log_belief(codes), np.log(FLOOR))
        return np.asarray(score(codes) + exponent * belief)

    return both
