"""Covariances of tasks: a shared part, and a separate part of each task.

The covariance of the configurations x and x' of the tasks s and t is

    k((x, s), (x', t)) = B[s, t] R(x, x') + [s = t] v[t] R_t(x, x')

which is the linear model of coregionalisation (Alvarez, Rosasco and Lawrence, "Kernels for Vector-Valued Functions",
2012, section 4.2; GPTune, Liu et al., PPoPP 2021) with one common latent process and one of each task. B is symmetric
and positive semidefinite, and the correlations R and R_t have separate lengthscales. So a task that has nothing in
common with the others, B[s, t] = 0, is modelled as if it were alone.

`TaskEvidence` is the density of the hyperparameters of a Gaussian process over configurations and tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints, Rng
from baco_like.surrogates.gp.fit import LENGTHSCALES, LOG_2PI, NOISES, cho_solve
from baco_like.surrogates.gp.kernel import MATERN52, Kernel, SquaredDistances
from baco_like.surrogates.gp.prior import Prior

_WEIGHT = (0.8, 0.6)
"""Mean and standard deviation of a task's weight: values are standardised, and tasks are expected to be similar, but a
weight may be 0 or negative."""

_OWN = (0.3, 1.0)
"""Median and spread of the logarithm of a task's own variance."""

_SCALE = (1.0, 0.7)
"""The same of the variance of all tasks by descriptors."""

_DISTANCE = (1.5, 1.0)
"""The same of the lengthscale of a descriptor, which lies in [0, 1]."""

_SHARE = 1.5
"""Standard deviation of the logit of the share of the variance that depends on the descriptors."""


@dataclass(frozen=True)
class Coregionalisation:
    """B = w w': each task has a weight of the common part, and a separate variance v.

    Two tasks with weights of opposite signs are negatively correlated, and a task with weight 0 learns nothing from the
    others. The parameters are the weights and the logarithms of the variances. Without `has_own`, B = w w' + diag(v).

    Attributes:
        tasks: Number of tasks, t.
        has_own: Whether the part of each task has its own lengthscales; otherwise it is on the diagonal of `matrix`.
    """

    tasks: int
    has_own: bool = True

    @property
    def name(self) -> str:
        """Its name in tags."""
        return "coregionalisation with own parts" if self.has_own else "coregionalisation"

    @property
    def prior(self) -> tuple[Array, Array]:
        """Means and standard deviations of the parameters."""
        t = self.tasks
        means = np.repeat([_WEIGHT[0], math.log(_OWN[0])], t)
        return means, np.repeat([_WEIGHT[1], _OWN[1]], t)

    def matrix(self, phi: Array) -> Array:
        """Return B."""
        weights, own = phi[: self.tasks], np.exp(phi[self.tasks :])
        shared = np.outer(weights, weights)
        return shared if self.has_own else shared + np.diag(own)

    def own(self, phi: Array) -> Array:
        """Return v."""
        return np.exp(phi[self.tasks :]) if self.has_own else np.zeros(self.tasks)

    def gradient(self, phi: Array, by_matrix: Array, by_own: Array) -> Array:
        """Return the derivatives of a function by the parameters, ``(p,)``.

        Args:
            phi: The parameters.
            by_matrix: The derivatives by B, ``(t, t)``.
            by_own: The derivatives by v, ``(t,)``; not used without `has_own`.
        """
        weights, own = phi[: self.tasks], np.exp(phi[self.tasks :])
        by_variance = by_own if self.has_own else np.diagonal(by_matrix)
        return np.concatenate([2.0 * by_matrix @ weights, by_variance * own])


@dataclass(frozen=True, eq=False)
class DescriptorKernel:
    """B = s (c R(d, d') + (1 - c) I): tasks are the more alike, the nearer their descriptors are.

    R is the Matern-5/2 correlation with one lengthscale for each descriptor. Its number of parameters does not grow
    with the number of tasks. They are the logarithms of the lengthscales, log s, and the logit of c.

    Attributes:
        squares: Squared distances of the tasks in each descriptor, ``(d, t, t)``.
    """

    squares: Array
    name: str = "descriptors"
    has_own: ClassVar[bool] = False

    @classmethod
    def of(cls, features: Features, owner: Ints) -> DescriptorKernel:
        """Return the family for the features of tasks, ``(t, k)``, of `Tasks.features`."""
        differences = (features[:, None] - features[None]) ** 2
        names = range(int(owner.max()) + 1)
        return cls(np.array([differences[:, :, owner == i].sum(axis=2) for i in names]))

    @property
    def prior(self) -> tuple[Array, Array]:
        """Means and standard deviations of the parameters."""
        d = len(self.squares)
        means = [math.log(_DISTANCE[0])] * d + [math.log(_SCALE[0]), 1.0]
        return np.array(means), np.array([_DISTANCE[1]] * d + [_SCALE[1], _SHARE])

    def matrix(self, phi: Array) -> Array:
        """Return B."""
        correlation, _ = self._correlation(phi)
        scale, share = math.exp(phi[-2]), _logistic(phi[-1])
        return np.asarray(scale * (share * correlation + (1.0 - share) * np.eye(len(correlation))))

    def own(self, phi: Array) -> Array:
        """Return zeros."""
        return np.zeros(self.squares.shape[1])

    def gradient(self, phi: Array, by_matrix: Array, by_own: Array) -> Array:
        """Return the derivatives by the parameters."""
        correlation, slope = self._correlation(phi)
        scale, share = math.exp(phi[-2]), _logistic(phi[-1])
        weights = np.exp(-2.0 * phi[:-2])
        by_distance = -2.0 * weights * (self.squares * (by_matrix * slope)).sum(axis=(1, 2))
        by_share = float((by_matrix * (correlation - np.eye(len(correlation)))).sum())
        by_scale = float((by_matrix * self.matrix(phi)).sum())
        last = [by_scale, scale * share * (1.0 - share) * by_share]
        return np.concatenate([scale * share * by_distance, last])

    def _correlation(self, phi: Array) -> tuple[Array, Array]:
        squared = np.tensordot(np.exp(-2.0 * phi[:-2]), self.squares, axes=1)
        return MATERN52.slope(squared, np.empty_like(squared), np.empty_like(squared))


TaskKernel = Coregionalisation | DescriptorKernel
"""A family of covariances of tasks with p parameters, all of them real numbers with independent normal priors."""


def starts(kernel: TaskKernel, correlations: Array, rng: Rng, draws: int) -> list[Array]:
    """Return starting points of a fit: the prior's mean, one from the observed correlations, and random draws.

    Args:
        kernel: The family.
        correlations: Correlations of the tasks over the configurations that both have observed, ``(t, t)``; 0 where
            there are too few.
        rng: Random generator.
        draws: Number of random draws.
    """
    mean, spread = kernel.prior
    points = [mean]
    if isinstance(kernel, Coregionalisation):
        # The leading eigenvector has the signs of the tasks.
        _, vectors = np.linalg.eigh(correlations + np.eye(len(correlations)))
        leading = vectors[:, -1] * (1.0 if vectors[:, -1].sum() >= 0 else -1.0)
        signed = mean.copy()
        signed[: kernel.tasks] = np.clip(leading * math.sqrt(kernel.tasks), -1.0, 1.0)
        points.append(signed)
    return points + [mean + spread * rng.standard_normal(len(mean)) for _ in range(draws)]


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(min(x, 500.0), -500.0)))


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
    """The log posterior density of the hyperparameters.

    They are the logarithms of the lengthscales of R and, with `TaskKernel.has_own`, of each R_t, the logarithm of the
    noise, and the parameters of the task kernel. The levels are integrated out: they add `LEVEL` to the covariance of
    two rows of the same task.

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

    @cached_property
    def _by_task(self) -> list[tuple[tuple[Ints, Ints], SquaredDistances]]:
        """For each task with own lengthscales, the block of its rows, and their distances."""
        if not self.task_kernel.has_own:
            return []
        rows = [np.flatnonzero(column) for column in self._is_task.T]
        return [((own[:, None], own), self.squares.subset(own)) for own in rows]

    @property
    def sets(self) -> int:
        """Number of sets of lengthscales: one for all tasks, and one for each task with its own."""
        return 1 + len(self._by_task)

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Lowest and highest value of each of the hyperparameters, as logarithms."""
        ranges = [LENGTHSCALES] * (self.squares.groups * self.sets) + [NOISES]
        logs = [(math.log(low), math.log(high)) for low, high in ranges]
        return logs + [(-8.0, 8.0)] * len(self.task_kernel.prior[0])

    def split(self, theta: Array) -> tuple[Array, float, Array]:
        """Return lengthscales, ``(sets, groups)``, noise and the parameters of the task kernel."""
        count = self.sets * self.squares.groups
        lengthscales = np.exp(theta[:count]).reshape(self.sets, -1)
        return lengthscales, math.exp(theta[count]), theta[count + 1 :]

    def _correlation(
        self, squares: SquaredDistances, lengthscales: Array, n: int
    ) -> tuple[Array, Array]:
        """Return the correlation of n rows and its slope, ``(n, n)`` each."""
        squared = np.empty((n, n))
        squares.weighted_sum(lengthscales**-2.0, squared)
        return self.kernel.slope(squared, np.empty_like(squared), np.empty_like(squared))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the log posterior density up to a constant, and its gradient by ``theta``.

        With G = (a a' - K^-1) / 2 and a = K^-1 y, the derivative is the sum of G dK (Rasmussen and Williams 2006,
        Eq. 5.9).
        """
        lengthscales, noise, phi = self.split(theta)
        n = len(self.y)
        matrix, own = self.task_kernel.matrix(phi), self.task_kernel.own(phi)
        correlation, slope = self._correlation(self.squares, lengthscales[0], n)
        of_tasks = matrix[self.tasks[:, None], self.tasks]
        covariance = of_tasks * correlation + self._levels
        separate = []
        for t, (block, squares) in enumerate(self._by_task):
            separate.append(self._correlation(squares, lengthscales[1 + t], len(block[1])))
            covariance[block] += own[t] * separate[t][0]
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
        by_squared = np.empty_like(lengthscales)
        by_squared[0] = self.squares.contract(half * of_tasks * slope)
        by_own = np.zeros(len(own))
        for t, (block, squares) in enumerate(self._by_task):
            part = half[block]
            by_own[t] = float((part * separate[t][0]).sum())
            by_squared[1 + t] = squares.contract(own[t] * part * separate[t][1])
        by_lengthscale = (-2.0 * lengthscales**-2.0 * by_squared).ravel()
        by_noise = noise * float(np.trace(half))
        by_task = self.task_kernel.gradient(phi, by_matrix, by_own)
        prior, slopes = self._prior(lengthscales.ravel(), noise, phi)
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
