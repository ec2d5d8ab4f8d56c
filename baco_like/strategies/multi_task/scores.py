"""Acquisition functions for the goals of a run with tasks: the expected gain of one more configuration.

All are expected improvements (Jones, Schonlau and Welch 1998) of what the goal counts, the aggregated slowdown of the
best set of configurations. A configuration counts for a set only on the tasks where it was measured. So a promising
configuration keeps its expected improvement until it is measured on all tasks, and a configuration that has lost on
one task is not continued on the others (racing).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.acquisitions.functions import log_ei
from baco_like.records.covering import Aggregate, best_cover, combine
from baco_like.surrogates.gp.multi_task import MultiTaskModel

_DRAWS = 32
"""Number of pairs of antithetic draws by which the gain of a set is estimated."""

_CHUNK = 2048
"""Configurations whose gain is estimated at once."""

_MOST_TASKS = 16
"""With more tasks than this, the gain of a set is estimated on a random part of them."""

_LEAST_GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class WeightedGain:
    """The gain of one configuration for all tasks by the geometric mean of slowdowns.

    Its logarithm is a weighted sum of the values on all tasks, so it is normal, and the expected improvement has a
    closed form.

    Attributes:
        model: The model of all tasks.
        weights: Weight of each task's standardised value, ``(t,)``.
        incumbent: The least known sum.
    """

    model: MultiTaskModel
    weights: Array
    incumbent: float

    def score(self, rows: Codes) -> Array:
        """Return the log of the expected improvement of each row of `Space.at_task`, ``(m, w)`` -> ``(m,)``."""
        return log_ei(*self.model.predict_weighted(rows, self.weights), self.incumbent)

    def informative(self, row: Codes, tasks: Ints) -> Array:
        """Return by how much the evaluation of one row, ``(1, w)``, on each task reduces the variance, ``(s,)``."""
        return variance_reduction(self.model, row, self.weights, tasks)


@dataclass(frozen=True, eq=False)
class SetGain:
    """The gain of a configuration that replaces a member of the present set, or joins it; estimated by draws.

    Attributes:
        model: The model of all tasks.
        units: Unit of each task's standardised value, as a logarithm of a slowdown, ``(t,)``.
        best: The least known standardised value of each task, ``(t,)``.
        floors: For each member that may be replaced, the logarithms of the slowdowns of the others, infinite without
            others, ``(k, t)``.
        present: Logarithm of the aggregated slowdown of the present set.
        worst: The same of a task on which no member of a set has run.
        aggregate: How the tasks are combined.
        tasks: The tasks by which the gain is estimated, ``(s,)``.
        noise: Standard normal numbers, ``(d, t)``.
        runs_on: Tells for rows whether each task allows them, ``(m, w)`` -> ``(m, t)``.
    """

    model: MultiTaskModel
    units: Array
    best: Array
    floors: Array
    present: float
    worst: float
    aggregate: Aggregate
    tasks: Ints
    noise: Array
    runs_on: Callable[[Codes], Mask]

    def score(self, rows: Codes) -> Array:
        """Return the logarithm of the expected gain of the best replacement."""
        parts = [self._score(rows[at : at + _CHUNK]) for at in range(0, len(rows), _CHUNK)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _score(self, rows: Codes) -> Array:
        mean, drawn = self._draw(rows, self.tasks)
        drawn = np.where(self.runs_on(rows)[:, None, self.tasks], drawn, np.inf)
        gains = np.zeros(len(rows))
        for floor in self.floors[:, self.tasks]:
            gains = np.maximum(
                gains, np.maximum(self.present - self._reach(drawn, floor), 0.0).mean(axis=1)
            )
        # Where no draw gains, a lower mean is better.
        hopeless = -1e-3 * np.arctan(mean.mean(axis=1))
        return np.where(
            gains > _LEAST_GAIN, np.log(np.maximum(gains, _LEAST_GAIN)), -30.0 + hopeless
        )

    def _draw(self, rows: Codes, tasks: Ints) -> tuple[Array, Array]:
        """Return means and draws of the logarithms of the slowdowns of rows, ``(m, s)``, ``(m, d, s)``."""
        units = self.units[tasks]
        mean, covariance = self.model.predict_joint(rows, tasks)
        mean = (mean - self.best[tasks]) * units
        covariance = covariance * np.outer(units, units)
        covariance[:, range(len(units)), range(len(units))] += 1e-10
        # The eigenvalues of a covariance that is almost 0 may be negative by rounding.
        values, vectors = np.linalg.eigh(covariance)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        noise = self.noise[:, tasks].T
        # Sums over the tasks are several times faster if the tasks are the first axis in memory.
        drawn = np.empty((len(tasks), len(rows), len(self.noise)))
        for i in range(len(tasks)):
            np.matmul(roots[:, i], noise, out=drawn[i])
            drawn[i] += mean[:, i, None]
        return mean, drawn.transpose(1, 2, 0)

    def _reach(self, drawn: Array, floor: Array) -> Array:
        """Return the logarithms of the aggregated slowdowns of sets with drawn rows, ``(m, d, s)`` -> ``(m, d)``."""
        return combine(np.minimum(drawn, np.minimum(floor, self.worst)), self.aggregate)

    def informative(self, row: Codes, tasks: Ints) -> Array:
        """Return by how much each evaluation would reduce the variance of the best set that the row may join.

        A task on which another member of that set is better tells nothing. The formula is for a linear
        prediction, cov(set, f_t)^2 / (var f_t + noise), as in `variance_reduction`; it is estimated by draws.
        """
        every = np.arange(len(self.units))
        _, drawn = self._draw(row, every)
        reached = np.array([self._reach(drawn, floor)[0] for floor in self.floors])
        set_value = reached[np.argmin(reached.mean(axis=1))]
        values = drawn[0][:, tasks]
        values = values - values.mean(axis=0)
        variance = (values**2).mean(axis=0)
        with_set = (values * (set_value - set_value.mean())[:, None]).mean(axis=0)
        noise = self.model.noise * self.units[tasks] ** 2
        return np.asarray(with_set**2 / (variance + noise) + _LEAST_GAIN * variance)


GoalScore = WeightedGain | SetGain
"""The expected gain of a configuration for the goal."""


def variance_reduction(model: MultiTaskModel, row: Codes, weights: Array, tasks: Ints) -> Array:
    """Return by how much an evaluation on each task reduces the variance of a weighted sum of one row, ``(s,)``.

    It is cov(sum, f_t)^2 / (var f_t + noise) (Rasmussen and Williams 2006, Eq. 2.24).
    """
    every = np.arange(len(weights))
    _, covariance = model.predict_joint(row, every)
    with_sum = covariance[0] @ weights
    return np.asarray(with_sum[tasks] ** 2 / (covariance[0][tasks, tasks] + model.noise))


def set_gain(
    model: MultiTaskModel,
    units: Array,
    best: Array,
    logs: Array,
    count: int,
    aggregate: Aggregate,
    runs_on: Callable[[Codes], Mask],
    rng: Rng,
) -> SetGain:
    """Return the score for a set of ``count`` configurations.

    Args:
        model: The model.
        units: See `SetGain`.
        best: See `SetGain`.
        logs: Logarithms of known slowdowns, infinite where unknown, ``(u, t)``.
        count: Number of configurations.
        aggregate: How the tasks are combined.
        runs_on: See `SetGain`.
        rng: Random generator.
    """
    chosen = best_cover(logs, count, aggregate)
    slowdowns = logs[chosen]
    floors = [
        np.min(np.delete(slowdowns, i, axis=0), axis=0, initial=np.inf) for i in range(len(chosen))
    ]
    if len(chosen) < count:
        floors.append(slowdowns.min(axis=0))
    tasks = np.arange(len(units))
    if len(tasks) > _MOST_TASKS:
        tasks = np.sort(rng.choice(tasks, _MOST_TASKS, replace=False))
    # A task that no member has run counts as slower than every known result.
    worst = float(np.max(logs[np.isfinite(logs)], initial=1.0)) + 1.0
    present = float(combine(np.minimum(slowdowns.min(axis=0)[tasks], worst), aggregate))
    half = rng.standard_normal((_DRAWS, len(units)))
    noise = np.concatenate([half, -half])
    return SetGain(
        model, units, best, np.array(floors), present, worst, aggregate, tasks, noise, runs_on
    )
