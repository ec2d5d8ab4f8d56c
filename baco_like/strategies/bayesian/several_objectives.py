"""Bayesian optimization of several objectives: the common part, and ParEGO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from baco_like import surrogates
from baco_like._typing import Array, Codes, Rng
from baco_like.records import (
    History,
    Observation,
    Proposal,
    Status,
    Trial,
)
from baco_like.strategies.bayesian.bayesian import (
    Bayesian,
    BayesianState,
    require_gaussian,
)
from baco_like.strategies.bayesian.fitting import NEEDED, check_successes
from baco_like.strategies.bayesian.limits import objective_costs
from baco_like.strategies.protocol import Prediction, Problem, Proposals, RelatedTask
from baco_like.surrogates.transform import fit_asinh

RHO = 0.05
"""Weight of the sum beside the maximum in the augmented Chebyshev function (Knowles 2006, Eq. 2)."""


class _RelatedModels(NamedTuple):
    """The results of related tasks as models of each objective.

    Attributes:
        by_objective: For each objective the models of the tasks that have it; None if no task has it.
    """

    by_objective: tuple[BayesianState | None, ...]

    @classmethod
    def fit(cls, then: Bayesian, problem: Problem, rng: Rng) -> _RelatedModels | None:
        """Return models of the tasks; None if no objective has enough different values for one."""
        then = replace(then, scale=fit_asinh)
        by_objective: list[BayesianState | None] = []
        for j in range(max(1, len(problem.objectives))):
            own = replace(problem, related=_related_to(problem, j))
            by_objective.append(then.init(own, rng) if own.related else None)
        return cls(tuple(by_objective)) if any(by_objective) else None

    def with_ensembles(self, then: Bayesian, parts: Sequence[History]) -> list[Bayesian]:
        """Return a strategy for each objective, with an ensemble as surrogate if a task has the objective."""
        return [
            then if state is None else then.with_ensemble(state, part)
            for state, part in zip(self.by_objective, parts, strict=True)
        ]

    def propose(
        self, then: Bayesian, problem: Problem, history: History, seed: int, n: int, rng: Rng
    ) -> list[Proposal]:
        """Return n proposals that the tasks predict to be best, each for its own weights of the objectives."""
        known = [(j, state) for j, state in enumerate(self.by_objective) if state is not None]
        states = [state for _, state in known]
        lowest = [
            min(state.predict(task.codes).min() for task in _related_to(problem, j))
            for j, state in known
        ]
        proposals: list[Proposal] = []
        for _ in range(n):
            weights = rng.dirichlet(np.ones(len(states)))

            def score(codes: Codes, weights: Array = weights) -> Array:
                predicted = np.column_stack([state.predict(codes) for state in states])
                return -_chebyshev(weights * (predicted - lowest), RHO)

            rows = then.best_by_score(problem, history, seed, 1, rng, score)
            if not len(rows):
                break
            proposals.append(Proposal(rows[0], {"phase": "sources"}))
            history = history.assume_pending(rows)
        return proposals


def _related_to(problem: Problem, objective: int) -> tuple[RelatedTask, ...]:
    """Return the results of the related tasks that have enough values of an objective for a model."""
    of_objective = [task.of_objective(objective) for task in problem.related]
    return tuple(task for task in of_objective if task is not None)


class State(NamedTuple):
    """The state.

    Attributes:
        seed: Seed of the feasibility model.
        related: The models of related tasks, if there are any.
    """

    seed: int
    related: _RelatedModels | None = None


@dataclass(frozen=True)
class SeveralObjectives:
    """The common part of the strategies for several objectives.

    Before the second success the models of related tasks choose the proposals, if there are any.

    Attributes:
        then: Gives surrogate, feasibility model, features and acquisition optimizer.
    """

    draws_in_tell: ClassVar[bool] = False
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
        return State(seed, _RelatedModels.fit(self.then, problem, rng))

    def tell(self, problem: Problem, state: State, observation: Observation, rng: Rng) -> State:
        """Return the state unchanged: the models are fitted to the history."""
        return state

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
        """Return n proposals before the second success: by the related tasks, or uniform draws."""
        if state.related is not None:
            return state.related.propose(self.then, problem, history, state.seed, n, rng)
        return self.then.explore(problem, history, state.seed, n, rng)


def strategies_of(then: Bayesian, state: State, parts: Sequence[History]) -> list[Bayesian]:
    """Return the strategy that fits the model of each objective."""
    then = replace(then, scale=fit_asinh)
    if state.related is None:
        return [then] * len(parts)
    return state.related.with_ensembles(then, parts)


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
        usable = () if state.related is None else problem.related
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
