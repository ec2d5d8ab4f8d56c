"""A Gaussian process of this task together with those of related ones, weighted by how well they rank what is known.

Feurer, Letham and Bakshy 2018 (see `baco_like.surrogates.ranking`): the ensemble's posterior is normal with mean
sum_i w_i mean_i and variance sum_i w_i^2 variance_i (section 3, Eq. 2). One thing is added. Tasks have their own
scales, so a source's predictions are moved to the target's: on logarithms a related task is the same up to a factor,
and the factor is what the observed points differ by on average. It changes no rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.surrogates.gp.fit import chosen_rows
from baco_like.surrogates.gp.model import FixedGaussianProcess, GaussianProcess, GPModel
from baco_like.surrogates.gp.posterior import Posterior, safe_cholesky
from baco_like.surrogates.protocol import Data, Featured
from baco_like.surrogates.ranking import held_out_losses, ranking_losses, ranking_weights

Gaussian = GaussianProcess | FixedGaussianProcess


@dataclass(frozen=True, eq=False)
class Source:
    """The model of a related task.

    Attributes:
        name: What notes call it.
        model: Fitted to the task's values on a scale of their own.
        slope: What one unit of that scale is on the target's.
    """

    name: str
    model: GPModel
    slope: float = 1.0


@dataclass(frozen=True, eq=False)
class Member:
    """One model of an ensemble: its weight, and the line that takes its predictions to the target's scale."""

    model: GPModel
    weight: float
    slope: float = 1.0
    level: float = 0.0

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance on the target's scale."""
        mean, variance = self.model.predict(codes)
        return self.level + self.slope * mean, self.slope**2 * variance


@dataclass(frozen=True, eq=False)
class EnsembleModel:
    """A weighted ensemble.

    Attributes:
        members: Those with a positive weight.
        hyperparameters: Those of the target's model, and ``weights`` by name of the source.
    """

    members: tuple[Member, ...]
    hyperparameters: Mapping[str, Any]

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance, ``(n, w)`` -> ``(n,)``, ``(n,)``."""
        mean, variance = np.zeros(len(codes)), np.zeros(len(codes))
        for member in self.members:
            own, spread = member.predict(codes)
            mean += member.weight * own
            variance += member.weight**2 * spread
        return mean, variance

    def condition(self, codes: Codes, y: Array) -> EnsembleModel:
        """Return the ensemble that has also seen these values: every member is surprised by as much as all together."""
        surprise = y - self.predict(codes)[0]
        seen = tuple(_surprised(member, codes, surprise) for member in self.members)
        return EnsembleModel(seen, self.hyperparameters)


def _surprised(member: Member, codes: Codes, surprise: Array) -> Member:
    value = member.model.predict(codes)[0] + surprise / member.slope
    return Member(member.model.condition(codes, value), member.weight, member.slope, member.level)


@dataclass(frozen=True, eq=False)
class RankingEnsemble:
    """The surrogate: the target's Gaussian process is fitted anew each time, the sources stay as they are.

    Attributes:
        target: How the target's own model is fitted.
        sources: Models of related tasks.
        draws: Functions drawn of each model to estimate the weights.
        rows: At most so many observations are ranked, the best half and others by chance.
    """

    target: Gaussian
    sources: tuple[Source, ...]
    draws: int = 256
    rows: int = 100

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> EnsembleModel | GPModel:
        """Return the ensemble; the target's model alone where no source is of use, or too much is known to need one."""
        own = self.target.fit(space, data, rng, start)
        if len(own.posterior.rows) < len(data.y):  # the model has seen a part of the data only
            return own
        rows = chosen_rows(data.y, self.rows, rng)
        rows = rows[~data.censored[rows]]
        weights = self._weights(own, data, rows, rng)
        if weights[-1] == 1.0:
            return own
        members = [
            self._member(source, weight, data, rows)
            for source, weight in zip(self.sources, weights, strict=False)
            if weight > 0.0
        ]
        if weights[-1] > 0.0:
            members.append(Member(own, float(weights[-1])))
        names = [*(source.name for source in self.sources), "this run"]
        noted = {name: round(float(w), 4) for name, w in zip(names, weights, strict=True)}
        return EnsembleModel(tuple(members), {**own.hyperparameters, "weights": noted})

    def _weights(self, own: GPModel, data: Data, rows: Ints, rng: Rng) -> Array:
        y = data.y[rows]
        losses = [
            ranking_losses(_joint_draws(source.model, data.codes[rows], self.draws, rng), y)
            for source in self.sources
        ]
        mean, deviation = leave_one_out(own.posterior)
        drawn = mean[rows] + deviation[rows] * rng.standard_normal((self.draws, len(rows)))
        return ranking_weights(np.array(losses), held_out_losses(drawn, y))

    def _member(self, source: Source, weight: float, data: Data, rows: Ints) -> Member:
        mean, _ = source.model.predict(data.codes[rows])
        level = float(np.mean(data.y[rows] - source.slope * mean))
        return Member(source.model, float(weight), source.slope, level)


def _joint_draws(model: GPModel, codes: Codes, count: int, rng: Rng) -> Array:
    """Return draws of the noise-free values, ``(count, n)``."""
    mean, covariance = model.predict_joint(codes)
    return mean + rng.standard_normal((count, len(mean))) @ safe_cholesky(covariance).T


def leave_one_out(posterior: Posterior) -> tuple[Array, Array]:
    """Return mean and standard deviation of the value at every observed point given the others, ``(n,)``, ``(n,)``.

    Rasmussen and Williams (2006), Eq. 5.12: with K the covariance of the observations, the mean is
    y_j - [K^-1 y]_j / [K^-1]_jj and the variance 1 / [K^-1]_jj, of which the noise is taken off here, as in all that a
    model predicts. The hyperparameters have seen all.
    """
    precision = np.einsum("ij,ij->j", posterior.inverse_factor, posterior.inverse_factor)
    y = posterior.residual + posterior.mean
    variance = np.maximum(1.0 / precision - posterior.noise, 0.0)
    return y - posterior.alpha / precision, np.sqrt(variance)
