"""Functions drawn from models of a history: what the observations say about every configuration, and how surely.

The cost is modelled twice: by the Gaussian process of the default strategy, whose functions are drawn from the
posterior of its hyperparameters and values, and by random forests, each grown from its own bootstrap sample. The two
err in different ways, so their draws together cover the truth more often than those of either. The strategy of the run
does not matter: a run by random search or a genetic algorithm is explained by the same models.

Calibration is the check of these models: predictions of each observation from all others, and their intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.exceptions import TrialError
from baco_like.records import History, Status
from baco_like.records.objective import sign_of
from baco_like.spaces import Space
from baco_like.strategies.fidelity import history_of_part, set_level
from baco_like.surrogates.forest import Growth, Tree, grow_trees, predict_by_tree
from baco_like.surrogates.gp.fit import Effort, chosen_rows
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.model import GPModel
from baco_like.surrogates.gp.prior import SMOOTH_PRIORS
from baco_like.surrogates.protocol import Data
from baco_like.surrogates.transform import Scale, fit_transform

LEVEL = 0.9
"""Probability that an interval covers the value."""

ENDS = (0.5 * (1.0 - LEVEL), 0.5, 1.0 - 0.5 * (1.0 - LEVEL))
"""Quantiles of drawn values: lower end of the interval, median, upper end."""

LEAST_SUCCESSES = 5
"""Fewest successful trials that are explained: fewer say nothing about most parameters."""

MODELS = 8
"""Number of Gaussian processes, each with its own hyperparameters."""

DRAWS = 8
"""Number of functions that are drawn from each Gaussian process."""

FORESTS = 32
"""Number of forests of the cost, and of failures: half as many draws as from the Gaussian processes."""

WAVES = 512
"""Number of random Fourier features of the drawn functions; they take most of the time."""

FITTED_ROWS = 300
"""Most observations that the models use, one half of them the best: time grows with the cube of their number."""

GROWN_ROWS = 500
"""Most observations that a forest is grown from: each forest draws its own, one half of those of the cost the best."""

COST_FOREST = Growth(trees=10, max_features=5 / 6)
FAILURE_FOREST = Growth(trees=10)

DrawnFunctions = Callable[[Codes], Array]
"""Functions of configurations, ``(m, w)`` -> ``(draws, m)``."""


@dataclass(frozen=True, eq=False)
class HistoryModels:
    """Models of the cost and of failures, fitted to a history.

    Attributes:
        history: The explained observations, see `at_target`.
        scale: Converts between costs and the models' scale.
        sign: Factor between value and cost.
        processes: Functions drawn from Gaussian processes of the cost.
        forests: Bootstrapped random forests of the cost, each a tuple of trees.
        failures: Bootstrapped random forests of whether a configuration fails; empty if all or no trials failed.
        failed: Share of the observed trials that failed.
        data: The observations that the Gaussian processes use, at most `FITTED_ROWS`.
        process: One of the Gaussian processes.
    """

    history: History
    scale: Scale
    sign: float
    processes: tuple[DrawnFunctions, ...]
    forests: tuple[tuple[Tree, ...], ...]
    failures: tuple[tuple[Tree, ...], ...]
    failed: float
    data: Data
    process: GPModel

    @property
    def space(self) -> Space:
        """The space of the explained observations."""
        return self.history.space

    def interval(self, drawn: Array) -> tuple[float, float, float]:
        """Return the ends of the 90 % interval of drawn costs and the median between them, as values."""
        values = self.sign * self.scale.backward(np.quantile(drawn, ENDS))
        low, middle, high = sorted(values.tolist())
        return low, middle, high

    def costs(self, codes: Codes) -> Array:
        """Return drawn costs on the models' scale, ``(m, w)`` -> ``(draws, m)``."""
        return np.concatenate(self.costs_by_kind(codes))

    def costs_by_kind(self, codes: Codes) -> tuple[Array, Array]:
        """Return the costs drawn from Gaussian processes and those of forests, ``(draws, m)`` each."""
        drawn = np.concatenate([draw(codes) for draw in self.processes])
        means = self._forest_means(self.forests, codes)
        return drawn, np.concatenate([drawn[:0], *means])

    def failure(self, codes: Codes) -> Array:
        """Return drawn probabilities of failing, ``(m, w)`` -> ``(draws, m)``; one row if there are no forests."""
        if not self.failures:
            return np.full((1, len(codes)), self.failed)
        return np.concatenate(self._forest_means(self.failures, codes))

    def _forest_means(self, forests: tuple[tuple[Tree, ...], ...], codes: Codes) -> list[Array]:
        """Return the mean of the trees of each forest, ``(1, m)`` each."""
        if not forests:
            return []
        features = self.space.derived_features.features(codes)
        means = []
        for trees in forests:
            tables = [tree.value[:, 0, 0] for tree in trees]
            means.append(predict_by_tree(trees, tables, features).mean(axis=0, keepdims=True))
        return means


def at_target(history: History) -> History:
    """Return the observations at the target fidelity, in the space of the target: only these are explained.

    Values at other fidelities are those of a smaller problem.
    """
    fidelity = history.space.fidelity
    if fidelity is None:
        return history
    return history_of_part(
        history.space.at_level(fidelity.target),
        history,
        lambda codes: np.equal(codes[:, fidelity.column], fidelity.target),
        lambda codes: set_level(fidelity, codes, 0),
    )


def fit_models(
    history: History, seed: int, *, count: int | None = None, forests: int = FORESTS
) -> HistoryModels:
    """Return models of the first observations of a history.

    Args:
        history: The observations.
        seed: Seed of the run.
        count: Number of observations to use, in order of arrival; None: all.
        forests: Number of forests of the cost.

    Raises:
        TrialError: Fewer than `LEAST_SUCCESSES` of them succeeded.
    """
    history = at_target(history if count is None else history.first(count))
    count = len(history)
    ok = history.where(Status.OK)
    if ok.sum() < LEAST_SUCCESSES:
        raise TrialError(
            f"an explanation needs {LEAST_SUCCESSES} successful trials, there are {ok.sum()}; observe more first"
        )
    rng = generator(seed, Purpose.EXPLAIN, count)
    scale, data, drawn = fit_processes(history, ok, rng, MODELS)
    processes = tuple(model.draw_several(DRAWS, WAVES, rng) for model in drawn)
    inside, failed = history.inside, history.where(Status.FAILED)
    labels, space = failed[inside], history.space.derived_features
    failing: tuple[tuple[Tree, ...], ...] = ()
    if labels.any() and not labels.all():
        seen, y = space.features(history.codes[inside]), labels.astype(np.float64)
        failing = tuple(_grow_failures(seen, y, rng) for _ in range(FORESTS))
    # The forests of the cost come last: with fewer of them everything else is the same.
    _, every = training_data(history, ok)
    features = space.features(every.codes)
    grown = tuple(_grow_costs(features, every.y, rng) for _ in range(forests))
    failures = float(labels.mean())
    sign = sign_of(history.direction)
    return HistoryModels(history, scale, sign, processes, grown, failing, failures, data, drawn[0])


def _grow_costs(features: Array, y: Array, rng: Rng) -> tuple[Tree, ...]:
    rows = chosen_rows(y, GROWN_ROWS, rng)
    return grow_trees(features[rows], y[rows], COST_FOREST, rng)


def _grow_failures(features: Array, y: Array, rng: Rng) -> tuple[Tree, ...]:
    rows = rng.permutation(len(y))[:GROWN_ROWS] if len(y) > GROWN_ROWS else np.arange(len(y))
    return grow_trees(features[rows], y[rows], FAILURE_FOREST, rng)


def fit_processes(
    history: History, ok: Mask, rng: Rng, models: int
) -> tuple[Scale, Data, list[GPModel]]:
    """Return the scale of the costs, at most `FITTED_ROWS` observations, and Gaussian processes fitted to these.

    Args:
        history: The observations.
        ok: Those that succeeded, ``(n,)``.
        rng: Random generator.
        models: Number of processes, each with its own hyperparameters.
    """
    scale, data = training_data(history, ok)
    data = data.rows(chosen_rows(data.y, FITTED_ROWS, rng))
    surrogate = GaussianProcess(priors=SMOOTH_PRIORS, effort=Effort(fitted_rows=FITTED_ROWS))
    return scale, data, surrogate.fit_draws(history.space.derived_features, data, rng, models)


def training_data(history: History, ok: Mask) -> tuple[Scale, Data]:
    """Return the scale of the costs and the modelled rows; a bound counts as a value unless it is below the best."""
    costs, bounds = history.costs, history.bounds
    scale = fit_transform(costs[ok])
    censored = history.where(Status.CENSORED) & (bounds > costs[ok].min())
    values = np.where(censored, np.minimum(bounds, costs[ok].max()), costs)
    seen = ok | censored
    y = scale.forward(values[seen])
    variance = scale.forward_variance(values[seen], np.nan_to_num(history.variances[seen]))
    return scale, Data(history.codes[seen], y, variance, censored[seen])


# Calibration ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftOut:
    """An observation, and what the model predicts for it from all others; in the user's unit.

    Attributes:
        observed: The observed value.
        predicted: The predicted median.
        low: Lower end of the 90 % interval of an observation.
        high: Upper end.
    """

    observed: float
    predicted: float
    low: float
    high: float

    @property
    def is_inside(self) -> bool:
        """Whether the interval covers the observed value."""
        return self.low <= self.observed <= self.high


@dataclass(frozen=True)
class Calibration:
    """Leave-one-out predictions of a run.

    Attributes:
        points: The observations, in order of arrival; at most 300.
        coverage: Share of the observed values that lie in their 90 % intervals.
        correlation: Rank correlation of predicted and observed values; NaN if all are equal.
    """

    points: tuple[LeftOut, ...]
    coverage: float
    correlation: float


def compute_calibration(
    history: History, seed: int = 0, *, models: HistoryModels | None = None
) -> Calibration:
    """Return leave-one-out predictions by the Gaussian process of the default strategy.

    Its hyperparameters are fitted once, to all observations (Rasmussen and Williams 2006, Eq. 5.12).

    Args:
        history: The observations.
        seed: Seed of the run.
        models: Models of the history, if they are fitted already.

    Raises:
        TrialError: Fewer than five trials have succeeded.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    history = at_target(history)
    ok = history.where(Status.OK)
    if ok.sum() < LEAST_SUCCESSES:
        raise TrialError(
            f"a calibration needs {LEAST_SUCCESSES} successful trials, there are {ok.sum()}; observe more first"
        )
    if models is None:
        rng = generator(seed, Purpose.EXPLAIN, len(history) + 4)
        scale, data, (model,) = fit_processes(history, ok, rng, 1)
    else:
        scale, data, model = models.scale, models.data, models.process
    mean, deviation = model.leave_one_out()
    total = np.sqrt(deviation**2 + model.fitted.noise)  # an observation has noise, too
    reach = float(ndtri(0.5 + 0.5 * LEVEL))
    sign, known = sign_of(history.direction), ~data.censored
    columns = (data.y, mean, mean - reach * total, mean + reach * total)
    observed, predicted, low, high = (sign * scale.backward(part[known]) for part in columns)
    points = tuple(
        LeftOut(o, p, *sorted(ends))
        for o, p, *ends in np.stack([observed, predicted, low, high], axis=1).tolist()
    )
    ranks = rankdata(observed), rankdata(predicted)
    varies = all(np.ptp(part) > 0.0 for part in ranks)
    correlation = float(np.corrcoef(*ranks)[0, 1]) if varies else float("nan")
    coverage = float(np.mean([point.is_inside for point in points]))
    return Calibration(points, coverage, correlation)
