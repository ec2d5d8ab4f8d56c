"""Thompson sampling: follow one draw of the posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.gp.posterior import safe_cholesky
from baco_like.surrogates.protocol import JointModel, SamplingModel


def posterior_draw(model: JointModel, codes: Codes, rng: Rng) -> Array:
    """Return one exact joint draw of the noise-free values, ``(n, w)`` -> ``(n,)``.

    Args:
        model: Has a joint posterior.
        codes: All candidates at once; values drawn in two calls do not belong together.
        rng: Chance.
    """
    mean, covariance = model.predict_joint(codes)
    return np.asarray(mean + safe_cholesky(covariance) @ rng.standard_normal(len(mean)))


@dataclass(frozen=True)
class ThompsonSampling:
    """Minus one function drawn from the posterior, the same at every call of the score.

    Attributes:
        rng: Chance, used once per `bind`.
    """

    rng: Rng

    def bind(self, model: SamplingModel, incumbent: float) -> Score:
        """Return the score; the incumbent does not matter."""
        drawn = model.draw(self.rng)

        def score(codes: Codes) -> Array:
            return -drawn(codes)

        return score
