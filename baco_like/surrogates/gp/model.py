"""The fitted closed-form Gaussian process, computed from one Cholesky factor; imputation of censored values.

Equations are those of Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Features, Rng
from baco_like.surrogates.gp.fit import (
    Hyperparameters,
    Mean,
    cho_solve,
    invert_factor,
    solve_mean,
    to_json,
)
from baco_like.surrogates.gp.kernel import (
    Kernel,
    cross_squared_distances,
    distance_factor,
    distance_product,
    distance_rows,
)
from baco_like.surrogates.protocol import Data, Featured

WAVES = 1024
"""Number of random Fourier features of a drawn function."""

BLOCK = 2**16
"""Numbers in a working array of a prediction: 512 KiB, which stays in the processor's cache."""

JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)
"""Values added to the diagonal, relative to its mean, until the Cholesky factorisation succeeds."""


@cache
def keep_freed_memory() -> None:
    """Make glibc keep freed memory for later allocations.

    By default glibc returns every freed block above 128 KiB to the system and gets it back page by page; that took a
    tenth of the time of a suggestion (benchmarks/speed/results/suggest.md). Freeing a larger block once raises its
    limit to that block's size. This one has 16 MiB, which are never touched; glibc ignores blocks from 32 MiB on.
    """
    np.empty(2**21)


class ExactPosterior:
    """What a posterior in closed form has in common: products with the inverse of the covariance K.

    Attributes:
        factor: Lower Cholesky factor of the covariance of the observations, ``(n, n)``.
        residual: Values minus the prior mean, ``(n,)``.
    """

    factor: Array
    residual: Array

    @cached_property
    def alpha(self) -> Array:
        """K^-1 (y - mean), ``(n,)``."""
        return cho_solve(self.factor, self.residual)

    @cached_property
    def inverse_factor(self) -> Array:
        """The inverse of `factor`."""
        return invert_factor(self.factor)

    @property
    def precision(self) -> Array:
        """The diagonal of K^-1: one over the variance of each observation given the others, ``(n,)``."""
        return np.asarray(np.einsum("ij,ij->j", self.inverse_factor, self.inverse_factor))


@dataclass(frozen=True, eq=False)
class GPModel(ExactPosterior):
    """A Gaussian process over a space given n observations; it predicts the noise-free value.

    Attributes:
        space: Gives the features.
        kernel: The correlation.
        fitted: The hyperparameters.
        scales: One over the lengthscale of every feature column, ``(k,)``.
        mean: Prior mean.
        rows: Scaled features of the observations, ``(n, k)``.
        factor: Lower Cholesky factor of the covariance of the observations, ``(n, n)``.
        residual: Values minus the prior mean, ``(n,)``.
    """

    space: Featured
    kernel: Kernel
    fitted: Hyperparameters
    scales: Array
    mean: float
    rows: Features
    factor: Array
    residual: Array

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """Lengthscales (one per active parameter), outputscale and noise variance, on the model's scale."""
        return to_json(self.fitted)

    @property
    def count(self) -> int:
        """Number of observations that the model uses."""
        return len(self.rows)

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array, Array]:
        """Centre and right factor of the distances, and `alpha` and `inverse_factor` times the outputscale."""
        centre, right = distance_factor(self.rows)
        outputscale = self.fitted.outputscale
        return centre, right, outputscale * self.alpha, outputscale * self.inverse_factor

    def scaled_features(self, codes: Codes) -> Features:
        """Return the features divided by the lengthscales, ``(n, w)`` -> ``(n, k)``."""
        return self.space.features(codes) * self.scales

    def covariance(self, a: Features, b: Features) -> Array:
        """Return the prior covariance of scaled features, ``(m, k)``, ``(n, k)`` -> ``(m, n)``."""
        return self.fitted.outputscale * correlations(self.kernel, a, b)

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance of the noise-free value, ``(m, w)`` -> ``(m,)``, ``(m,)``.

        Eqs. 2.25 and 2.26, with K^-1 from the inverse of the Cholesky factor. Candidates are predicted in blocks of
        `BLOCK` numbers.
        """
        from scipy.linalg.blas import dtrmm

        m, n = len(codes), len(self.rows)
        centre, right, alpha, triangle = self._factors
        features = self.space.features(codes)
        mean, variance = np.empty(m), np.empty(m)
        size = max(1, min(m, BLOCK // max(n, 1)))
        first, second = np.empty((size, n)), np.empty((size, n))
        scaled = np.empty((size, len(right)))
        for at in range(0, m, size):
            block = slice(at, min(at + size, m))
            used = slice(0, block.stop - at)
            left = distance_rows(features[block], centre, self.scales, scaled[used])
            squared = distance_product(left, right, first[used])
            cross = self.kernel.value(squared, second[used])
            np.dot(cross, alpha, out=mean[block])
            # A product with a triangle is half the work of a full one. It works in place on the transpose, which is in
            # the Fortran order that BLAS expects.
            solved = dtrmm(1.0, triangle, cross.T, lower=1, overwrite_b=1)
            np.einsum("ij,ij->j", solved, solved, out=variance[block])
        return mean + self.mean, np.maximum(self.fitted.outputscale - variance, 0.0)

    def predict_joint(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean ``(m,)`` and covariance ``(m, m)`` of the noise-free values."""
        scaled = self.scaled_features(codes)
        cross = self.covariance(scaled, self.rows)
        solved = cross @ self.inverse_factor.T
        covariance = self.covariance(scaled, scaled) - solved @ solved.T
        return cross @ self.alpha + self.mean, covariance

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean and standard deviation at every observation given the others, ``(n,)``, ``(n,)``.

        Rasmussen and Williams (2006), Eq. 5.12: with K the covariance of the observations, the mean is
        y_j - [K^-1 y]_j / [K^-1]_jj and the variance 1 / [K^-1]_jj. The noise is subtracted, because models predict
        the noise-free value. The hyperparameters are not fitted again.
        """
        precision = self.precision
        mean = self.residual + self.mean - self.alpha / precision
        return mean, np.sqrt(np.maximum(1.0 / precision - self.fitted.noise, 0.0))

    def draw(self, rng: Rng) -> Callable[[Codes], Array]:
        """Return one function drawn from the posterior, ``(m, w)`` -> ``(m,)``.

        All calls evaluate the same function; see `draw_several`.
        """
        drawn = self.draw_several(1, WAVES, rng, np.float64)
        return lambda codes: drawn(codes)[0]

    def draw_several(
        self, count: int, waves: int, rng: Rng, precision: type[np.floating[Any]] = np.float32
    ) -> Callable[[Codes], Array]:
        """Return functions drawn from the posterior together, ``(m, w)`` -> ``(count, m)``.

        Draws from the prior (random Fourier features: Rahimi and Recht 2007) are corrected at the observations by
        Matheron's rule (Wilson et al., ICML 2020, Eq. 13). They share their random Fourier features: the features of a
        candidate, which take most of the time, are computed once for all functions.

        Args:
            count: Number of functions.
            waves: Number of random Fourier features.
            rng: Random generator.
            precision: Of the cosines. In single precision they take an eighth of the time; their error is far below
                the error of the features, but differences of near points need double precision.
        """
        frequencies = self.kernel.frequencies(waves, self.rows.shape[1], rng).astype(precision)
        phases = rng.uniform(0.0, 2.0 * np.pi, waves).astype(precision)
        size = np.sqrt(2.0 * self.fitted.outputscale / waves)
        weights = (rng.standard_normal((waves, count)) * size).astype(precision)

        def prior(scaled: Features) -> Array:
            angles = scaled.astype(precision) @ frequencies.T
            angles += phases
            return np.asarray(np.cos(angles, out=angles) @ weights, dtype=np.float64)

        # K is the noise-free covariance plus the noise, known variances included.
        noises = np.einsum("ij,ij->i", self.factor, self.factor) - self.fitted.outputscale
        spread = np.sqrt(np.maximum(noises, 0.0))[:, None]
        noise = spread * rng.standard_normal((len(self.rows), count))
        missing = cho_solve(self.factor, self.residual[:, None] - prior(self.rows) - noise)

        def drawn(codes: Codes) -> Array:
            values = np.empty((count, len(codes)))
            step = max(1, 8 * BLOCK // waves)
            for at in range(0, len(codes), step):
                block = slice(at, at + step)
                scaled = self.scaled_features(codes[block])
                correction = self.covariance(scaled, self.rows) @ missing
                values[:, block] = (self.mean + prior(scaled) + correction).T
            return values

        return drawn

    def border(self, scaled: Features, variance: Array | float = 0.0) -> tuple[Array, Array, Array]:
        """Return what the covariance and its Cholesky factor need for m more rows.

        Args:
            scaled: Their scaled features, ``(m, k)``.
            variance: Their known variances, ``(m,)``.

        Returns:
            The covariance of the old and the new rows, ``(n, m)``; the part of the factor below the old one,
            transposed, ``(n, m)``; and the factor of the corner, ``(m, m)``.
        """
        cross = self.covariance(self.rows, scaled)
        below = self.inverse_factor @ cross
        corner = self.covariance(scaled, scaled) - below.T @ below
        corner[np.diag_indices_from(corner)] += self.fitted.noise + variance
        return cross, below, safe_cholesky(corner)

    def condition(self, codes: Codes, y: Array) -> GPModel:
        """Return the model that also uses these values, ``(m, w)``, ``(m,)``, with the same hyperparameters.

        The factor gets m more rows; its old rows and the prior mean do not change.
        """
        scaled = self.scaled_features(codes)
        _, below, corner = self.border(scaled)
        n, m = len(self.rows), len(scaled)
        factor = np.zeros((n + m, n + m))
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = self.factor, below.T, corner
        rows = np.concatenate([self.rows, scaled])
        residual = np.concatenate([self.residual, y - self.mean])
        return replace(self, rows=rows, factor=factor, residual=residual)


def fit_posterior(
    space: Featured, kernel: Kernel, features: Features, data: Data, h: Hyperparameters, mean: Mean
) -> GPModel:
    """Return the model of n observations with known hyperparameters; censored values count at their bounds.

    Args:
        space: The space.
        kernel: The correlation.
        features: Features of the observations, ``(n, k)``.
        data: The observations.
        h: The hyperparameters.
        mean: The prior mean.
    """
    keep_freed_memory()
    scales = 1.0 / h.lengthscales[np.asarray(space.feature_owner)]
    rows = features * scales
    covariance = correlations(kernel, rows, rows)
    covariance *= h.outputscale
    np.fill_diagonal(covariance, h.outputscale + h.noise + data.variance)
    factor = safe_cholesky(covariance)
    level, _ = solve_mean(factor, data.y, mean)
    return GPModel(space, kernel, h, scales, level, rows, factor, data.y - level)


def fit_imputed(
    space: Featured, kernel: Kernel, features: Features, data: Data, h: Hyperparameters, mean: Mean
) -> GPModel:
    """Return the model like `fit_posterior`, with every censored value replaced by its expectation above its bound.

    The first pass predicts the censored rows from the uncensored ones. The second pass predicts each from all others,
    imputed ones included (leave-one-out prediction: Rasmussen and Williams 2006, Eq. 5.12). The expectation is
    the mean of a normal distribution truncated at the bound, so it is at least the bound.
    """
    censored = data.censored
    if censored.all() or not censored.any():
        return fit_posterior(space, kernel, features, data, h, mean)
    y, bound, known = data.y.copy(), data.y[censored], np.flatnonzero(~censored)
    uncensored = fit_posterior(space, kernel, features[known], data.rows(known), h, mean)
    centre, variance = uncensored.predict(data.codes[censored])
    y[censored] = truncated_mean(centre, variance + h.noise, bound)
    imputed = fit_posterior(space, kernel, features, replace(data, y=y), h, mean)
    precision = (imputed.inverse_factor**2).sum(axis=0)[censored]
    centre = y[censored] - imputed.alpha[censored] / precision
    y[censored] = truncated_mean(centre, 1.0 / precision, bound)
    return fit_posterior(space, kernel, features, replace(data, y=y), h, mean)


def truncated_mean(mean: Array, variance: Array, bound: Array) -> Array:
    """Return the means of normal variables that are truncated below at their bounds, elementwise."""
    from scipy.special import erfcx

    spread = np.sqrt(np.maximum(variance, 1e-300))
    a = (bound - mean) / spread
    # phi(a) / (1 - Phi(a)) = sqrt(2/pi) / erfcx(a / sqrt(2)), which does not underflow or overflow above the mean.
    hazard = np.sqrt(2.0 / np.pi) / erfcx(np.maximum(a, -20.0) / np.sqrt(2.0))
    return np.asarray(np.maximum(bound, mean + spread * hazard))


def correlations(kernel: Kernel, a: Features, b: Features) -> Array:
    """Return the correlations of scaled features, ``(m, k)``, ``(n, k)`` -> ``(m, n)``."""
    squared = cross_squared_distances(a, b)
    return kernel.value(squared, np.empty_like(squared))


def safe_cholesky(matrix: Array) -> Array:
    """Return the lower Cholesky factor after adding the smallest sufficient value of `JITTERS` to the diagonal.

    Raises:
        numpy.linalg.LinAlgError: Even the largest value is not enough, because entries are not finite.
    """
    size = max(float(np.mean(np.diagonal(matrix))), 1e-12)
    for jitter in JITTERS:
        try:
            lifted = matrix + jitter * size * np.eye(len(matrix)) if jitter else matrix
            return np.asarray(np.linalg.cholesky(lifted), dtype=float)
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError(
        "covariance is not positive definite even with its diagonal doubled"
    )
