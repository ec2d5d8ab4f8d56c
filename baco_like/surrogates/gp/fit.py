"""The log posterior of the hyperparameters in closed form, with its gradient, and the search for its maximum.

For K = s R + diag(noise + v) with correlations R, and a = K^-1 (y - mean) (Rasmussen and Williams 2006, Eqs. 5.8
and 5.9):

    log p(y)  = -1/2 (y - mean)' a - 1/2 log|K| - n/2 log(2 pi)
    d log p(y) = 1/2 tr((a a' - K^-1) dK)

The log densities of the priors are added. They are densities of the hyperparameters, not of their logarithms, as in
GPyTorch's ``ExactMarginalLogLikelihood``, against which the tests compare this module.

The fit: BaCO (section 3.2) "first uniformly samples a number of possible hyperparameter settings, then chooses a
fraction of those with highest likelihood, and optimizes them individually using L-BFGS". Here the draws come from the
priors and are scored in one batch, on a subset of the rows if there are many. The last fit's optimum is one more start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from baco_like._typing import Array, Ints, Rng
from baco_like.surrogates.gp.kernel import Kernel, SquaredDistances
from baco_like.surrogates.gp.prior import Prior, Priors

LOG_2PI = math.log(2.0 * math.pi)

Mean = Literal["zero", "constant"]
"""The prior mean of the standardised values."""

LENGTHSCALES = (1e-2, 1e2)
OUTPUTSCALES = (1e-3, 1e3)
NOISES = (1e-6, 1e1)

PROPOSED = 256
"""Number of hyperparameters that `draw_hyperparameters` proposes."""

MOST_DRAWN = 64
"""With more parameters than this the Hessian takes seconds, and importance resampling keeps very few draws."""

LEAST_PRECISION = 0.5
"""Least precision of a proposal: where the observations say nothing, the priors' spread of 1 is left."""

SCORED_NUMBERS = 2**21
"""Numbers in the covariance matrices that are scored at once."""


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
        squares: Squared distance of the rows in every parameter.
        y: Values, ``(n,)``.
        variance: Known variance of every value, ``(n,)``.
        mean: The prior mean: zero, or a constant. The constant is its generalised least squares estimate
            1'K^-1 y / 1'K^-1 1; because it maximises the density, the gradient by the other numbers does not change.
    """

    kernel: Kernel
    priors: Priors
    squares: SquaredDistances
    y: Array
    variance: Array
    mean: Mean = "zero"

    @cached_property
    def prior(self) -> Prior:
        """The prior of the vector of all hyperparameters, ``(..., p + 2)``."""
        return self.priors.joint(self.squares.groups)

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
        self.squares.weighted_sum(h.lengthscales**-2.0, squared)
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
        by_lengthscale = self.squares.contract(weights) * (-h.outputscale * h.lengthscales**-2.0)
        signal = float(alpha @ (residual - noises * alpha)) - (n - float(diagonal @ noises))
        noise = h.noise * float(alpha @ alpha - diagonal.sum())
        return np.concatenate([by_lengthscale, [0.5 * signal, 0.5 * noise]])

    def subset(self, rows: Ints) -> Evidence:
        """Return the evidence of some rows only."""
        squares = self.squares.subset(rows)
        return replace(self, squares=squares, y=self.y[rows], variance=self.variance[rows])

    def scores(self, thetas: Array) -> Array:
        """Return the log posterior density of a batch, ``(s, p + 2)`` -> ``(s,)``.

        Each covariance matrix gets two more rows, ones and the values. The last rows of its Cholesky factor are then
        L^-1 1 and L^-1 y, so one batched factorisation does all the work.
        """
        values = np.exp(thetas)
        n = len(self.y)
        squared = self.squares.weighted_sums(values[:, :-2] ** -2.0)
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


def invert_factor(factor: Array) -> Array:
    """Return the inverse of a lower Cholesky factor: products with it are faster than solving."""
    from scipy.linalg.lapack import dtrtri

    return np.asarray(dtrtri(factor, lower=1)[0])


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


@dataclass(frozen=True)
class Effort:
    """Effort of a fit; the defaults were chosen by measurement (benchmarks/quality/log/surrogate.md).

    Attributes:
        draws: Number of prior draws that are scored.
        scored_rows: Maximum number of rows in the scoring.
        starts: Number of the best draws that are refined if there is no earlier optimum.
        fresh_starts: Number of the best draws that are refined besides an earlier optimum, now and then: one more
            observation moves an optimum little, and looking for another one costs more than following it.
        fresh_every: Fresh starts are used whenever the number of observations is a multiple of this.
        fitted_rows: Maximum number of rows in the refinement.
        seen_rows: Maximum number of rows that the model uses: time grows with their cube, memory with their square.
        steps: Maximum number of L-BFGS-B iterations from one start.
        follow_steps: Maximum number of iterations from an earlier optimum, which the next fit continues; 0 keeps it. In
            six GPU spaces 3 steps were as good as 4 and saved a twentieth of a suggestion's time; 2 were worse.
        tolerance: L-BFGS-B stops when a step gains less than this, relative to the objective.
    """

    draws: int = 64
    scored_rows: int = 40
    starts: int = 3
    fresh_starts: int = 1
    fresh_every: int = 5
    fitted_rows: int = 400
    seen_rows: int = 2000
    steps: int = 60
    follow_steps: int = 3
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("draws", "scored_rows", "starts", "fresh_every", "fitted_rows", "seen_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


def maximise_evidence(
    evidence: Evidence,
    effort: Effort,
    rng: Rng,
    start: Mapping[str, Any] | None = None,
    count: int | None = None,
) -> Hyperparameters:
    """Return the hyperparameters with the highest posterior density of all refined starts.

    Args:
        evidence: The observations, or a part of them.
        effort: Effort of the fit.
        rng: Random generator; the only source of randomness.
        start: `to_json` of an earlier optimum; one for another number of parameters is ignored.
        count: Number of all observations; by default those in ``evidence``.
    """
    count = len(evidence.y) if count is None else count
    groups = evidence.squares.groups
    earlier = from_json(start, groups)
    starts = [] if earlier is None else [earlier.logs]
    if earlier is not None and count % effort.fresh_every:
        steps = effort.follow_steps
    else:
        steps = effort.steps
        fresh = effort.starts if earlier is None else effort.fresh_starts
        starts += _best_draws(evidence, effort, fresh, rng)
    best = refine(evidence, starts, _bounds(groups), steps, effort.tolerance)
    return Hyperparameters.from_logs(best)


def kept_hyperparameters(
    effort: Effort, start: Mapping[str, Any] | None, groups: int, count: int
) -> Hyperparameters | None:
    """Return the earlier optimum if a fit would keep it, else None; see `maximise_evidence` for the arguments."""
    is_kept = not effort.follow_steps and count % effort.fresh_every
    return from_json(start, groups) if is_kept else None


def _best_draws(evidence: Evidence, effort: Effort, count: int, rng: Rng) -> list[Array]:
    """Return the logarithms of the best of many prior draws, scored on a subset of the rows."""
    groups = evidence.squares.groups
    low, high = np.array(_bounds(groups)).T
    draws = np.log(evidence.prior.sample((effort.draws, groups + 2), rng)).clip(low, high)
    scored = evidence.subset(chosen_rows(evidence.y, effort.scored_rows, rng))
    order = np.argsort(-scored.scores(draws), kind="stable")
    return [draws[i] for i in order[:count]]


def draw_hyperparameters(
    evidence: Evidence, optimum: Hyperparameters, count: int, rng: Rng
) -> list[Hyperparameters]:
    """Return hyperparameters drawn from their posterior, approximately.

    Draws from the Laplace approximation at the optimum (Rasmussen and Williams 2006, section 3.4, here of the
    logarithms of the hyperparameters) are resampled by their posterior density: sampling importance resampling
    (Rubin 1988).

    Args:
        evidence: The observations.
        optimum: The hyperparameters with the highest density.
        count: Number of draws; some may be equal. With more than `MOST_DRAWN` parameters all are the optimum.
        rng: Random generator.
    """
    if evidence.squares.groups > MOST_DRAWN:
        return [optimum] * count
    low, high = np.array(_bounds(evidence.squares.groups)).T
    centre = optimum.logs
    curvature, axes = np.linalg.eigh(_negative_hessian(evidence, centre))
    precision = np.maximum(curvature, LEAST_PRECISION)
    normal = rng.standard_normal((PROPOSED, len(centre)))
    proposed = np.clip(centre + (normal / np.sqrt(precision)) @ axes.T, low, high)
    size = max(1, SCORED_NUMBERS // len(evidence.y) ** 2)
    parts = [evidence.scores(proposed[at : at + size]) for at in range(0, PROPOSED, size)]
    # The density of the logarithms is the density of the hyperparameters times their product.
    weight = np.concatenate(parts) + proposed.sum(axis=1) + 0.5 * (normal**2).sum(axis=1)
    chance = np.exp(weight - weight.max()) if np.isfinite(weight.max()) else np.ones(PROPOSED)
    levels = (rng.random() + np.arange(count)) / count
    chosen = np.searchsorted(np.cumsum(chance) / chance.sum(), levels).clip(max=PROPOSED - 1)
    return [Hyperparameters.from_logs(proposed[i]) for i in chosen]


def _negative_hessian(evidence: Evidence, theta: Array) -> Array:
    """Return minus the Hessian of the log density by central differences of its gradient, ``(p, p)``."""
    size, step = len(theta), 0.05
    rows = [(evidence(theta - e)[1] - evidence(theta + e)[1]) for e in step * np.eye(size)]
    hessian = np.array(rows) / (2.0 * step)
    return np.asarray(0.5 * (hessian + hessian.T))


def to_json(hyperparameters: Hyperparameters) -> dict[str, Any]:
    """Return JSON values; `from_json` is the inverse."""
    return {
        "lengthscales": [float(x) for x in hyperparameters.lengthscales],
        "outputscale": float(hyperparameters.outputscale),
        "noise": float(hyperparameters.noise),
    }


def from_json(values: Mapping[str, Any] | None, groups: int) -> Hyperparameters | None:
    """Return the hyperparameters, or None if the values are not those of ``groups`` parameters."""
    if values is None:
        return None
    try:
        flat = [*values["lengthscales"], values["outputscale"], values["noise"]]
        numbers = np.array([float(x) for x in flat])
    except (KeyError, TypeError, ValueError):
        return None
    if len(numbers) != groups + 2 or not np.all(np.isfinite(numbers) & (numbers > 0.0)):
        return None
    numbers = numbers.clip(*np.exp(np.array(_bounds(groups)).T))
    return Hyperparameters(numbers[:-2], float(numbers[-2]), float(numbers[-1]))


def _bounds(groups: int) -> list[tuple[float, float]]:
    ranges = [LENGTHSCALES] * groups + [OUTPUTSCALES, NOISES]
    return [(math.log(low), math.log(high)) for low, high in ranges]


def chosen_rows(y: Array, most: int, rng: Rng) -> Ints:
    """Return the indices of at most ``most`` rows: one half are the best, the others are drawn from the rest."""
    if len(y) <= most:
        return np.arange(len(y))
    order = np.argsort(y, kind="stable")
    best = order[: most // 2]
    others = rng.choice(order[most // 2 :], size=most - len(best), replace=False)
    return np.sort(np.concatenate([best, others]))


def refine(
    evidence: Callable[[Array], tuple[float, Array]],
    starts: Sequence[Array],
    bounds: Sequence[tuple[float, float]],
    steps: int,
    tolerance: float,
) -> Array:
    """Return the best point that L-BFGS-B reaches from the starts.

    Args:
        evidence: Returns the value to maximise at a point, and its gradient.
        starts: The points where it starts, ``(p,)`` each.
        bounds: Lowest and highest value of each coordinate.
        steps: Maximum number of iterations from each start.
        tolerance: The search stops when a step gains less than this, relative to the value.
    """
    from scipy.optimize import fmin_l_bfgs_b

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = evidence(theta)
        # L-BFGS-B shortens its step when it meets a large finite value, but not when it meets an infinite one.
        return (-value, -gradient) if math.isfinite(value) else (1e25, np.zeros_like(theta))

    factor = tolerance / np.finfo(float).eps
    best, lowest = starts[0], math.inf
    for start in starts:
        refined, value, _ = fmin_l_bfgs_b(
            loss, start, bounds=bounds, factr=factor, pgtol=1e-3, maxiter=steps
        )
        if float(value) < lowest:
            best, lowest = np.asarray(refined), float(value)
    return best
