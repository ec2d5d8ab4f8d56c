"""Covariances of tasks: a shared part, and a separate part of each task.

The covariance of the configurations x and x' of the tasks s and t is

    k((x, s), (x', t)) = B[s, t] R(x, x') + [s = t] v[t] R_t(x, x')

which is the linear model of coregionalisation (Alvarez, Rosasco and Lawrence, "Kernels for Vector-Valued Functions",
2012, section 4.2; GPTune, Liu et al., PPoPP 2021) with one common latent process and one of each task. B is symmetric
and positive semidefinite, and the correlations R and R_t have separate lengthscales. So a task that has nothing in
common with the others, B[s, t] = 0, is modelled as if it were alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from baco_like._typing import Array, Features, Ints, Rng
from baco_like.surrogates.gp.kernel import MATERN52

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


class TaskKernel(Protocol):
    """A family of covariances with p parameters, all of them real numbers with independent normal priors."""

    @property
    def name(self) -> str:
        """Its name in tags."""

    @property
    def has_own(self) -> bool:
        """Whether the part of each task has its own lengthscales; otherwise it is on the diagonal of `matrix`."""

    @property
    def prior(self) -> tuple[Array, Array]:
        """Means and standard deviations of the parameters, ``(p,)`` each."""

    def matrix(self, phi: Array) -> Array:
        """Return B, ``(t, t)``."""

    def own(self, phi: Array) -> Array:
        """Return v, ``(t,)``; zeros without `has_own`."""

    def gradient(self, phi: Array, by_matrix: Array, by_own: Array) -> Array:
        """Return the derivatives of a function by the parameters, ``(p,)``.

        Args:
            phi: The parameters.
            by_matrix: The derivatives by B, ``(t, t)``.
            by_own: The derivatives by v, ``(t,)``; not used without `has_own`.
        """


@dataclass(frozen=True)
class Coregionalisation:
    """B = w w': each task has a weight of the common part, and a separate variance v.

    Two tasks with weights of opposite signs are negatively correlated, and a task with weight 0 learns nothing from the
    others. The parameters are the weights and the logarithms of the variances. Without `has_own`, B = w w' + diag(v).

    Attributes:
        tasks: Number of tasks, t.
        has_own: See `TaskKernel`.
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
        """Return the derivatives by the parameters."""
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
