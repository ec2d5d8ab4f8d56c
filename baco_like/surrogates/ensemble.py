"""A Gaussian process of this task together with those of related ones, weighted by how well they rank what is known.

Feurer, Letham and Bakshy 2018 (see `baco_like.surrogates.ranking`): the ensemble's posterior is normal with mean
sum_i w_i mean_i and variance sum_i w_i^2 variance_i. Two things differ. A related task is not
believed where this one has been seen to differ: its predictions, moved to the scale of this task, are the prior mean of
a Gaussian process of the differences (as in Golovin et al., "Google Vizier", KDD 2017), and that is the member of the
ensemble. As such a member has seen the observations, it is judged without the one that is asked about, as
the target's own model is. And because it could learn even a task in reversed order by heart, a source must rank better
than chance by itself, or it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.surrogates.gp.fit import chosen_rows
from baco_like.surrogates.gp.model import FixedGaussianProcess, GaussianProcess, GPModel
from baco_like.surrogates.gp.posterior import Posterior, safe_cholesky
from baco_like.surrogates.protocol import Data, Featured
from baco_like.surrogates.ranking import held_out_losses, pairs, ranking_losses, ranking_weights

Gaussian = GaussianProcess | FixedGaussianProcess

_MANY = 1000
"""What a source says of so many rows that cannot change is kept: they are the listed ones, at every suggestion."""


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
    _kept: list[tuple[Codes, Array]] = field(default_factory=list, repr=False)

    def mean(self, codes: Codes) -> Array:
        """Return what the task promises, in the target's units but for a level, ``(n, w)`` -> ``(n,)``."""
        if self._kept and self._kept[0][0] is codes:
            return self.slope * self._kept[0][1]
        mean, _ = self.model.predict(codes)
        if len(codes) >= _MANY and not codes.flags.writeable:
            self._kept[:] = [(codes, mean)]
        return self.slope * mean


@dataclass(frozen=True, eq=False)
class Member:
    """One model of an ensemble.

    Attributes:
        model: Of the differences to the source, or of the values themselves.
        weight: Its weight.
        source: The source, or None for the target's own model.
        level: What is added to the source's mean.
    """

    model: GPModel
    weight: float = 1.0
    source: Source | None = None
    level: float = 0.0

    def prior(self, codes: Codes) -> Array:
        """Return the prior mean, ``(n, w)`` -> ``(n,)``."""
        if self.source is None:
            return np.zeros(len(codes))
        return self.level + self.source.mean(codes)

    def surprised(self, codes: Codes, surprise: Array) -> Member:
        """Return the member that has seen values which differ by so much from what it expected."""
        value = self.model.predict(codes)[0] + surprise
        return replace(self, model=self.model.condition(codes, value))


@dataclass(frozen=True, eq=False)
class EnsembleModel:
    """A weighted ensemble.

    Attributes:
        members: Those with a positive weight; all have seen the same observations.
        hyperparameters: Those of the target's model; ``weights`` by name of the source; those of the differences, by
            source, in the order of the sources.
    """

    members: tuple[Member, ...]
    hyperparameters: Mapping[str, Any]

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance, ``(n, w)`` -> ``(n,)``, ``(n,)``."""
        mean, variance = self._prior(codes), np.zeros(len(codes))
        for member in self.members:
            own, spread = member.model.predict(codes)
            mean += member.weight * own
            variance += member.weight**2 * spread
        return mean, variance

    def condition(self, codes: Codes, y: Array) -> EnsembleModel:
        """Return the ensemble that has also seen these values: every member is as surprised as all together."""
        surprise = y - self.predict(codes)[0]
        seen = tuple(member.surprised(codes, surprise) for member in self.members)
        return EnsembleModel(seen, self.hyperparameters)

    def _prior(self, codes: Codes) -> Array:
        return np.asarray(sum(member.weight * member.prior(codes) for member in self.members))


@dataclass(frozen=True, eq=False)
class RankingEnsemble:
    """The surrogate: the target's Gaussian process is fitted anew each time, the sources stay as they are.

    Attributes:
        target: How the target's own model is fitted, and those of the differences to the sources.
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
        """Return the ensemble; the target's model alone where no source is of use, or it has not seen all data."""
        own = self.target.fit(space, data, rng, start)
        if len(own.posterior.rows) < len(data.y):
            return own
        rows = chosen_rows(data.y, self.rows, rng)
        rows = rows[~data.censored[rows]]
        members = [
            self._member(space, i, data, rows, rng, start)
            if self._informs(i, data, rows, rng)
            else None
            for i in range(len(self.sources))
        ]
        found = [*filter(None, members), Member(own)]
        losses = np.array([self._losses(member, data, rows, rng) for member in found])
        weights = ranking_weights(losses[:-1], losses[-1])
        if weights[-1] == 1.0:
            return own
        kept = [replace(m, weight=float(w)) for m, w in zip(found, weights, strict=True) if w > 0.0]
        differences = [None if m is None else m.model.hyperparameters for m in members]
        noted = {**own.hyperparameters, "weights": _named(kept), "differences": differences}
        return EnsembleModel(tuple(kept), noted)

    def _informs(self, i: int, data: Data, rows: Ints, rng: Rng) -> bool:
        """Whether a source ranks the observations better than chance, in more than half of the draws."""
        mean, covariance = self.sources[i].model.predict_joint(data.codes[rows])
        noise = rng.standard_normal((self.draws, len(rows)))
        drawn = mean + noise @ safe_cholesky(covariance).T
        return bool(np.median(ranking_losses(drawn, data.y[rows])) < pairs(data.y[rows]) / 2)

    def _member(
        self,
        space: Featured,
        i: int,
        data: Data,
        rows: Ints,
        rng: Rng,
        start: Mapping[str, Any] | None,
    ) -> Member:
        """Return the model of what a source is wrong by, with the level that makes it right on average."""
        source = self.sources[i]
        promised = source.mean(data.codes)
        level = float(np.mean((data.y - promised)[rows]))
        rest = replace(data, y=data.y - promised - level)
        return Member(self.target.fit(space, rest, rng, _of(start, i)), source=source, level=level)

    def _losses(self, member: Member, data: Data, rows: Ints, rng: Rng) -> Array:
        mean, deviation = leave_one_out(member.model.posterior)
        noise = rng.standard_normal((self.draws, len(rows)))
        drawn = (member.prior(data.codes) + mean)[rows] + deviation[rows] * noise
        return held_out_losses(drawn, data.y[rows])


def _named(members: Sequence[Member]) -> dict[str, float]:
    names = ["this run" if one.source is None else one.source.name for one in members]
    return {name: round(one.weight, 4) for name, one in zip(names, members, strict=True)}


def _of(start: Mapping[str, Any] | None, i: int) -> Mapping[str, Any] | None:
    """Return what an earlier fit has found for the differences to a source."""
    every = None if start is None else start.get("differences")
    found = every[i] if isinstance(every, list) and i < len(every) else None
    return found if isinstance(found, Mapping) else None


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
