"""Choose which of the built configurations to measure, by models that see their build metrics.

A Gaussian process on the counters of many compiled candidates, of which few are run, is the idea of CITROEN (Zhao, Xia
and Wang, IPDPS 2025). Here the metrics stand beside the parameters, and only if they predict better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints, Rng
from baco_like.acquisitions.functions import (
    ExpectedImprovement,
    draw_minimum,
    weight_by_feasibility,
)
from baco_like.records import History
from baco_like.records.rows import row_keys
from baco_like.records.trial import Candidate
from baco_like.strategies.auto import MANY_PARAMETERS, model_of_auto, model_of_many
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.fitting import (
    ModelValues,
    model_values,
    tag_of,
)
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import Data
from baco_like.surrogates.effects import EffectsModel, SparseEffects
from baco_like.surrogates.protocol import Featured
from baco_like.surrogates.registry import fit_surrogate

COVERAGE = 1 / 8
"""Share of the choices for candidates with a metric that was 0 in all measured ones."""

OWN = 1 / 8
"""Share of the choices for the next suggestion of the strategy, which may explore on purpose."""

FEWEST = 4
"""Fewest successes with build metrics from which a model predicts the next one."""

MARGIN = 1.0
"""By how much the errors of the latest values, each predicted from those before it, must be smaller in all for metrics
to be used, in standard deviations of the values."""

MEAN, PARAMETERS, BOTH, METRICS = (
    "mean",
    "the parameters",
    "parameters and metrics",
    "metrics alone",
)
"""Models that could choose; others see the parameters and one group of metrics, and have its name."""

_STEPS = 15
"""Latest values by which the models are compared."""

_ALIKE = 0.95
"""A metric that is correlated by more than this with an earlier one says nothing new."""

_MOST_ROWS = 300

_NOTABLE = 0.05
"""Least effect of a metric that is named as a reason, in standard deviations of the values."""


def _can_choose(problem: Problem, history: History) -> bool:
    """Whether enough is known for models: some successes with build metrics, of one objective and one task."""
    space = problem.space
    if problem.objectives or space.fidelity is not None or len(space.tasks or ()) > 1:
        return False
    return sum(1 for trial in history.trials if trial.build and trial.value is not None) >= FEWEST


class _Metrics(NamedTuple):
    """The build metrics of measured configurations and of candidates, ready for models.

    Attributes:
        names: The metrics that vary and are not alike.
        measured: Standardised numbers of the measured ones, ``(n, d)``.
        candidates: The same of the candidates, ``(m, d)``.
        is_first: Candidates with a metric that is 0 in all measured ones, ``(m,)``.
    """

    names: list[str]
    measured: Array
    candidates: Array
    is_first: Array

    @classmethod
    def of(
        cls, measured: Sequence[Mapping[str, float]], candidates: Sequence[Mapping[str, float]]
    ) -> _Metrics:
        """Return the metrics; one that is missing is 0, and counts have the logarithm of one more."""
        both = [*measured, *candidates]
        names = sorted({name for build in both for name in build})
        table = np.array([[build.get(name, 0.0) for name in names] for build in both])
        table = table.reshape(len(both), len(names))
        count = len(measured)
        is_first = ((table[:count] == 0.0).all(axis=0) & (table[count:] != 0.0)).any(axis=1)
        logs = np.log1p(np.maximum(table, 0.0))
        table = np.where((table >= 0.0).all(axis=0), logs, table)
        kept: list[int] = []
        scaled = np.zeros_like(table)
        for j in range(len(names)):
            spread = table[:count, j].std()
            if spread <= 1e-9 * (1.0 + np.abs(table[:, j]).max()):
                continue
            scaled[:, j] = (table[:, j] - table[:count, j].mean()) / spread
            own = scaled[:count, j]
            if all(abs(own @ scaled[:count, i]) <= _ALIKE * count for i in kept):
                kept.append(j)
        scaled = scaled[:, kept]
        return cls([names[j] for j in kept], scaled[:count], scaled[count:], is_first)


@dataclass(frozen=True, eq=False)
class _WithMetrics:
    """Parameters and build metrics as models see them: each metric is a source of its own.

    Attributes:
        space: Gives the features of the parameters; None without them.
        names: The metrics.
        table: Their numbers by the key of a configuration.
    """

    space: Featured | None
    names: Sequence[str]
    table: Mapping[bytes, Array]

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the parameters, then of the metrics."""
        return (*(() if self.space is None else self.space.active), *self.names)

    @property
    def feature_owner(self) -> Ints:
        """For each feature column, the index of its source in `active`, ``(k,)``."""
        known = (
            np.empty(0, np.int64) if self.space is None else np.asarray(self.space.feature_owner)
        )
        first = 0 if self.space is None else len(self.space.active)
        return np.concatenate([known, first + np.arange(len(self.names))])

    def features(self, codes: Codes) -> Features:
        """Return the features of built configurations, ``(n, w)`` -> ``(n, k)``."""
        own = np.array([self.table[key] for key in row_keys(codes)])
        return own if self.space is None else np.concatenate([self.space.features(codes), own], 1)


class _Values(NamedTuple):
    """The measured configurations that have build metrics, and built ones, for models.

    Attributes:
        values: All values of the history.
        data: Those of the configurations with build metrics.
        metrics: The metrics of both.
        numbers: All metrics by the key of a configuration.
    """

    values: ModelValues
    data: Data
    metrics: _Metrics
    numbers: dict[bytes, Array]

    @classmethod
    def of(
        cls, recipe: Bayesian, history: History, codes: Codes, builds: Sequence[Mapping[str, float]]
    ) -> _Values:
        """Return the values of a history, with the codes and the build metrics of configurations to predict."""
        values, trials = model_values(history, recipe.scale, recipe.failed_as), history.trials
        known = [i for i, row in enumerate(values.rows) if trials[row].build][-_MOST_ROWS:]
        data = values.data.rows(np.array(known, dtype=np.int64))
        metrics = _Metrics.of([trials[row].build for row in values.rows[known]], builds)
        keys = row_keys(np.concatenate([data.codes, codes]))
        rows = np.concatenate([metrics.measured, metrics.candidates])
        return cls(values, data, metrics, dict(zip(keys, rows, strict=True)))

    def space(self, view: Featured, option: str) -> Featured | None:
        """Return what the model of an option sees; None if the option has no metric."""
        names = self.metrics.names
        if option == PARAMETERS:
            return view
        if option not in (BOTH, METRICS):
            names = [name for name in names if name.partition(".")[0] == option]
        columns = [self.metrics.names.index(name) for name in names]
        numbers = {key: row[columns] for key, row in self.numbers.items()}
        return _WithMetrics(None if option == METRICS else view, names, numbers) if names else None

    def fit(self, recipe: Bayesian, space: Featured, rng: Rng) -> Any:
        """Return the model of the values that sees these features."""
        surrogate: Any = recipe.surrogate
        if not isinstance(space, _WithMetrics):
            return fit_surrogate(surrogate, space, self.data, rng)
        alone = replace(space, space=None)
        trend = SparseEffects().fit(alone, self.data, rng)
        if space.space is None:
            return trend
        left = replace(self.data, y=self.data.y - trend.predict(self.data.codes)[0])
        return _WithTrend(trend, fit_surrogate(surrogate, space, left, rng))


@dataclass(frozen=True, eq=False)
class _WithTrend:
    """A model of what the linear effects of the metrics leave unexplained; the effects hold beyond measured numbers.

    Attributes:
        trend: The effects of the metrics.
        rest: The model of the rest.
    """

    trend: EffectsModel
    rest: Any

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """Those of the rest."""
        known: Mapping[str, Any] = self.rest.hyperparameters
        return known

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance, ``(n, w)`` -> ``(n,)``, ``(n,)``."""
        mean, variance = self.rest.predict(codes)
        return mean + self.trend.predict(codes)[0], variance


def _options(names: Sequence[str]) -> list[str]:
    """Return the names of the models that could choose: with all metrics, and with each of several groups."""
    groups = list(dict.fromkeys(name.partition(".")[0] for name in names))
    return [PARAMETERS, BOTH, METRICS, *(groups if len(groups) > 1 else ())]


def _one_step(problem: Problem, recipe: Bayesian, history: History) -> dict[str, float]:
    """Return the error at the last value of each model of those before it; nothing without a value or metrics."""
    last, before = history.last, history.first(len(history) - 1)
    assert last is not None
    if last.value is None or not last.build or not _can_choose(problem, before):
        return {}
    codes = history.codes[-1:]
    known = _Values.of(recipe, before, codes, [last.build])
    y = float(known.values.transform.forward(history.costs[-1:])[0])
    errors = {MEAN: abs(y - float(known.data.y.mean()))}
    for option in _options(known.metrics.names):
        space = known.space(recipe.view(problem.space), option)
        if space is not None:
            model = known.fit(recipe, space, np.random.default_rng(len(history)))
            errors[option] = abs(y - float(model.predict(codes)[0][0]))
    return errors


def _evidence(problem: Problem, recipe: Bayesian, history: History) -> dict[str, float]:
    """Return by how much the errors of each model with metrics were smaller than those of the parameters and the mean.

    The smaller of both gains counts: while the model of the parameters is worse than the mean of all values, a model of
    useless metrics, which is near that mean, must not look good. Each value counts for at most one standard deviation.
    Log densities would count surprises, of which the first few values bring many.
    """
    total: dict[str, Array] = {}
    for count in range(max(1, len(history) - _STEPS + 1), len(history) + 1):
        part = history.first(count)
        errors = partial(_one_step, problem, recipe, part)
        step = part.derive(("one step", count), None, errors)
        for option, error in step.items():
            gains = np.array([step[PARAMETERS], step[MEAN]]) - error
            total[option] = total.get(option, 0.0) + np.clip(gains, -1.0, 1.0)
    return {option: float(gains.min()) for option, gains in total.items() if option != MEAN}


def _recipe(problem: Problem) -> Bayesian:
    recipe = model_of_many() if len(problem.space.active) >= MANY_PARAMETERS else model_of_auto()
    return recipe.for_problem(problem)


def _best_option(problem: Problem, history: History) -> str:
    """Return the name of the model that chooses."""
    if not _can_choose(problem, history):
        return PARAMETERS
    gains = _evidence(problem, _recipe(problem), history)
    best = max(gains, key=lambda name: gains[name], default=PARAMETERS)
    return best if gains.get(best, 0.0) > MARGIN else PARAMETERS


def metrics_count(problem: Problem, history: History) -> bool:
    """Whether the metrics have predicted the values better than the parameters alone."""
    return _best_option(problem, history) != PARAMETERS


def choose(
    problem: Problem,
    history: History,
    candidates: Sequence[Candidate],
    own: int | None,
    rng: Rng,
) -> tuple[int, dict[str, Any]]:
    """Return the index of the candidate to measure, and additions to the tag of its trial.

    Args:
        problem: The problem.
        history: The history, for which `metrics_count` holds.
        candidates: Built configurations, at least one.
        own: Index of the strategy's next suggestion, or None.
        rng: Random generator.
    """
    recipe = _recipe(problem)
    codes = np.array([candidate.code for candidate in candidates])
    known = _Values.of(recipe, history, codes, [candidate.build for candidate in candidates])
    values, data, view = known.values, known.data, recipe.view(problem.space)
    space = known.space(view, _best_option(problem, history)) or view
    model = known.fit(recipe, space, rng)
    feasibility = recipe.fit_feasibility(problem.space, history, int(rng.integers(2**31)))
    score = ExpectedImprovement().bind(model, values.incumbent, rng)
    score = weight_by_feasibility(score, feasibility, draw_minimum(rng, recipe.largest_minimum))
    scores, is_first, share = score(codes), known.metrics.is_first, rng.random()
    is_for_coverage = bool(is_first.any()) and share < COVERAGE
    is_own = own is not None and share > 1.0 - OWN
    if is_for_coverage:
        scores = np.where(is_first, scores, -np.inf)
    index = own if is_own and own is not None else int(np.argmax(scores))
    tag = tag_of(values.fitted(data, model, feasibility), codes[[index]], history.direction)
    if is_for_coverage:
        reason = "it has a metric that was 0 in all measured ones"
    elif is_own:
        reason = "the next suggestion of the strategy"
    elif isinstance(space, _WithMetrics):
        reason = _describe(model, space, codes[[index]])
    else:
        reason = "its parameters"
    del tag["hyperparameters"]  # the next fit of the strategy starts from its own
    return index, {**tag, "build": f"of {len(codes)} built configurations: {reason}"}


def _describe(model: Any, space: _WithMetrics, row: Codes) -> str:
    """Return which metrics speak for a configuration, compared with the mean of the measured ones."""
    (own,) = row_keys(row)
    trend: EffectsModel = getattr(model, "trend", model)
    gains: dict[str, float] = {}
    mean = float(trend.predict(row)[0][0])
    for j, name in enumerate(space.names):
        numbers = space.table[own].copy()
        numbers[j] = 0.0
        moved = replace(space, space=None, table={**space.table, own: numbers})
        gains[name] = float(replace(trend, space=moved).predict(row)[0][0]) - mean
    helpful = sorted((n for n in gains if gains[n] > _NOTABLE), key=lambda n: -gains[n])[:2]
    rises = space.table[own] > 0.0
    words = {n: "higher" if up else "lower" for n, up in zip(space.names, rises, strict=True)}
    parts = [f"{words[name]} {name}" for name in helpful]
    return f"{' and '.join(parts)} than usual" if parts else "its parameters"
