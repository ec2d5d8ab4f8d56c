"""A model of few strong effects and their interactions, for spaces of many parameters such as the flags of a compiler.

Most flags change little, and few observations must find those that matter. Each main effect has a normal prior with
its own variance, and the variances have a heavy-tailed prior: together a Student t prior of the effects. They are found
by expectation maximisation (Tipping, "Sparse Bayesian Learning and the Relevance Vector Machine", JMLR 2001, Eqs. 12,
13 and appendix A), in the space of the observations, of which there are fewer than effects.

Two parameters interact if both have strong effects: the prior variance of an interaction is proportional to the product
of the variances of the two effects. So the covariance is a polynomial of the linear one (Rasmussen and Williams,
"Gaussian Processes for Machine Learning", 2006, Eq. 4.23).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Features, Rng
from baco_like.surrogates.gp.fit import chosen_rows, invert_factor
from baco_like.surrogates.gp.model import ExactPosterior, safe_cholesky
from baco_like.surrogates.protocol import Data, Featured

LEVEL = 1.0
"""Prior variance of the value at the centre, on the standardised scale."""

_LEAST_VARIANCE = 1e-9


@dataclass(frozen=True, eq=False)
class EffectsModel(ExactPosterior):
    """Effects and interactions given n observations; it predicts the noise-free value.

    Attributes:
        space: Gives the features.
        centre: Features that are subtracted, those of the best observation, ``(k,)``: the prior variance of a
            configuration grows with its distance from them.
        variances: Prior variance of each main effect, ``(k,)``.
        interaction: Weight of the interactions: factor of the squared linear covariance.
        noise: Variance of what the model cannot explain.
        rows: Centred features times the root of the variances, ``(n, k)``.
        factor: Lower Cholesky factor of the covariance of the observations, ``(n, n)``.
        residual: Values of the observations, ``(n,)``.
        known: Known variances of the values, ``(n,)``.
    """

    space: Featured
    centre: Array
    variances: Array
    interaction: float
    noise: float
    rows: Features
    factor: Array
    residual: Array
    known: Array

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """The variances of the effects, and the noise."""
        shown = [float(f"{variance:.4g}") for variance in self.variances]
        return {"effects": shown, "noise": float(f"{self.noise:.4g}")}

    @property
    def count(self) -> int:
        """Number of observations that the model uses."""
        return len(self.rows)

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance of the noise-free value, ``(m, w)`` -> ``(m,)``, ``(m,)``."""
        rows = self._scaled(codes)
        covariance = _polynomial(rows @ self.rows.T, self.interaction)
        prior = _polynomial(np.einsum("ij,ij->i", rows, rows), self.interaction)
        known = covariance @ self.inverse_factor.T
        variance = prior - np.einsum("ij,ij->i", known, known)
        return covariance @ self.alpha, np.maximum(variance, 1e-10)

    def condition(self, codes: Codes, y: Array) -> EffectsModel:
        """Return the model that also uses these values, ``(m, w)``, ``(m,)``."""
        rows = np.concatenate([self.rows, self._scaled(codes)])
        known = np.concatenate([self.known, np.zeros(len(y))])
        factor = safe_cholesky(_covariance(rows, self.noise + known, self.interaction))
        residual = np.concatenate([self.residual, y])
        return replace(self, rows=rows, factor=factor, residual=residual, known=known)

    def _scaled(self, codes: Codes) -> Features:
        return (self.space.features(codes) - self.centre) * np.sqrt(self.variances)


@dataclass(frozen=True)
class SparseEffects:
    """Few strong effects and their interactions; censored values count at their bounds.

    Attributes:
        freedom: Degrees of freedom of the t prior: the fewer, the fewer effects are strong. Of 0.1 to 10, measured on
            sizes of five programs by the flags of gcc, 0.3 to 1 predicted best.
        interactions: Prior variance of all interactions of an average observation, divided by the variance of its main
            effects.
        least_noise: Least standard deviation of the noise.
        rounds: Rounds of expectation maximisation; a quarter of them from a start.
        fitted_rows: Most observations that the variances are fitted to.
        seen_rows: Most observations that predictions use.
    """

    freedom: float = 0.5
    interactions: float = 1.0
    least_noise: float = 0.1
    rounds: int = 24
    fitted_rows: int = 256
    seen_rows: int = 400

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> EffectsModel:
        """Return the model; see `Surrogate.fit`."""
        data = data.rows(chosen_rows(data.y, self.seen_rows, rng))
        features = space.features(data.codes)
        centre = features[int(np.argmin(data.y))]
        features = features - centre
        few = chosen_rows(data.y, self.fitted_rows, rng)
        variances, noise = self._fit(features[few], data.y[few], data.variance[few], start)
        rows = features * np.sqrt(variances)
        size = float(np.einsum("ij,ij->i", rows, rows).mean())
        interaction = self.interactions / size if size > 0.0 else 0.0
        known = np.asarray(data.variance)
        if self.interactions:  # interactions explain a part of the noise
            noise = max(self.least_noise**2, noise / 2.0)
        factor = safe_cholesky(_covariance(rows, noise + known, interaction))
        return EffectsModel(
            space, centre, variances, interaction, noise, rows, factor, data.y, known
        )

    def _fit(
        self, features: Features, y: Array, known: Array, start: Mapping[str, Any] | None
    ) -> tuple[Array, float]:
        """Return the variances of the effects and of the noise."""
        if not (count := features.shape[1]):
            return np.empty(0), self.least_noise**2
        scale = 1.0 / max(1.0, float((features**2).sum(axis=1).mean()))
        variances, noise, rounds = np.full(count, scale), 0.1, self.rounds
        effects = (start or {}).get("effects")
        if effects is not None and len(effects) == count:
            variances, noise = np.array(effects), float(start["noise"])  # type: ignore[index]
            scale, rounds = 1.0 / float(np.mean(1.0 / variances)), max(1, rounds // 4)
        for _ in range(rounds):
            rows = features * np.sqrt(variances)
            inverse = invert_factor(safe_cholesky(_covariance(rows, noise + known)))
            alpha = inverse.T @ (inverse @ y)
            # Posterior second moments of the effects (Eqs. 12 and 13), from the side of the observations.
            mean = np.sqrt(variances) * (rows.T @ alpha)
            explained = inverse @ rows
            reduced = np.maximum(1.0 - np.einsum("ij,ij->j", explained, explained), 0.0)
            moments = mean**2 + variances * reduced
            variances = (self.freedom * scale + moments) / (self.freedom + 1.0)
            variances = np.maximum(variances, _LEAST_VARIANCE)  # equal values shrink all of them
            scale = 1.0 / float(np.mean(1.0 / variances))
            precision = np.einsum("ij,ij->j", inverse, inverse)
            left = (noise * alpha) ** 2 + noise - noise**2 * precision
            noise = max(self.least_noise**2, float(left.mean()))
        return variances, noise


def _polynomial(linear: Array, interaction: float) -> Array:
    """Return the prior covariance for the covariance of the main effects."""
    return np.asarray(LEVEL + linear + interaction * linear**2)


def _covariance(rows: Features, noise: Array | float, interaction: float = 0.0) -> Array:
    """Return the covariance of observations with these scaled features and variances of their noise."""
    covariance = _polynomial(rows @ rows.T, interaction)
    covariance[np.diag_indices_from(covariance)] += noise
    return covariance
