"""A Gaussian process of this task combined with those of related tasks, weighted by how well they rank observations.

Feurer, Letham and Bakshy, "Scalable Meta-Learning for Bayesian Optimization using Ranking-Weighted Gaussian Process
Ensembles" (AutoML workshop at ICML 2018): the ensemble's posterior is normal with mean sum_i w_i mean_i and variance
sum_i w_i^2 variance_i. A weight says how well a model ranks the observations of this task. Only ranks count, so a task
with ten times larger values, or in another unit, is as useful as one with equal values. Two things differ here:

- A member for a related task is a Gaussian process of the differences between this task and that one. Its prior mean
  is the related task's prediction on the scale of this task (as in Golovin et al., "Google Vizier", KDD 2017). So the
  ensemble does not follow a related task where the observations contradict it.
- Because such a member uses the observations, it is ranked by leave-one-out predictions, like this task's own model.
  It could fit even a task with reversed order, so a related task must first rank better than chance on its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.surrogates.gp.fit import chosen_rows
from baco_like.surrogates.gp.model import safe_cholesky
from baco_like.surrogates.protocol import Data, Featured, GaussianModel, GaussianSurrogate

_LARGE = 1000
"""Read-only arrays of at least this number of rows are cached: the listed feasible set comes at every suggestion."""

OWN_WEIGHT = "this run"
"""The name of this task's own model among the weights."""

GUARD = 95.0
"""A source is left out if its median loss exceeds this percentile of the target model's losses."""


@dataclass(frozen=True, eq=False)
class Source:
    """The model of a related task.

    Attributes:
        name: Its name in notes.
        model: Fitted to the task's values on a separate scale.
        slope: Units of this task's scale per unit of the related task's scale.
        cache: The last predictions; copies with another slope share it.
    """

    name: str
    model: GaussianModel
    slope: float = 1.0
    cache: dict[str, tuple[Codes, Array]] = field(default_factory=dict, repr=False)

    def mean(self, codes: Codes) -> Array:
        """Return the predicted mean on this task's scale except for the level, ``(n, w)`` -> ``(n,)``."""
        cached, mean = self.cache.get("last", (None, None))
        if mean is None or cached is not codes:
            mean, _ = self.model.predict(codes)
            if len(codes) >= _LARGE and not codes.flags.writeable:
                self.cache["last"] = codes, mean
        return self.slope * mean


@dataclass(frozen=True, eq=False)
class Member:
    """One model of an ensemble.

    Attributes:
        model: Of the differences to the source, or of the values themselves where there is no source.
        weight: Its weight.
        source: The source, or None for this task's own model.
        level: Added to the source's mean.
    """

    model: GaussianModel
    weight: float = 1.0
    source: Source | None = None
    level: float = 0.0

    def prior_mean(self, codes: Codes) -> Array:
        """Return the prior mean, ``(n, w)`` -> ``(n,)``."""
        if self.source is None:
            return np.zeros(len(codes))
        return self.level + self.source.mean(codes)


@dataclass(frozen=True, eq=False)
class EnsembleModel:
    """A weighted ensemble.

    Attributes:
        members: Those with a positive weight; all use the same observations.
        hyperparameters: Those of this task's model; ``weights`` by name of the source; ``differences``, the
            hyperparameters of the models of the differences in the order of the sources.
    """

    members: tuple[Member, ...]
    hyperparameters: Mapping[str, Any]

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance, ``(n, w)`` -> ``(n,)``, ``(n,)``."""
        mean = sum(member.weight * member.prior_mean(codes) for member in self.members)
        mean, variance = np.asarray(mean), np.zeros(len(codes))
        for member in self.members:
            own_mean, own_variance = member.model.predict(codes)
            mean += member.weight * own_mean
            variance += member.weight**2 * own_variance
        return mean, variance

    def condition(self, codes: Codes, y: Array) -> EnsembleModel:
        """Return the ensemble that also uses these values; each member is shifted by the ensemble's error."""
        error = y - self.predict(codes)[0]
        members = []
        for member in self.members:
            value = member.model.predict(codes)[0] + error
            members.append(replace(member, model=member.model.condition(codes, value)))
        return EnsembleModel(tuple(members), self.hyperparameters)


@dataclass(frozen=True, eq=False)
class RankingEnsemble:
    """The surrogate: this task's Gaussian process is fitted anew each time, the sources do not change.

    Attributes:
        target: Fits this task's own model, and those of the differences to the sources.
        sources: Models of related tasks.
        draws: Number of functions drawn from each model to estimate the weights.
        rows: Maximum number of observations that are ranked: the best half, and others at random.
    """

    target: GaussianSurrogate
    sources: tuple[Source, ...]
    draws: int = 256
    rows: int = 100

    @property
    def holding(self) -> RankingEnsemble:
        """The same ensemble with a target that keeps the last hyperparameters, if it can."""
        return replace(self, target=getattr(self.target, "holding", self.target))

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> EnsembleModel | GaussianModel:
        """Return the ensemble, or this task's model alone if no source helps or it does not use all of ``data``."""
        own = self.target.fit(space, data, rng, start)
        if own.count < len(data.y) or data.censored.all():
            return own
        rows = chosen_rows(data.y, self.rows, rng)
        rows = rows[~data.censored[rows]]
        members: list[Member] = []
        differences: list[Mapping[str, Any] | None] = [None] * len(self.sources)
        for i, source in enumerate(self.sources):
            if self._ranks_better_than_chance(source, data, rows, rng):
                last = _differences(start, i)
                members.append(self._fit_differences(space, source, data, rows, rng, last))
                differences[i] = members[-1].model.hyperparameters
        members.append(Member(own))
        losses = np.array([self._losses(member, data, rows, rng) for member in members])
        weights = ranking_weights(losses[:-1], losses[-1])
        if weights[-1] == 1.0:
            return own
        kept = [
            replace(m, weight=float(w)) for m, w in zip(members, weights, strict=True) if w > 0.0
        ]
        names = {m.source.name if m.source else OWN_WEIGHT: round(m.weight, 4) for m in kept}
        notes = {**own.hyperparameters, "weights": names, "differences": differences}
        return EnsembleModel(tuple(kept), notes)

    def _ranks_better_than_chance(self, source: Source, data: Data, rows: Ints, rng: Rng) -> bool:
        """Return whether the median of the drawn functions misranks fewer than half of the pairs."""
        mean, covariance = source.model.predict_joint(data.codes[rows])
        noise = rng.standard_normal((self.draws, len(rows)))
        drawn = mean + noise @ safe_cholesky(covariance).T
        y = data.y[rows]
        pairs = (y[:, None] != y).sum()
        return bool(np.median(ranking_losses(drawn, y)) < pairs / 2)

    def _fit_differences(
        self, space: Featured, source: Source, data: Data, rows: Ints, rng: Rng, start: Any
    ) -> Member:
        """Return the model of the differences to a source, with the level that makes their mean 0."""
        predicted = source.mean(data.codes)
        level = float(np.mean((data.y - predicted)[rows]))
        differences = replace(data, y=data.y - predicted - level)
        model = self.target.fit(space, differences, rng, start)
        return Member(model, source=source, level=level)

    def _losses(self, member: Member, data: Data, rows: Ints, rng: Rng) -> Array:
        mean, deviation = member.model.leave_one_out()
        noise = rng.standard_normal((self.draws, len(rows)))
        drawn = (member.prior_mean(data.codes) + mean)[rows] + deviation[rows] * noise
        return held_out_losses(drawn, data.y[rows])


def _differences(start: Mapping[str, Any] | None, i: int) -> Mapping[str, Any] | None:
    """Return the hyperparameters of the differences to source ``i`` in an earlier fit, if it has them."""
    every = None if start is None else start.get("differences")
    earlier = every[i] if isinstance(every, list) and i < len(every) else None
    return earlier if isinstance(earlier, Mapping) else None


def ranking_losses(drawn: Array, y: Array) -> Array:
    """Return for each drawn function the number of ordered pairs that it ranks differently from the values.

    The paper's ranking loss: sum over j, k of [(f_j < f_k) xor (y_j < y_k)]; pairs of equal values do not count.

    Args:
        drawn: Functions drawn from a model, at the observed points, ``(s, n)``.
        y: The observed values, ``(n,)``.

    Returns:
        ``(s,)``.
    """
    return _disagreements(drawn[:, :, None] < drawn[:, None, :], y)


def held_out_losses(drawn: Array, y: Array) -> Array:
    """Return the ranking losses of a model that was fitted to these values, from its leave-one-out predictions.

    Each point's value is drawn from the model without this point and compared with the observed values of the others:
    sum over j, k of [(f_j < y_k) xor (y_j < y_k)].

    Args:
        drawn: Draws of every point's value without this point, ``(s, n)``.
        y: The observed values, ``(n,)``.

    Returns:
        ``(s,)``.
    """
    return _disagreements(drawn[:, :, None] < y, y)


def _disagreements(is_below: Mask, y: Array) -> Array:
    wrong = (is_below != (y[:, None] < y)) & (y[:, None] != y)
    return np.asarray(wrong.sum(axis=(1, 2)), dtype=float)


def ranking_weights(sources: Array, target: Array) -> Array:
    """Return the weights of the sources, then the target's weight; they add up to 1.

    A weight is the share of the draws in which the model's loss is the lowest (the paper's weights); equal losses share
    a draw. Many useless sources together would win draws from the target by chance, so a source whose median loss
    exceeds the 95th percentile of the target's losses is left out first (the paper's guard against weight dilution).

    Args:
        sources: Losses by source and draw, ``(m, s)``.
        target: Losses of the target's model by draw, ``(s,)``.

    Returns:
        ``(m + 1,)``.
    """
    kept = np.median(sources, axis=1) <= np.percentile(target, GUARD)
    losses = np.vstack([np.where(kept[:, None], sources, np.inf), target])
    lowest = losses == losses.min(axis=0)
    return np.asarray((lowest / lowest.sum(axis=0)).mean(axis=1))
