"""A Gaussian process over configurations and tasks, in closed form.

The covariance of a configuration x on task s and x' on task t is B[s, t] R(x, x') + [s = t] v[t] R_t(x, x'), see
`baco_like.surrogates.gp.task_kernels`, with Matern correlations. The level of each task is estimated separately. The
hyperparameters maximise their posterior density. Of several families of B and v, the one with the highest leave-one-out
predictive density is taken (Rasmussen and Williams 2006, Eq. 5.10 and 5.11).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from baco_like._threads import load_libraries
from baco_like._typing import Array, Codes, Features, Ints, Rng
from baco_like.surrogates.gp.fit import (
    LENGTHSCALES,
    LOG_2PI,
    NOISES,
    cho_solve,
    refine,
)
from baco_like.surrogates.gp.kernel import MATERN52, Kernel, parameter_distances
from baco_like.surrogates.gp.model import ExactPosterior, correlations, safe_cholesky
from baco_like.surrogates.gp.prior import SMOOTH_PRIORS, Gamma, Prior
from baco_like.surrogates.gp.task_kernels import (
    LEVEL,
    Coregionalisation,
    DescriptorKernel,
    TaskData,
    TaskEvidence,
    TaskKernel,
    starts,
)
from baco_like.surrogates.protocol import Featured


@dataclass(frozen=True, eq=False)
class MultiTaskModel(ExactPosterior):
    """A fitted Gaussian process over configurations and tasks; it predicts noise-free values.

    Attributes:
        space: Gives the features.
        kernel: The correlation of configurations.
        scales: One over the lengthscale of every feature column, for all tasks and then for each task with its own
            lengthscales, ``(1, k)`` or ``(1 + t, k)``.
        matrix: Covariance of the tasks in the part that they share, ``(t, t)``.
        own: Variance of the part of each task, ``(t,)``.
        noise: Variance of one observation's noise.
        levels: Level of each task, ``(t,)``.
        features: Features of the observations, ``(n, k)``.
        tasks: Their tasks, ``(n,)``.
        factor: Lower Cholesky factor of their covariance, ``(n, n)``.
        residual: Values minus the level of their task, ``(n,)``.
        hyperparameters: The fitted hyperparameters as JSON values.
    """

    space: Featured
    kernel: Kernel
    scales: Array
    matrix: Array
    own: Array
    noise: float
    levels: Array
    features: Features
    tasks: Ints
    factor: Array
    residual: Array
    hyperparameters: Mapping[str, Any]

    @cached_property
    def covariance_of_tasks(self) -> Array:
        """Covariance of the values of one configuration on all tasks, ``(t, t)``."""
        return np.asarray(self.matrix + np.diag(self.own))

    def predict(self, codes: Codes, tasks: Ints | int) -> tuple[Array, Array]:
        """Return mean and variance of each row on its task (or on one task), ``(m, w)`` -> ``(m,)``, ``(m,)``."""
        if np.ndim(tasks):
            mean, variance = np.empty(len(codes)), np.empty(len(codes))
            for task in np.unique(tasks):
                rows = np.flatnonzero(tasks == task)
                mean[rows], variance[rows] = self.predict(codes[rows], int(task))
            return mean, variance
        weights = np.zeros(len(self.levels))
        weights[tasks] = 1.0
        return self.predict_weighted(codes, weights)

    def predict_weighted(self, codes: Codes, weights: Array) -> tuple[Array, Array]:
        """Return mean and variance of a weighted sum over the tasks, ``(m, w)`` -> ``(m,)``, ``(m,)``.

        A sum of jointly normal values is normal. Its covariance with the value of row j on task t is
        (w' B)[t] R(x, x_j) + w[t] v[t] R_t(x, x_j), so it costs no more than the prediction of one task.

        Args:
            codes: Configurations.
            weights: Weight of each task, ``(t,)``.
        """
        features = self.space.features(codes)
        cross = self._correlate_shared(features) * (weights @ self.matrix)[self.tasks]
        for t in np.flatnonzero(weights * self.own):
            self._add_own(cross, features, int(t), float(weights[t]))
        solved = cross @ self.inverse_factor.T
        prior = float(weights @ self.covariance_of_tasks @ weights)
        variance = prior - np.einsum("ij,ij->i", solved, solved)
        return cross @ self.alpha + float(weights @ self.levels), np.maximum(variance, 0.0)

    def predict_joint(self, codes: Codes, tasks: Ints) -> tuple[Array, Array]:
        """Return mean and covariance of each row over some tasks, ``(m, w)`` -> ``(m, s)``, ``(m, s, s)``.

        Args:
            codes: Configurations.
            tasks: Indices of s tasks.
        """
        features = self.space.features(codes)
        correlation = self._correlate_shared(features)
        mean = np.empty((len(codes), len(tasks)))
        solved = np.empty((len(tasks), len(codes), len(self.features)))
        for i, task in enumerate(tasks):
            cross = correlation * self.matrix[task][self.tasks]
            self._add_own(cross, features, int(task), 1.0)
            mean[:, i] = cross @ self.alpha + self.levels[task]
            np.matmul(cross, self.inverse_factor.T, out=solved[i])
        prior = self.covariance_of_tasks[np.ix_(tasks, tasks)]
        return mean, prior - np.einsum("smn,tmn->mst", solved, solved, optimize=True)

    def condition(self, codes: Codes, tasks: Ints, y: Array) -> MultiTaskModel:
        """Return the model that also uses these values, ``(m, w)``, ``(m,)``, ``(m,)``, with the same levels."""
        features = np.concatenate([self.features, self.space.features(codes)])
        own = np.concatenate([self.tasks, tasks])
        prior = np.diagonal(self.covariance_of_tasks)
        noises = np.einsum("ij,ij->i", self.factor, self.factor) - prior[self.tasks]
        more = replace(self, features=features, tasks=own)
        diagonal = np.concatenate([np.maximum(noises, 0.0), np.full(len(codes), self.noise)])
        factor = safe_cholesky(more.covariance(diagonal))
        residual = np.concatenate([self.residual, y - self.levels[tasks]])
        return replace(more, factor=factor, residual=residual)

    def covariance(self, noises: Array) -> Array:
        """Return the covariance of the observations with noise of these variances, ``(n,)`` -> ``(n, n)``."""
        shared = self._correlate_shared(self.features)
        covariance = shared * self.matrix[self.tasks[:, None], self.tasks]
        for t in range(len(self.own)):
            rows = np.flatnonzero(self.tasks == t)
            part = covariance[rows]
            self._add_own(part, self.features[rows], t, 1.0)
            covariance[rows] = part
        own = np.diagonal(self.covariance_of_tasks)[self.tasks]
        covariance.flat[:: len(covariance) + 1] = own + noises
        return covariance

    def _correlate_shared(self, features: Features) -> Array:
        """Return the correlations of the shared part with the observations, ``(m, k)`` -> ``(m, n)``."""
        return correlations(self.kernel, features * self.scales[0], self.features * self.scales[0])

    def _add_own(self, cross: Array, features: Features, task: int, weight: float) -> None:
        """Add the covariance of the part of one task, times a weight, to ``cross``, ``(m, n)``."""
        if len(self.scales) == 1 or not self.own[task]:
            return
        columns, scales = np.flatnonzero(self.tasks == task), self.scales[1 + task]
        own = correlations(self.kernel, features * scales, self.features[columns] * scales)
        cross[:, columns] += weight * self.own[task] * own

    def leave_one_out_density(self) -> float:
        """Return the sum of the log densities of each observation given the others.

        Rasmussen and Williams (2006), Eqs. 5.10 to 5.12; the levels are held.
        """
        precision = self.precision
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
    lengthscale: Prior = SMOOTH_PRIORS.lengthscale
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
        load_libraries("scipy.linalg", "scipy.optimize")
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
            steps = self.steps if is_fresh else self.follow_steps
            theta = refine(evidence, points, evidence.bounds, steps, 1e-5)
            fitted = len(data.y) if is_fresh or earlier is None else earlier[2]
            models.append(self._posterior(space, data, evidence, theta, fitted))
        return max(models, key=lambda model: model.leave_one_out_density())

    def _fresh(self, evidence: TaskEvidence, data: TaskData, rng: Rng) -> list[Array]:
        """Return the best two of some starting points."""
        keys = [row.tobytes() for row in np.ascontiguousarray(data.codes)]
        observed = evidence.common_correlations(keys)
        p = evidence.squares.groups * evidence.sets
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
        kernel = evidence.task_kernel
        notes = {
            "kernel": kernel.name,
            "lengthscales": lengthscales[0].tolist(),
            "task_lengthscales": lengthscales[1:].tolist(),
            "noise": noise,
            "task": phi.tolist(),
            "rows": fitted,
        }
        matrix, nothing = kernel.matrix(phi), np.empty(0)
        model = MultiTaskModel(
            space,
            self.kernel,
            1.0 / lengthscales[:, np.asarray(space.feature_owner)],
            matrix,
            kernel.own(phi),
            noise,
            nothing,
            space.features(data.codes),
            data.tasks,
            nothing,
            nothing,
            notes,
        )
        covariance = model.covariance(noise + data.variance)
        is_task = np.equal(data.tasks[:, None], np.arange(len(matrix))).astype(float)
        with_levels = safe_cholesky(covariance + LEVEL * (is_task @ is_task.T))
        levels = LEVEL * (is_task.T @ cho_solve(with_levels, data.y))
        factor, residual = safe_cholesky(covariance), data.y - levels[data.tasks]
        return replace(model, levels=levels, factor=factor, residual=residual)

    @staticmethod
    def _read(
        start: Mapping[str, Any] | None, families: Sequence[TaskKernel], groups: int
    ) -> tuple[TaskKernel, Array, int] | None:
        """Return family, hyperparameters and number of rows of an earlier fit; None if it does not fit."""
        try:
            assert start is not None
            family = next(f for f in families if f.name == start["kernel"])
            separate = [scale for own in start["task_lengthscales"] for scale in own]
            scales = [*start["lengthscales"], *separate, start["noise"]]
            theta = np.concatenate([np.log(np.array(scales, dtype=float)), start["task"]])
            count = int(start["rows"])
        except (AssertionError, LookupError, TypeError, ValueError, StopIteration):
            return None
        sets = 1 + len(family.own(family.prior[0])) * family.has_own
        expected = groups * sets + 1 + len(family.prior[0])
        return (
            (family, theta, count)
            if theta.shape == (expected,) and np.isfinite(theta).all()
            else None
        )


def families_of(
    features: Features, owner: Ints, most: int, has_own: bool = True
) -> list[TaskKernel]:
    """Return the families of task kernels for tasks: see `Tasks.features` for the arguments.

    Args:
        features: Features of the tasks, ``(t, k)``.
        owner: The descriptor of each column, ``(k,)``.
        most: Largest number of tasks for `Coregionalisation`, whose parameters grow with it.
        has_own: Whether each task has its own lengthscales in `Coregionalisation`.
    """
    count = len(features)
    families: list[TaskKernel] = [Coregionalisation(count, has_own)] if count <= most else []
    if not families or count > 2:
        families.append(DescriptorKernel.of(features, owner))
    return families
