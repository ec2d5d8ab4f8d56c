"""Bayesian optimization with the results of related tasks: the same kernel on another device or for another size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.weights import draw_minimum, weight_by_feasibility
from baco_like.exceptions import StrategyError, TrialError
from baco_like.records.history import History
from baco_like.records.trial import Observation, Proposal, Status
from baco_like.strategies.bayesian.bayesian import NEEDED, Bayesian
from baco_like.strategies.protocol import Prediction, Problem, RelatedTask
from baco_like.surrogates.protocol import Data, GaussianSurrogate
from baco_like.surrogates.ranking_ensemble import RankingEnsemble, Source
from baco_like.surrogates.transform import Scale, Transform

STEEPEST = 100.0
"""Largest slope; the first values may be almost equal."""


@dataclass(frozen=True, eq=False)
class _Sources:
    """The state.

    Attributes:
        models: The model fitted to each task.
        scales: The scale of each task's values.
        inner: State of the wrapped strategy.
    """

    models: tuple[Source, ...]
    scales: tuple[Scale, ...]
    inner: int


@final
@dataclass(frozen=True)
class TransferLearning:
    """Bayesian optimization with an ensemble of the models of the task and of related tasks.

    Use it through ``WarmStart(..., mode="prior")``. Before the second success it proposes what the related tasks
    predict to be best.

    Attributes:
        then: The strategy that fits and uses the models; its surrogate must be a Gaussian process.
        tasks: The related tasks.

    Raises:
        StrategyError: The surrogate is not a Gaussian process.
    """

    then: Bayesian
    tasks: tuple[RelatedTask, ...]

    def __post_init__(self) -> None:
        self._surrogate()

    def init(self, problem: Problem, rng: Rng) -> _Sources:
        """Return the state with a model fitted to each task."""
        inner = self.then.init(problem, rng)
        fitted = [self._fit_task(problem, task, rng) for task in self.tasks]
        return _Sources(tuple(s for s, _ in fitted), tuple(s for _, s in fitted), inner)

    def ask(
        self, problem: Problem, history: History, state: _Sources, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return n proposals; their tags hold the weights of the tasks if any weight is above 0."""
        if history.where(Status.OK).sum() < NEEDED:
            return self._propose_by_tasks(problem, history, state, n, rng)
        proposals = self._with_ensemble(state, history).ask(problem, history, state.inner, n, rng)
        return [_tag_weights(proposal) for proposal in proposals]

    def tell(
        self, problem: Problem, state: _Sources, observation: Observation, rng: Rng
    ) -> _Sources:
        """Return the state unchanged: the models are fitted to the history."""
        return state

    def predict(
        self, problem: Problem, history: History, state: _Sources, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the models' predictions for configurations, ``(n, w)``.

        Raises:
            TrialError: Fewer than two trials have succeeded.
        """
        if history.where(Status.OK).sum() < NEEDED:
            raise TrialError(f"predict needs {NEEDED} successful trials; observe more first")
        return self._with_ensemble(state, history).predict(
            problem, history, state.inner, codes, rng
        )

    def _fit_task(self, problem: Problem, task: RelatedTask, rng: Rng) -> tuple[Source, Scale]:
        """Return a task's model and scale; failures are imputed in the same way as for the target."""
        ok = ~np.isnan(task.costs)
        scale = self.then.scale(task.costs[ok])
        costs, seen = task.costs, ok
        if self.then.failed_as is not None:
            imputed = np.quantile(task.costs[ok], self.then.failed_as, method="higher")
            costs, seen = np.where(ok, costs, imputed), np.ones_like(ok)
        y = scale.forward(costs[seen])
        data = Data(task.codes[seen], y, np.zeros_like(y), np.zeros_like(ok[seen]))
        model = self._surrogate().fit(self.then.view(problem.space), data, rng)
        return Source(task.name, model), scale

    def _with_ensemble(self, state: _Sources, history: History) -> Bayesian:
        """Return the wrapped strategy with the ensemble as its surrogate."""
        target = self.then.scale(history.costs[history.where(Status.OK)])
        sources = tuple(
            source.with_slope(_slope(scale, target))
            for source, scale in zip(state.models, state.scales, strict=True)
        )
        return replace(self.then, surrogate=RankingEnsemble(self._surrogate(), sources))

    def _surrogate(self) -> GaussianSurrogate:
        surrogate = self.then.surrogate
        if not isinstance(surrogate, GaussianSurrogate):
            raise StrategyError(
                f"a related task informs Gaussian processes, not a {type(surrogate).__name__}; take strategy='auto', "
                "or WarmStart(..., mode='configs') for the task's best configurations"
            )
        return surrogate

    def _propose_by_tasks(
        self, problem: Problem, history: History, state: _Sources, n: int, rng: Rng
    ) -> list[Proposal]:
        space = problem.space

        def score_by_tasks(codes: Codes) -> Array:
            """Return minus the mean prediction of the tasks, each on its own scale."""
            means = [source.model.predict(codes)[0] for source in state.models]
            return np.asarray(-np.mean(means, axis=0))

        known = history.inside
        ran = ~history.where(Status.FAILED)[known]
        feasible = self.then.feasibility.fit(
            self.then.view(space), history.codes[known], ran, state.inner
        )
        score = weight_by_feasibility(
            score_by_tasks, feasible, draw_minimum(rng, self.then.largest_minimum)
        )
        rows = self.then.search_of(space).maximise(
            score if known.any() else score_by_tasks,
            space,
            n,
            rng,
            np.empty((0, space.width)),
            partial(problem.is_excluded, history),
        )
        return [Proposal(row, {"phase": "sources"}) for row in rows]


def _tag_weights(proposal: Proposal) -> Proposal:
    """Copy the weights of the tasks from the hyperparameters to the top of the tag."""
    weights = proposal.tag.get("hyperparameters", {}).get("weights")
    if weights is None:
        return proposal
    return replace(proposal, tag={**proposal.tag, "weights": weights})


def _slope(source: Scale, target: Scale) -> float:
    """Return one unit of the source's scale in units of the target's, if the tasks differ by a factor."""
    if not (isinstance(source, Transform) and isinstance(target, Transform)):
        return 1.0
    if source.kind == "linear" or (source.kind, source.sign) != (target.kind, target.sign):
        return 1.0
    return min(source.deviation / target.deviation, STEEPEST)
