"""The contracts of acquisition functions, and of optimizers that find the configurations with the highest scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.spaces.space import Space
from baco_like.surrogates.protocol import Model

Score = Callable[[Codes], Array]
"""Maps codes ``(n, w)`` to scores ``(n,)``; higher is better.

A score should be a logarithm, such as the log of the expected improvement: the Bayesian strategies add the log of the
probability of running, and a share of the log of the user's prior. They accept a score in the model's units, such as a
confidence bound, but these terms then outweigh it.
"""

REFUSED = -1e7
"""Score of a candidate that must not be chosen while there are others; finite, so that sums of scores stay numbers."""

IsExcluded = Callable[[Codes], Mask]
"""Says which rows may not be returned because they are observed or pending, ``(n, w)`` -> ``(n,)``."""


class AcquisitionFunction(Protocol):
    """Says how promising a configuration is, given a model; the values of the model are minimised."""

    def bind(self, model: Model, incumbent: float, rng: Rng) -> Score:
        """Return the score of configurations under a fitted model.

        Args:
            model: Predicts mean and variance on the scale of `Data.y`: standardised, with the Bayesian strategies after
                a logarithm (of positive costs) or an asinh.
            incumbent: The lowest value so far, on the same scale.
            rng: Random generator, for functions that draw; the returned score is deterministic.
        """


class AcquisitionOptimizer(Protocol):
    """Maximises a score over the feasible set; a frozen recipe. It needs no surrogate: a score is any callable."""

    def maximise(
        self, score: Score, space: Space, n: int, rng: Rng, start: Codes, is_excluded: IsExcluded
    ) -> tuple[Codes, Array]:
        """Return at most n distinct feasible rows that are not excluded and their scores, best first.

        Args:
            score: Maps codes ``(m, w)`` to scores ``(m,)``; higher is better, NaN counts as the lowest score. It is
                called with feasible rows only.
            space: The space to search.
            n: Number of requested rows.
            rng: Random generator; the only source of randomness.
            start: Feasible rows to start from besides random ones (the incumbents), ``(m, w)``.
            is_excluded: Rows that may be passed through but not returned.

        Returns:
            The rows, ``(<= n, w)``, and their scores, ``(<= n,)``.
        """
