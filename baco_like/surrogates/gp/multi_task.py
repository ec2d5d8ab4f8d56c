"""A Gaussian process over configurations and tasks, in closed form.

The covariance of a configuration x on task s and x' on task t is B[s, t] R(x, x'), see
`baco_like.surrogates.gp.task_kernels`, with one Matern correlation R for all tasks and the level of each task estimated
separately. The hyperparameters maximise their posterior density. Of several families of B, the one with the highest
leave-one-out predictive density is taken (Rasmussen and Williams 2006, Eq. 5.10 and 5.11).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints, Rng
from baco_like.surrogates.gp.distances import SquaredDistances, parameter_distances
from baco_like.surrogates.gp.fit import LENGTHSCALES, LOG_2PI, NOISES, cho_solve
from baco_like.surrogates.gp.kernel import MATERN52, Kernel
from baco_like.surrogates.gp.model import correlations, safe_cholesky
from baco_like.surrogates.gp.prior import Gamma, LogNormal, Prior
from baco_like.surrogates.gp.task_kernels import Coregionalisation, TaskKernel, starts
from baco_like.surrogates.protocol import Featured

LEVEL = 1.0
"""Prior variance of the level of a task; values are standardised."""

_FEWEST_COMMON = 3
"""Smallest number of common configurations from which a correlation of two tasks is estimated."""


@dataclass(frozen=True)
class TaskData:
    """Observations of several tasks; every array has n rows.

    Attributes:
        codes: Configurations, ``(n, w)``.
        tasks: Index of the task of each row, ``(n,)``.
        y: Values, standardised for each task, ``(n,)``.
        variance: Known variance of each value on the same scale, 0 if unknown, ``(n,)``.
    """

    codes: Codes
    tasks: Ints
    y: Array
    variance: Array

    def rows(self, rows: Ints) -> TaskData:
        """Return some of the rows."""
        return TaskData(self.codes[rows], self.tasks[rows], self.y[rows], self.variance[rows])


@dataclass(frozen=True, eq=False)
class TaskEvidence:
    """The log posterior density of the hyperparameters: log lengthscales, log noise, parameters of the task kernel.

    The levels are integrated out: they add `LEVEL` to the covariance of two rows of the same task.

    Attributes:
        kernel: The correlation of configurations.
        task_kernel: The family of the covariance of tasks.
        squares: Squared distances of the rows in each parameter.
        tasks: Index of the task of each row, ``(n,)``.
        y: Values, ``(n,)``.
        variance: Known variances, ``(n,)``.
        lengthscale: Prior of every lengthscale.
        noise: Prior of the noise variance.
    """

    kernel: Kernel
    task_kernel: TaskKernel
    squares: SquaredDistances
    tasks: Ints
    y: Array
    variance: Array
    lengthscale: Prior
    noise: Prior

    @cached_property
    def _is_task(self) -> Array:
        """Indicators of the tasks, ``(n, t)``."""
        count = len(self.task_kernel.matrix(self.task_kernel.prior[0]))
        return np.equal(self.tasks[:, None], np.arange(count)).astype(float)

    @cached_property
    def _levels(self) -> Array:
        return LEVEL * (self._is_task @ self._is_task.T)

    def split(self, theta: Array) -> tuple[Array, float, Array]:
        """Return lengthscales, noise and the parameters of the task kernel."""
        p = self.squares.groups
        return np.exp(theta[:p]), math.exp(theta[p]), theta[p + 1 :]

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the log posterior density up to a constant, and its gradient by ``theta``.

        With G = (a a' - K^-1) / 2 and a = K^-1 y, the derivative is the sum of G dK (Rasmussen and Williams 2006,
        Eq. 5.9).
        """
        lengthscales, noise, phi = self.split(theta)
        n = len(self.y)
        matrix = self.task_kernel.matrix(phi)
        squared = np.empty((n, n))
        self.squares.weighted_sum(lengthscales**-2.0, squared)
        correlation, slope = self.kernel.slope(
            squared, np.empty_like(squared), np.empty_like(squared)
        )
        of_tasks = matrix[self.tasks[:, None], self.tasks]
        covariance = of_tasks * correlation + self._levels
        covariance.flat[:: n + 1] += noise + self.variance
        try:
            factor = np.asarray(np.linalg.cholesky(covariance), dtype=float)
        except np.linalg.LinAlgError:
            return -math.inf, np.zeros_like(theta)
        alpha = cho_solve(factor, self.y)
        value = -0.5 * float(self.y @ alpha) - float(np.log(np.diagonal(factor)).sum())
        value -= 0.5 * n * LOG_2PI
        half = 0.5 * (np.outer(alpha, alpha) - cho_solve(factor, np.eye(n)))
        by_matrix = self._is_task.T @ (half * correlation) @ self._is_task
        weights = half * of_tasks * slope
        by_lengthscale = -2.0 * lengthscales**-2.0 * self.squares.contract(weights)
        by_noise = noise * float(np.trace(half))
        by_task = self.task_kernel.gradient(phi, by_matrix)
        prior, slopes = self._prior(lengthscales, noise, phi)
        return value + prior, np.concatenate([by_lengthscale, [by_noise], by_task]) + slopes

    def _prior(self, lengthscales: Array, noise: float, phi: Array) -> tuple[float, Array]:
        """Return the log density of the priors and its gradient."""
        own = np.array([noise])
        mean, spread = self.task_kernel.prior
        z = (phi - mean) / spread
        value = float(self.lengthscale.log_density(lengthscales).sum())
        value += float(self.noise.log_density(own).sum()) - 0.5 * float(z @ z)
        by_lengthscale = self.lengthscale.gradient(lengthscales) * lengthscales
        return value, np.concatenate([by_lengthscale, self.noise.gradient(own) * own, -z / spread])

    def common_correlations(self, keys: Sequence[bytes]) -> Array:
        """Return the correlations of the tasks over configurations that two tasks share, ``(t, t)``.

        Args:
            keys: One for each row, the same for the same configuration on all tasks.
        """
        count = self._is_task.shape[1]
        rows = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        table = np.full((len(rows), count), np.nan)
        for key, task, value in zip(keys, self.tasks, self.y, strict=True):
            table[rows[key], task] = value
        result = np.zeros((count, count))
        for s in range(count):
            for t in range(s):
                both = ~np.isnan(table[:, s]) & ~np.isnan(table[:, t])
                a, b = table[both, s], table[both, t]
                if len(a) >= _FEWEST_COMMON and a.std() > 0 and b.std() > 0:
                    result[s, t] = result[t, s] = float(np.corrcoef(a, b)[0, 1])
        return result


@dataclass(frozen=True, eq=False)
class MultiTaskModel:
    """A fitted Gaussian process over configurations and tasks; it predicts noise-free values.

    Attributes:
        space: Gives the features.
        kernel: The correlation of configurations.
        scales: One over the lengthscale of every feature column, ``(k,)``.
        matrix: Covariance of the tasks, ``(t, t)``.
        noise: Variance of one observation's noise.
        levels: Level of each task, ``(t,)``.
        rows: Scaled features of the observations, ``(n, k)``.
        tasks: Their tasks, ``(n,)``.
        factor: Lower Cholesky factor of their covariance, ``(n, n)``.
        residual: Values minus the level of their task, ``(n,)``.
        hyperparameters: The fitted hyperparameters as JSON values.
    """

    space: Featured
    kernel: Kernel
    scales: Array
    matrix: Array
    noise: float
    levels: Array
    rows: Features
    tasks: Ints
    factor: Array
    residual: Array
    hyperparameters: Mapping[str, Any]

    @cached_property
    def alpha(self) -> Array:
        """K^-1 (y - level), ``(n,)``."""
        return cho_solve(self.factor, self.residual)

    @cached_property
    def inverse_factor(self) -> Array:
        """The inverse of `factor`."""
        from scipy.linalg.lapack import dtrtri

        return np.asarray(dtrtri(self.factor, lower=1)[0])

    def predict(self, codes: Codes, tasks: Ints | int) -> tuple[Array, Array]:
        """Return mean and variance of each row on its task (or on one task), ``(m, w)`` -> ``(m,)``, ``(m,)``."""
        cross = self._correlations(codes)
        own = np.broadcast_to(tasks, len(codes))
        cross *= (
            self.matrix[own[:, None], self.tasks]
            if np.ndim(tasks)
            else self.matrix[tasks][self.tasks]
        )
        solved = cross @ self.inverse_factor.T
        variance = self.matrix[own, own] - np.einsum("ij,ij->i", solved, solved)
        return cross @ self.alpha + self.levels[own], np.maximum(variance, 0.0)

    def predict_weighted(self, codes: Codes, weights: Array) -> tuple[Array, Array]:
        """Return mean and variance of a weighted sum over the tasks, ``(m, w)`` -> ``(m,)``, ``(m,)``.

        A sum of jointly normal values is normal. Its covariance with the value of row j is (w' B)[t_j] R(x, x_j), so it
        costs no more than the prediction of one task.

        Args:
            codes: Configurations.
            weights: Weight of each task, ``(t,)``.
        """
        by_task = weights @ self.matrix
        cross = self._correlations(codes) * by_task[self.tasks]
        solved = cross @ self.inverse_factor.T
        variance = float(by_task @ weights) - np.einsum("ij,ij->i", solved, solved)
        return cross @ self.alpha + float(weights @ self.levels), np.maximum(variance, 0.0)

    def predict_joint(self, codes: Codes, tasks: Ints) -> tuple[Array, Array]:
        """Return mean and covariance of each row over some tasks, ``(m, w)`` -> ``(m, s)``, ``(m, s, s)``.

        Args:
            codes: Configurations.
            tasks: Indices of s tasks.
        """
        correlation = self._correlations(codes)
        mean = np.empty((len(codes), len(tasks)))
        solved = np.empty((len(tasks), len(codes), len(self.rows)))
        for i, task in enumerate(tasks):
            cross = correlation * self.matrix[task][self.tasks]
            mean[:, i] = cross @ self.alpha + self.levels[task]
            np.matmul(cross, self.inverse_factor.T, out=solved[i])
        prior = self.matrix[np.ix_(tasks, tasks)]
        return mean, prior - np.einsum("smn,tmn->mst", solved, solved, optimize=True)

    def condition(self, codes: Codes, tasks: Ints, y: Array) -> MultiTaskModel:
        """Return the model that also uses these values, ``(m, w)``, ``(m,)``, ``(m,)``, with the same levels."""
        scaled = self.space.features(codes) * self.scales
        rows, own = np.concatenate([self.rows, scaled]), np.concatenate([self.tasks, tasks])
        noises = (
            np.einsum("ij,ij->i", self.factor, self.factor) - self.matrix[self.tasks, self.tasks]
        )
        covariance = correlations(self.kernel, rows, rows) * self.matrix[own[:, None], own]
        diagonal = np.concatenate([np.maximum(noises, 0.0), np.full(len(codes), self.noise)])
        covariance.flat[:: len(rows) + 1] = self.matrix[own, own] + diagonal
        residual = np.concatenate([self.residual, y - self.levels[tasks]])
        factor = safe_cholesky(covariance)
        return replace(self, rows=rows, tasks=own, factor=factor, residual=residual)

    def _correlations(self, codes: Codes) -> Array:
        return correlations(self.kernel, self.space.features(codes) * self.scales, self.rows)

    def leave_one_out_density(self) -> float:
        """Return the sum of the log densities of each observation given the others.

        Rasmussen and Williams (2006), Eqs. 5.10 to 5.12; the levels are held.
        """
        precision = np.einsum("ij,ij->j", self.inverse_factor, self.inverse_factor)
        error = self.alpha / precision
        return float((0.5 * np.log(precision) - 0.5 * precision * error**2 - 0.5 * LOG_2PI).sum())


@dataclass(frozen=True)
class MultiTaskGP:
    """The surrogate over configurations and tasks.

    Attributes:
        kernel: The correlation of configurations.
        lengthscale: Prior of every lengthscale.
        noise: Prior of the noise variance.
        draws: Number of random hyperparameters that are scored for a fresh fit.
        steps: Maximum number of L-BFGS-B iterations of a fresh fit.
        follow_steps: Maximum number from an earlier optimum.
        fresh_every: A fresh fit of all families is made whenever the number of rows has grown by this share.
        fitted_rows: Maximum number of rows in the fit of the hyperparameters.
    """

    kernel: Kernel = MATERN52
    lengthscale: Prior = field(default_factory=lambda: LogNormal(4.0, 1.0))
    noise: Prior = field(default_factory=lambda: Gamma(1.1, 10.0))
    draws: int = 24
    steps: int = 40
    follow_steps: int = 4
    fresh_every: float = 0.2
    fitted_rows: int = 300

    def fit(
        self,
        space: Featured,
        data: TaskData,
        families: Sequence[TaskKernel],
        rng: Rng,
        start: Mapping[str, Any] | None = None,
    ) -> MultiTaskModel:
        """Return the model of observations with the best family of task kernels.

        Args:
            space: Gives the features.
            data: The observations.
            families: The families that may be used, one at least.
            rng: Random generator.
            start: `MultiTaskModel.hyperparameters` of an earlier fit with fewer rows; it is continued until the rows
                have grown by `fresh_every`.
        """
        chosen = data
        if len(data.y) > self.fitted_rows:
            chosen = data.rows(np.sort(rng.permutation(len(data.y))[: self.fitted_rows]))
        earlier = self._read(start, families, len(space.active))
        is_fresh = earlier is None or len(data.y) >= (1.0 + self.fresh_every) * earlier[2]
        tried = families if is_fresh or earlier is None else [earlier[0]]
        features = space.features(chosen.codes)
        squares = parameter_distances(features, np.asarray(space.feature_owner), len(space.active))
        models = []
        for family in tried:
            evidence = TaskEvidence(
                self.kernel,
                family,
                squares,
                chosen.tasks,
                chosen.y,
                chosen.variance,
                self.lengthscale,
                self.noise,
            )
            own = [earlier[1]] if earlier is not None and earlier[0] is family else []
            points = own if not is_fresh else own + self._fresh(evidence, chosen, rng)
            theta = _climb(evidence, points, self.steps if is_fresh else self.follow_steps)
            fitted = len(data.y) if is_fresh or earlier is None else earlier[2]
            models.append(self._posterior(space, data, evidence, theta, fitted))
        return max(models, key=lambda model: model.leave_one_out_density())

    def _fresh(self, evidence: TaskEvidence, data: TaskData, rng: Rng) -> list[Array]:
        """Return the best two of some starting points."""
        keys = [row.tobytes() for row in np.ascontiguousarray(data.codes)]
        observed = evidence.common_correlations(keys)
        p = evidence.squares.groups
        points = []
        for i, phi in enumerate(starts(evidence.task_kernel, observed, rng, self.draws)):
            if i < 2:
                shape, noise = np.full(p, math.log(2.0)), math.log(0.02)
            else:
                shape = np.log(self.lengthscale.sample((p,), rng)).clip(*np.log(LENGTHSCALES))
                noise = float(np.log(self.noise.sample((1,), rng)[0]).clip(*np.log(NOISES)))
            points.append(np.concatenate([shape, [noise], phi]))
        points.sort(key=lambda theta: -evidence(theta)[0])
        return points[:2]

    def _posterior(
        self, space: Featured, data: TaskData, evidence: TaskEvidence, theta: Array, fitted: int
    ) -> MultiTaskModel:
        """Return the model with known hyperparameters; the levels have their posterior means."""
        lengthscales, noise, phi = evidence.split(theta)
        matrix = evidence.task_kernel.matrix(phi)
        scales = 1.0 / lengthscales[np.asarray(space.feature_owner)]
        rows = space.features(data.codes) * scales
        covariance = correlations(self.kernel, rows, rows) * matrix[data.tasks[:, None], data.tasks]
        covariance.flat[:: len(rows) + 1] = matrix[data.tasks, data.tasks] + noise + data.variance
        is_task = np.equal(data.tasks[:, None], np.arange(len(matrix))).astype(float)
        with_levels = safe_cholesky(covariance + LEVEL * (is_task @ is_task.T))
        levels = LEVEL * (is_task.T @ cho_solve(with_levels, data.y))
        notes = {
            "kernel": evidence.task_kernel.name,
            "lengthscales": lengthscales.tolist(),
            "noise": noise,
            "task": phi.tolist(),
            "rows": fitted,
        }
        return MultiTaskModel(
            space,
            self.kernel,
            scales,
            matrix,
            noise,
            levels,
            rows,
            data.tasks,
            safe_cholesky(covariance),
            data.y - levels[data.tasks],
            notes,
        )

    @staticmethod
    def _read(
        start: Mapping[str, Any] | None, families: Sequence[TaskKernel], groups: int
    ) -> tuple[TaskKernel, Array, int] | None:
        """Return family, hyperparameters and number of rows of an earlier fit; None if it does not fit."""
        try:
            assert start is not None
            family = next(f for f in families if f.name == start["kernel"])
            scales = [*start["lengthscales"], start["noise"]]
            theta = np.concatenate([np.log(np.array(scales, dtype=float)), start["task"]])
            count = int(start["rows"])
        except (AssertionError, LookupError, TypeError, ValueError, StopIteration):
            return None
        expected = groups + 1 + len(family.prior[0])
        return (
            (family, theta, count)
            if theta.shape == (expected,) and np.isfinite(theta).all()
            else None
        )


def _climb(evidence: TaskEvidence, points: Sequence[Array], steps: int) -> Array:
    """Return the best point that L-BFGS-B reaches from some starts."""
    from scipy.optimize import fmin_l_bfgs_b

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = evidence(theta)
        return (-value, -gradient) if math.isfinite(value) else (1e25, np.zeros_like(theta))

    own = len(evidence.task_kernel.prior[0])
    ranges = [LENGTHSCALES] * evidence.squares.groups + [NOISES]
    bounds = [(math.log(low), math.log(high)) for low, high in ranges] + [(-8.0, 8.0)] * own
    best, lowest = points[0], math.inf
    for start in points:
        reached, value, _ = fmin_l_bfgs_b(
            loss, start, bounds=bounds, factr=1e-5 / np.finfo(float).eps, pgtol=1e-3, maxiter=steps
        )
        if float(value) < lowest:
            best, lowest = np.asarray(reached), float(value)
    return best


def families_of(features: Features, owner: Ints, most: int) -> list[TaskKernel]:
    """Return the families of task kernels for tasks: see `Tasks.features` for the arguments.

    Args:
        features: Features of the tasks, ``(t, k)``.
        owner: The descriptor of each column, ``(k,)``.
        most: Largest number of tasks for `Coregionalisation`, whose parameters grow with it.
    """
    from baco_like.surrogates.gp.task_kernels import DescriptorKernel

    count = len(features)
    families: list[TaskKernel] = [Coregionalisation(count)] if count <= most else []
    if not families or count > 2:
        families.append(DescriptorKernel.of(features, owner))
    return families
