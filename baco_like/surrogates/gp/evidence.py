"""The log posterior of the hyperparameters in closed form, with its gradient.

For K = s R + diag(noise + v) with correlations R, and a = K^-1 (y - mean) (Rasmussen and Williams 2006, Eqs. 5.8
and 5.9):

    log p(y)  = -1/2 (y - mean)' a - 1/2 log|K| - n/2 log(2 pi)
    d log p(y) = 1/2 tr((a a' - K^-1) dK)

The log densities of the priors are added. They are densities of the hyperparameters, not of their logarithms, as in
GPyTorch's ``ExactMarginalLogLikelihood``, against which the tests compare this module.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from baco_like._typing import Array, Ints
from baco_like.surrogates.gp.kernel import Kernel
from baco_like.surrogates.gp.prior import Prior, Priors

LOG_2PI = math.log(2.0 * math.pi)

Mean = Literal["zero", "constant"]
"""The prior mean of the standardised values."""


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of a Gaussian process over p parameters.

    Attributes:
        lengthscales: One per parameter, ``(p,)``.
        outputscale: Prior variance of the noise-free value.
        noise: Variance of one observation's noise.
    """

    lengthscales: Array
    outputscale: float
    noise: float

    @property
    def logs(self) -> Array:
        """The logarithms as one vector ``(p + 2,)``: lengthscales, outputscale, noise."""
        both = np.concatenate([self.lengthscales, [self.outputscale, self.noise]])
        return np.asarray(np.log(both))

    @classmethod
    def from_logs(cls, theta: Array) -> Hyperparameters:
        """Return the hyperparameters whose `logs` are ``theta``."""
        values = np.exp(theta)
        return cls(values[:-2], float(values[-2]), float(values[-1]))


@dataclass(frozen=True, eq=False)
class Evidence:
    """The log posterior density of given observations, as a function of the logarithms of the hyperparameters.

    Attributes:
        kernel: The correlation.
        priors: Densities of the hyperparameters.
        squares: Squared distance of the rows in every parameter, ``(p, n, n)``.
        y: Values, ``(n,)``.
        variance: Known variance of every value, ``(n,)``.
        mean: The prior mean: zero, or a constant. The constant is its generalised least squares estimate
            1'K^-1 y / 1'K^-1 1; because it maximises the density, the gradient by the other numbers does not change.
    """

    kernel: Kernel
    priors: Priors
    squares: Array
    y: Array
    variance: Array
    mean: Mean = "zero"

    @cached_property
    def _flat(self) -> Array:
        p, n, _ = self.squares.shape
        return np.ascontiguousarray(self.squares.reshape(p, n * n))

    @cached_property
    def prior(self) -> Prior:
        """The prior of the vector of all hyperparameters, ``(..., p + 2)``."""
        return self.priors.joint(len(self.squares))

    @cached_property
    def _workspace(self) -> Array:
        """Three matrices that every evaluation overwrites: allocating them takes longer than filling them."""
        n = len(self.y)
        return np.empty((3, n, n))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the log posterior density up to a constant, and its gradient by ``theta``.

        Args:
            theta: Logarithms of the hyperparameters, ``(p + 2,)``.

        Returns:
            ``(-inf, zeros)`` where the covariance is not positive definite in floating point.
        """
        from scipy.linalg.lapack import dpotrf, dpotri

        h = Hyperparameters.from_logs(theta)
        n = len(self.y)
        squared, *spare = self._workspace
        np.dot(h.lengthscales**-2.0, self._flat, out=squared.reshape(-1))
        covariance, slope = self.kernel.slope(squared, *spare)
        covariance *= h.outputscale
        covariance.flat[:: n + 1] += h.noise + self.variance
        # The matrix is symmetric: its transpose is in the Fortran order that LAPACK expects, without a copy.
        factor, failed = dpotrf(covariance.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            return -math.inf, np.zeros_like(theta)
        level, alpha = solve_mean(factor, self.y, self.mean)
        residual = self.y - level
        half_logdet = float(np.log(np.diagonal(factor)).sum())
        likelihood = -0.5 * float(residual @ alpha) - half_logdet - 0.5 * n * LOG_2PI
        inverse = dpotri(factor, lower=1, overwrite_c=1)[0]
        gradient = self._likelihood_gradient(h, residual, alpha, inverse, slope)
        values = np.exp(theta)
        density = float(self.prior.log_density(values).sum())
        return likelihood + density, gradient + values * self.prior.gradient(values)

    def _likelihood_gradient(
        self, h: Hyperparameters, residual: Array, alpha: Array, inverse: Array, slope: Array
    ) -> Array:
        """Return the gradient by the logarithms; ``inverse`` has a zero upper triangle and is overwritten.

        With K_f the noise-free covariance and N the noise, K_f a = (y - mean) - N a and tr(K^-1 K_f) = n - tr(K^-1 N),
        so the trace for the outputscale needs no second matrix. A distance matrix has a zero diagonal, so its trace
        with the inverse is twice the sum over the lower triangle.
        """
        n = len(alpha)
        diagonal = np.diagonal(inverse).copy()
        noises = h.noise + self.variance
        inverse *= -2.0
        weights = inverse.T
        weights += np.multiply.outer(alpha, alpha)
        weights *= slope
        by_lengthscale = (self._flat @ weights.ravel()) * (-h.outputscale * h.lengthscales**-2.0)
        signal = float(alpha @ (residual - noises * alpha)) - (n - float(diagonal @ noises))
        noise = h.noise * float(alpha @ alpha - diagonal.sum())
        return np.concatenate([by_lengthscale, [0.5 * signal, 0.5 * noise]])

    def subset(self, rows: Ints) -> Evidence:
        """Return the evidence of some rows only."""
        squares = self.squares[:, rows[:, None], rows]
        return replace(self, squares=squares, y=self.y[rows], variance=self.variance[rows])

    def scores(self, thetas: Array) -> Array:
        """Return the log posterior density of a batch, ``(s, p + 2)`` -> ``(s,)``.

        Each covariance matrix gets two more rows, ones and the values. The last rows of its Cholesky factor are then
        L^-1 1 and L^-1 y, so one batched factorisation does all the work.
        """
        values = np.exp(thetas)
        n = len(self.y)
        squared = (values[:, :-2] ** -2.0) @ self._flat
        bordered = np.zeros((len(thetas), n + 2, n + 2))
        bordered[:, :n, :n] = self.kernel.value(squared, np.empty_like(squared)).reshape(-1, n, n)
        bordered *= values[:, -2, None, None]
        rows = np.arange(n)
        noises = values[:, -1, None] + self.variance
        bordered[:, rows, rows] += noises
        border = np.stack([np.ones(n), self.y])
        bordered[:, n:, :n] = border
        # Corners greater than b' K^-1 b keep the matrix positive definite; the result does not use them.
        corners = 1.0 + 4.0 * (border**2).sum() / noises.min(axis=1)
        bordered[:, n, n] = bordered[:, n + 1, n + 1] = corners
        factors = _cholesky(bordered)
        ones, solved = factors[:, n, :n], factors[:, n + 1, :n]
        fit = (solved**2).sum(axis=1)
        if self.mean == "constant":
            fit = fit - (ones * solved).sum(axis=1) ** 2 / (ones**2).sum(axis=1)
        half_logdet = np.log(factors[:, rows, rows]).sum(axis=1)
        likelihood = -0.5 * fit - half_logdet - 0.5 * n * LOG_2PI
        score = likelihood + self.prior.log_density(values).sum(axis=1)
        return np.where(np.isfinite(score), score, -math.inf)


def solve_mean(factor: Array, y: Array, mean: Mean) -> tuple[float, Array]:
    """Return the prior mean and K^-1 (y - mean), given the lower Cholesky factor of K."""
    if mean == "zero":
        return 0.0, cho_solve(factor, y)
    both = cho_solve(factor, np.column_stack([y, np.ones_like(y)]))
    level = float(both[:, 0].sum() / both[:, 1].sum())
    return level, both[:, 0] - level * both[:, 1]


def cho_solve(factor: Array, right: Array) -> Array:
    """Return K^-1 times a vector or matrix, given the lower Cholesky factor of K."""
    from scipy.linalg.lapack import dpotrs

    return np.asarray(dpotrs(factor, right, lower=1)[0])


def _cholesky(batch: Array) -> Array:
    """Return the Cholesky factors of a batch; the factor of a matrix that is not positive definite is NaN."""
    try:
        return np.asarray(np.linalg.cholesky(batch), dtype=float)
    except np.linalg.LinAlgError:
        factors = np.full_like(batch, np.nan)
        for i, matrix in enumerate(batch):
            with suppress(np.linalg.LinAlgError):
                factors[i] = np.linalg.cholesky(matrix)
        return factors
