"""Expected improvement and probability of improvement over the incumbent, as logarithms.

Models predict the noise-free value, so this is BaCO's expected improvement of a noise-free
evaluation (section 3.3), which does not come back to points that are known well.
"""

from __future__ import annotations

from dataclasses import dataclass

from baco_like._typing import Array, Codes
from baco_like.acquisitions.numerics import log_ei, log_pi
from baco_like.acquisitions.protocol import Score
from baco_like.surrogates.protocol import Model


@dataclass(frozen=True)
class ExpectedImprovement:
    """log E[max(incumbent - margin - f, 0)] (Jones et al. 1998, Eq. 15).

    Attributes:
        margin: Least improvement that counts, on the model's scale; more of it explores more (xi,
            or the lambda of Willemsen et al. 2021, section III-C).
    """

    margin: float = 0.0

    def bind(self, model: Model, incumbent: float) -> Score:
        """Return the score."""

        def score(codes: Codes) -> Array:
            return log_ei(*model.predict(codes), incumbent - self.margin)

        return score


@dataclass(frozen=True)
class ProbabilityOfImprovement:
    """log P(f < incumbent - margin).

    Attributes:
        margin: Least improvement that counts, on the model's scale.
    """

    margin: float = 0.0

    def bind(self, model: Model, incumbent: float) -> Score:
        """Return the score."""

        def score(codes: Codes) -> Array:
            return log_pi(*model.predict(codes), incumbent - self.margin)

        return score
