"""The strategy `ehvi`: proposals by the expected gain of hypervolume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from baco_like import acquisitions, surrogates
from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions import AcquisitionOptimizer
from baco_like.acquisitions.hypervolume import ends_of, log_ehvi
from baco_like.acquisitions.optimizers.searches import ScoredSearch
from baco_like.acquisitions.protocol import IsExcluded, Score
from baco_like.records import (
    History,
    Objective,
    Proposal,
    Status,
    sign_of,
)
from baco_like.records.front import is_non_dominated, non_dominated_boxes
from baco_like.spaces import Space
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.fitting import NEEDED, last_hyperparameters
from baco_like.strategies.bayesian.incremental import weight_by_user_prior
from baco_like.strategies.bayesian.limits import objective_costs
from baco_like.strategies.bayesian.repeated_outcomes import fit_inert, log_new
from baco_like.strategies.bayesian.several_objectives import (
    SeveralObjectives,
    State,
    histories_of,
    strategies_of,
)
from baco_like.strategies.protocol import Problem, Proposals, RelatedTask
from baco_like.surrogates.forest import Growth
from baco_like.surrogates.ranking_ensemble import EnsembleModel, RankingEnsemble
from baco_like.surrogates.transform import quantile_of

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
        minimum = acquisitions.draw_minimum(rng, self.then.largest_minimum)
        search = _shorten(self.then.search_of(problem.space))
        is_exhaustive = isinstance(search, acquisitions.ExhaustiveSearch)  # needs no starts
        start = history.codes[:0] if is_exhaustive else _starts(history)
        pending, proposals = history.pending_codes, list[Proposal]()
        ok = history.where(Status.OK)
        observed = history.codes[ok]
        inert = fit_inert(problem.space, observed, objective_costs(history)[0][ok])
        for remaining in reversed(range(n)):
            score = self._score(problem, history, state, models, pending)
            score = acquisitions.weight_by_feasibility(score, models[0].fitted.feasibility, minimum)
            excluded = partial(problem.is_excluded, history)
            count = 1 if inert is None else _COMPARED
            rows, scores = _find_best(search, score, problem.space, count, rng, start, excluded)
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
        then = self.then.for_problem(problem) if problem.limits else self.then
        feasibility = then.fit_feasibility(problem.space, history, state.seed)
        parts = histories_of(history)
        each = strategies_of(self.then, state, parts)
        count, fitted_at = len(history), _fit_counts(history, len(objectives))
        is_due = _choose_fitted(count, fitted_at)
        models = list[_Objective]()
        takes_forest = state.related is None and _has_repeated(history)
        for j, (one, part) in enumerate(zip(each, parts, strict=True)):
            name, sign = objectives[j].name, sign_of(objectives[j].direction)
            if takes_forest:
                one = replace(one, surrogate=_FOREST)
                fitted = one.fit(problem.space, part, state.seed, rng, feasibility)
                last = last_hyperparameters(part) or {}
                # This step does not count, or the hyperparameters of all objectives would be due in the next one.
                models.append(_Objective(name, sign, fitted, fitted_at[j] + 1, last))
                continue
            one = one if is_due[j] else _holding(one)
            fitted = one.fit(problem.space, part, state.seed, rng, feasibility)
            at, found = count if is_due[j] else fitted_at[j], fitted.model.hyperparameters
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
        believed = [_condition(model.fitted.model, pending) for model in models]

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


def _holding(then: Bayesian) -> Bayesian:
    """Return the strategy that keeps the hyperparameters of the last fit, if its surrogate can."""
    surrogate = then.surrogate
    if isinstance(surrogate, RankingEnsemble):
        target = surrogate.target
        if isinstance(target, surrogates.GaussianProcess):
            return replace(then, surrogate=replace(surrogate, target=target.holding))
    if isinstance(surrogate, surrogates.GaussianProcess):
        return replace(then, surrogate=surrogate.holding)
    return then


def _condition(model: surrogates.Model, pending: Codes) -> surrogates.Model:
    if len(pending) and isinstance(model, surrogates.UpdatableModel):
        return acquisitions.condition_on_pending(model, pending)
    return model


def _starts(history: History) -> Codes:
    """Return trials of the front, evenly spaced by the first objective, ``(k, w)``."""
    rows = [trial.code for trial in history.front() if trial.code is not None]
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(_STARTS, len(rows))).round().astype(int))
    return np.array([rows[i] for i in chosen])


def _find_best(
    search: AcquisitionOptimizer,
    score: Score,
    space: Space,
    n: int,
    rng: Rng,
    start: Codes,
    is_excluded: IsExcluded,
) -> tuple[Codes, Array]:
    """Return the n best rows and their scores; see `AcquisitionOptimizer.maximise`."""
    if isinstance(search, ScoredSearch):  # saves scoring the rows again
        return search.find_best(score, space, n, rng, start, is_excluded)
    rows = search.maximise(score, space, n, rng, start, is_excluded)
    return rows, score(rows)


def _shorten(search: AcquisitionOptimizer) -> AcquisitionOptimizer:
    """Return a shorter local search.

    It scores two thirds of the random draws, and climbs from half as many of them, because the front adds more starts
    than the best of one objective do. It ends after a step that raises the expected gain by less than 1 %: of 4.6
    steps, 3.1 came after the last larger gain. Fewer draws and the earlier end save a sixth of the time of a run of 120
    evaluations, without a loss of volume (eight problems, 20 seeds, mean difference 0.001). With half of the draws,
    three of the problems may lose volume.
    """
    if not isinstance(search, acquisitions.LocalSearch):
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
    if state.related is not None:
        each = zip(models, hyperparameters, state.related.by_objective, strict=True)
        tag["weights"] = {
            model.name: related.weights(own) for model, own, related in each if related
        }
    return tag
