"""The density of the hyperparameters of a Gaussian process over configurations and tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Ints
from baco_like.surrogates.gp.distances import SquaredDistances
from baco_like.surrogates.gp.fit import LENGTHSCALES, LOG_2PI, NOISES, cho_solve
from baco_like.surrogates.gp.kernel import Kernel
from baco_like.surrogates.gp.prior import Prior
from baco_like.surrogates.gp.task_kernels import TaskKernel

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
