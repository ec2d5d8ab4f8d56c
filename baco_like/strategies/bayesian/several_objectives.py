"""Bayesian optimization of several objectives: the expected gain of hypervolume, and ParEGO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from baco_like import surrogates
from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions import AcquisitionOptimizer
from baco_like.acquisitions.functions import (
    condition_on_pending,
    draw_minimum,
    weight_by_feasibility,
)
from baco_like.acquisitions.hypervolume import ends_of, log_ehvi
from baco_like.acquisitions.optimizers import ExhaustiveSearch, LocalSearch
from baco_like.acquisitions.protocol import Score
from baco_like.records import History, Objective, Proposal, Status, Trial
from baco_like.records.front import is_non_dominated, non_dominated_boxes
from baco_like.records.objective import sign_of
from baco_like.strategies.bayesian.bayesian import Bayesian, BayesianState, require_gaussian
from baco_like.strategies.bayesian.fitting import (
    NEEDED,
    check_successes,
    last_hyperparameters,
    objective_costs,
    weight_by_user_prior,
)
from baco_like.strategies.bayesian.repeats import fit_inert, log_new
from baco_like.strategies.protocol import (
    HistoryStrategy,
    Prediction,
    Problem,
    Proposals,
    RelatedTask,
)
from baco_like.surrogates.forest import Growth
from baco_like.surrogates.ranking_ensemble import EnsembleModel
from baco_like.surrogates.transform import fit_asinh, quantile_of

RHO = 0.05
"""Weight of the sum beside the maximum in the augmented Chebyshev function (Knowles 2006, Eq. 2)."""


def _related_to(problem: Problem, objective: int) -> tuple[RelatedTask, ...]:
    """Return the results of the related tasks that have enough values of an objective for a model."""
    of_objective = [task.of_objective(objective) for task in problem.related]
    return tuple(task for task in of_objective if task is not None)


class State(NamedTuple):
    """The state.

    Attributes:
        seed: Seed of the feasibility model.
        related: For each objective the models of the related tasks that have it; None if no task has it. Empty if no
            task has any.
    """

    seed: int
    related: tuple[BayesianState | None, ...] = ()


@dataclass(frozen=True)
class SeveralObjectives(HistoryStrategy):
    """The common part of the strategies for several objectives.

    Before the second success the models of related tasks choose the proposals, if there are any.

    Attributes:
        then: Gives surrogate, feasibility model, features and acquisition optimizer.
    """

    several_objectives: ClassVar[bool] = True
    uses_related_tasks: ClassVar[bool] = True

    then: Bayesian

    def init(self, problem: Problem, rng: Rng) -> State:
        """Return the seed of the feasibility model, and the models of the related tasks.

        Raises:
            StrategyError: There are related tasks, and the surrogate is not a Gaussian process.
        """
        seed = self.then.init(replace(problem, related=()), rng).seed
        if not problem.related:
            return State(seed)
        require_gaussian(self.then.surrogate)
        then, related = replace(self.then, scale=fit_asinh), list[BayesianState | None]()
        for j in range(max(1, len(problem.objectives))):
            own = replace(problem, related=_related_to(problem, j))
            related.append(then.init(own, rng) if own.related else None)
        return State(seed, tuple(related) if any(related) else ())

    def predict(
        self, problem: Problem, history: History, state: State, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return predictions for configurations, ``(n, w)``, by a model of each objective: one column for each.

        Raises:
            TrialError: Fewer than two trials have succeeded.
        """
        check_successes(history)
        parts = histories_of(history)
        predictions = [
            one.predict(problem, part, BayesianState(state.seed), codes, rng)
            for one, part in zip(strategies_of(self.then, state, parts), parts, strict=True)
        ]
        mean, std, median = (
            np.column_stack([getattr(prediction, name) for prediction in predictions])
            for name in ("mean", "std", "median")
        )
        return Prediction(mean, std, predictions[0].feasible, median)

    def _explore(
        self, problem: Problem, history: History, state: State, n: int, rng: Rng
    ) -> list[Proposal]:
        """Return n proposals before the second success, uniform draws without related tasks.

        With such tasks they are those that the tasks predict to be best, each for its own weights of the objectives.
        """
        if not state.related:
            return self.then.explore(problem, history, state.seed, n, rng)
        known = [(j, own) for j, own in enumerate(state.related) if own is not None]
        lowest = [
            min(own.predict(task.codes).min() for task in _related_to(problem, j))
            for j, own in known
        ]
        proposals: list[Proposal] = []
        for _ in range(n):
            weights = rng.dirichlet(np.ones(len(known)))

            def score(codes: Codes, weights: Array = weights) -> Array:
                predicted = np.column_stack([own.predict(codes) for _, own in known])
                return -_chebyshev(weights * (predicted - lowest), RHO)

            rows = self.then.best_by_score(problem, history, state.seed, 1, rng, score)
            if not len(rows):
                break
            proposals.append(Proposal(rows[0], {"phase": "sources"}))
            history = history.assume_pending(rows)
        return proposals


def strategies_of(then: Bayesian, state: State, parts: Sequence[History]) -> list[Bayesian]:
    """Return the strategy that fits the model of each objective, an ensemble if a related task has the objective."""
    then = replace(then, scale=fit_asinh)
    related = state.related or (None,) * len(parts)
    return [
        then if own is None else then.with_ensemble(own, part)
        for own, part in zip(related, parts, strict=True)
    ]


def histories_of(history: History) -> list[History]:
    """Return one history for each objective, with its costs."""
    costs, variances = objective_costs(history)
    return [
        history.with_costs(costs[:, j], variances[:, j]).view_as(partial(_with_own_tag, number=j))
        for j in range(costs.shape[1])
    ]


def _with_own_tag(trial: Trial, number: int) -> Trial:
    """Return the trial with the hyperparameters of one objective in its tag, as `Bayesian` reads them."""
    every = trial.read_tag("hyperparameters")
    if not isinstance(every, list) or len(every) <= number:
        return trial
    return replace(trial, tag={**trial.tag, "hyperparameters": every[number]})


@final
@dataclass(frozen=True)
class ParEGO(SeveralObjectives):
    """Proposes by expected improvement of a weighted maximum of the objectives, with new random weights every time.

    Source: Knowles, "ParEGO" (IEEE TEVC 2006), Eqs. 1 and 2: the augmented Chebyshev function of the objectives, each
    scaled to [0, 1], here after the logarithm. Use it for more than three objectives. The results of related tasks are
    weighted in the same way. `predict` has a model of each objective instead.

    Attributes:
        rho: Weight of the sum beside the maximum.
    """

    rho: float = RHO

    def ask(self, problem: Problem, history: History, state: State, n: int, rng: Rng) -> Proposals:
        """Return n proposals, each for its own weights."""
        if history.where(Status.OK).sum() < NEEDED:
            return self._explore(problem, history, state, n, rng)
        proposals: list[Proposal] = []
        costs, _ = objective_costs(history)
        known = history.inside & ~np.isnan(costs).any(axis=1)  # also outcomes beyond a limit
        scaled = self._scale(np.where(known[:, None], costs, np.nan))
        usable = problem.related if state.related else ()
        tasks = [(task, _fill(self._scale(task.objective_costs))) for task in usable]
        then = replace(self.then, scale=surrogates.standardise)
        for _ in range(n):
            weights = rng.dirichlet(np.ones(costs.shape[1]))
            total = _chebyshev(scaled * weights, self.rho)
            part = history.with_costs(total, np.full(len(total), np.nan))
            related = [
                replace(task, costs=_chebyshev(own * weights, self.rho)) for task, own in tasks
            ]
            tag: dict[str, Any] = {"phase": "model", "objective_weights": weights.tolist()}
            if related:
                fitted = then.init(replace(problem, related=tuple(related)), rng)
                found = then.ask(problem, part, fitted._replace(seed=state.seed), 1, rng)
                tag |= {"weights": found[0].tag["weights"]} if found else {}
            else:
                found = then.ask(problem, part, BayesianState(state.seed), 1, rng)
            if not found:
                break
            tag["p_feasible"] = found[0].tag["p_feasible"]
            proposals.append(Proposal(found[0].code, tag))
            history = history.assume_pending(found[0].code[None, :])
        return proposals

    def _scale(self, costs: Array) -> Array:
        """Return each objective on [0, 1], ``(n, m)``; NaN where it is unknown."""
        scaled = np.full_like(costs, np.nan)
        for j, column in enumerate(costs.T):
            known = ~np.isnan(column)
            if known.any():
                values = self.then.scale(column[known]).forward(column[known])
                scaled[known, j] = (values - values.min()) / (np.ptp(values) or 1.0)
        return scaled


def _fill(scaled: Array) -> Array:
    """Return scaled costs in which a missing one is the median of its objective, ``(n, m)`` -> ``(n, m)``.

    Without it, a result that lacks an objective would seem better than an equal one that has it. An objective that all
    results lack is 0, which changes no weighted maximum. Failures stay NaN.
    """
    known = ~np.isnan(scaled)
    medians = [
        np.median(x[own]) if own.any() else 0.0 for x, own in zip(scaled.T, known.T, strict=True)
    ]
    return np.where(known | ~known.any(axis=1, keepdims=True), scaled, medians)


def _chebyshev(weighted: Array, rho: float) -> Array:
    """Return the augmented maximum of weighted objectives, ``(n, m)`` -> ``(n,)``; NaN where one is NaN."""
    return np.asarray(weighted.max(axis=1) + rho * weighted.sum(axis=1))


_STARTS = 7
"""Largest number of trials of the front from which the acquisition optimizer starts, beside half of the random draws.

A step costs about twice as much as with one objective. With ten trials and fifteen draws, a suggestion took up to 2.5
times that for one objective. The volumes were the same on four problems (0.883 against 0.888, five seeds), and higher
on one (0.414 against 0.345, ten seeds).
"""

_REFERENCES = ((0.5, 0.1), (0.9, 0.1), (0.5, 0.1), (0.9, 1.0))
"""Reference points that take turns.

Each point is at or beyond a quantile of the first `_FIRST` values (first number), and beyond the front by a share of
the front's range (second number; BoTorch has 0.1). With one point near the front, the front grows by small steps, and
the search stops at gaps and at wrong ends. Points farther away count the ends more, but evaluations are spent there.

The first point alone stops at a gap of ZDT3 (volume 0.72, with the second one 0.86; four and ten seeds). The far point
gains 0.02 on a permutation of BNH. On five other problems 20 seeds show no difference (interval at most 0.05 to both
sides). See benchmarks/quality/results/several_objectives.md for other points.
"""

_FIRST = 10
"""These are about the values of the design. Later values gather near the front: where a front has shrunk to one point,
their quantile stays there, and so did the search (ZDT2 and ZDT3)."""

_COMPARED = 16
"""Where outcomes repeat, this number of configurations with the highest gains are also compared by their probability of
a new outcome."""

_FOREST = surrogates.RandomForest(Growth(trees=10, max_features=5 / 6))
"""Models each objective after an outcome that repeats another one."""

_EACH_COUNT = 25
"""Up to this number of observations the hyperparameters of all objectives are fitted for every suggestion. Then the
objectives take turns, so that all together cost about as much as one."""

_COUNT_PER_WAIT = 40
"""The number of observations divided by this is the number of suggestions from one turn to the next, at least 1: from
80 observations on there is a fit in every second suggestion, from 120 on in every third."""


class _Objective(NamedTuple):
    """The model of one objective.

    Attributes:
        name: Name of the objective.
        sign: Factor between value and cost.
        fitted: The models; `Bayesian` has the type.
        fitted_at: Number of observations at the last fit of the hyperparameters.
        hyperparameters: The hyperparameters of the last fit, from which the next one starts.
    """

    name: str
    sign: float
    fitted: Any
    fitted_at: int
    hyperparameters: Mapping[str, Any]


@final
@dataclass(frozen=True)
class ExpectedHypervolume(SeveralObjectives):
    """Proposes where the expected gain of the dominated hypervolume is highest, weighted by feasibility.

    Each objective has its own surrogate on its own scale; with related tasks it is an ensemble of their models and its
    own. Without noise the front consists of observed values. With noise it consists of the surrogates' means at the
    observed configurations. Pending configurations count with their expected values.

    Where outcomes repeat, as those of compiler flags that change nothing do, the gain is multiplied by the probability
    of a new outcome. After an outcome that repeats another one, random forests replace the surrogates for one step:
    they learn faster which parameters change nothing under which others.

    Source: Emmerich, Deutz and Klinkenberg (CEC 2011) for the expected improvement of hypervolume; the logarithm as for
    one objective. Made for two and three objectives: the number of boxes that the region below the front consists of
    grows linearly for these, and faster for more. The acquisition function of ``then`` is not used.
    """

    def ask(self, problem: Problem, history: History, state: State, n: int, rng: Rng) -> Proposals:
        """Return n proposals, each chosen as if the ones before it had the costs that the models predict."""
        if history.where(Status.OK).sum() < NEEDED:
            return self._explore(problem, history, state, n, rng)
        models = self._fit(problem, history, state, rng)
        minimum = draw_minimum(rng, self.then.largest_minimum)
        search = _shorten(self.then.search_of(problem.space))
        is_exhaustive = isinstance(search, ExhaustiveSearch)  # needs no starts
        start = history.codes[:0] if is_exhaustive else _starts(history)
        pending, proposals = history.pending_codes, list[Proposal]()
        ok = history.where(Status.OK)
        observed = history.codes[ok]
        inert = fit_inert(problem.space, observed, objective_costs(history)[0][ok])
        for remaining in reversed(range(n)):
            score = self._score(problem, history, state, models, pending)
            score = weight_by_feasibility(score, models[0].fitted.feasibility, minimum)
            excluded = partial(problem.is_excluded, history)
            count = 1 if inert is None else _COMPARED
            rows, scores = search.maximise(score, problem.space, count, rng, start, excluded)
            if not len(rows):
                break
            if inert is not None:
                new = log_new(problem.space, inert, np.concatenate([observed, pending]))
                best = np.argmax(scores + new(rows))
                rows = rows[best : best + 1]
            proposals.append(Proposal(rows[0], _tag(models, rows, state)))
            if remaining:
                pending, history = np.concatenate([pending, rows]), history.assume_pending(rows)
        return proposals

    def _fit(self, problem: Problem, history: History, state: State, rng: Rng) -> list[_Objective]:
        objectives = problem.objectives or (Objective(direction=problem.direction),)
        # One model of feasibility serves all objectives.
        then = self.then.for_problem(problem)
        feasibility = then.fit_feasibility(problem.space, history, state.seed)
        parts = histories_of(history)
        each = strategies_of(self.then, state, parts)
        count, fitted_at = len(history), _fit_counts(history, len(objectives))
        is_due = _choose_fitted(count, fitted_at)
        models = list[_Objective]()
        takes_forest = not state.related and _has_repeated(history)
        for j, (one, part) in enumerate(zip(each, parts, strict=True)):
            name, sign = objectives[j].name, sign_of(objectives[j].direction)
            if takes_forest:
                one = replace(one, surrogate=_FOREST)
            elif not is_due[j]:
                one = replace(one, surrogate=getattr(one.surrogate, "holding", one.surrogate))
            fitted = one.fit(problem.space, part, state.seed, rng, feasibility)
            at, found = count if is_due[j] else fitted_at[j], fitted.model.hyperparameters
            if takes_forest:
                # This step does not count, or the hyperparameters of all objectives would be due in the next one.
                at, found = fitted_at[j] + 1, last_hyperparameters(part) or {}
            models.append(_Objective(name, sign, fitted, at, found))
        return models

    def _score(
        self,
        problem: Problem,
        history: History,
        state: State,
        models: Sequence[_Objective],
        pending: Codes,
    ) -> Score:
        """Return the logarithm of the expected gain, and the weight of the user's prior."""
        ok = history.codes[history.where(Status.OK)]
        known = np.concatenate([ok, pending]) if len(pending) else ok
        values = np.column_stack([model.fitted.model.predict(known)[0] for model in models])
        front = values[is_non_dominated(values)]
        quantile, margin = _REFERENCES[len(known) % len(_REFERENCES)]
        first = _first_values(values, models, problem.related)
        reference = choose_reference(values, front, first, quantile, margin)
        boxes = ends_of(*non_dominated_boxes(front, reference))
        believed = [condition_on_pending(model.fitted.model, pending) for model in models]

        def score(codes: Codes) -> Array:
            means, variances = zip(*(model.predict(codes) for model in believed), strict=True)
            return log_ehvi(np.column_stack(means), np.column_stack(variances), boxes)

        return weight_by_user_prior(score, problem.space, len(history), self.then.belief)


def choose_reference(
    values: Array, front: Array, first: Sequence[Array], quantile: float, margin: float
) -> Array:
    """Return the point that bounds the dominated volume, ``(m,)``.

    Args:
        values: Costs on the models' scales, ``(n, m)``.
        front: The non-dominated ones among them, ``(k, m)``.
        first: Costs of configurations that no model has chosen, for each objective.
        quantile: Quantile of the latter that the point is not better than, between 0 and 1.
        margin: Distance between the point and the worst values of the front, as a share of the front's range.
    """
    spread = np.ptp(front, axis=0)
    spread = np.where(spread > 0.0, spread, np.ptp(values, axis=0))
    least = np.array([quantile_of(np.sort(own), quantile) for own in first])
    return np.asarray(np.maximum(front.max(axis=0) + margin * spread, least))


def _first_values(
    values: Array, models: Sequence[_Objective], tasks: Sequence[RelatedTask]
) -> list[Array]:
    """Return for each objective values of configurations that no model has chosen.

    They are the first values. If related tasks help, the design had one point only, and the predictions for the
    configurations of the tasks take its place: else a search that begins at one end of a front stays there.
    """
    columns = list(values[:_FIRST].T)
    if not tasks:
        return columns
    codes = np.concatenate([task.codes for task in tasks])
    for j, model in enumerate(models):
        if isinstance(model.fitted.model, EnsembleModel):
            columns[j] = model.fitted.model.predict(codes)[0]
    return columns


def _has_repeated(history: History) -> bool:
    """Return whether the last outcome is equal to an earlier one in all objectives."""
    costs = objective_costs(history)[0][history.where(Status.OK)]
    return bool((costs[:-1] == costs[-1]).all(axis=1).any())


def _fit_counts(history: History, objectives: int) -> list[int]:
    """Return the number of observations at the last fit of each objective's hyperparameters; 0 if unknown."""
    counts = None if history.last is None else history.last.read_tag("fitted_at")
    if not isinstance(counts, list) or len(counts) != objectives:
        return [0] * objectives
    return [int(count) for count in counts]


def _choose_fitted(count: int, fitted_at: Sequence[int]) -> list[bool]:
    """Return for each objective whether its hyperparameters are fitted now; see `_EACH_COUNT` and `_COUNT_PER_WAIT`.

    Args:
        count: Number of observations.
        fitted_at: Number of observations at the last fit of each objective.
    """
    wait = max(1, count // _COUNT_PER_WAIT)
    longest = wait * len(fitted_at)
    turn = int(np.argmin(fitted_at)) if count - max(fitted_at) >= wait else None
    return [
        count <= _EACH_COUNT or j == turn or count - at >= longest for j, at in enumerate(fitted_at)
    ]


def _starts(history: History) -> Codes:
    """Return trials of the front, evenly spaced by the first objective, ``(k, w)``."""
    rows = [trial.code for trial in history.front() if trial.code is not None]
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(_STARTS, len(rows))).round().astype(int))
    return np.array([rows[i] for i in chosen])


def _shorten(search: AcquisitionOptimizer) -> AcquisitionOptimizer:
    """Return a shorter local search.

    It scores two thirds of the random draws, and climbs from half as many of them, because the front adds more starts
    than the best of one objective do. It ends after a step that raises the expected gain by less than 1 %: of 4.6
    steps, 3.1 came after the last larger gain. Fewer draws and the earlier end save a sixth of the time of a run of 120
    evaluations, without a loss of volume (eight problems, 20 seeds, mean difference 0.001). With half of the draws,
    three of the problems may lose volume.
    """
    if not isinstance(search, LocalSearch) or search.ascent is not None:
        return search
    starts, candidates = search.starts // 2, 2 * search.candidates // 3
    return replace(search, starts=starts, candidates=candidates, gain=0.01)


def _tag(models: Sequence[_Objective], row: Codes, state: State) -> dict[str, Any]:
    """Return the predictions for a proposal, for `Optimizer.why`, and the hyperparameters, for the next fit."""
    hyperparameters = [dict(model.hyperparameters) for model in models]
    predicted = {}
    for name, sign, fitted, _, _ in models:
        mean, variance = fitted.transform.moments(*fitted.model.predict(row))
        predicted[name] = {"mean": sign * float(mean[0]), "std": float(np.sqrt(variance[0]))}
    tag = {
        "phase": "model",
        "objectives": predicted,
        "p_feasible": float(models[0].fitted.feasibility.probability(row)[0]),
        "hyperparameters": hyperparameters,
        "fitted_at": [model.fitted_at for model in models],
    }
    if state.related:
        each = zip(models, hyperparameters, state.related, strict=True)
        tag["weights"] = {
            model.name: related.weights(own) for model, own, related in each if related
        }
    return tag
