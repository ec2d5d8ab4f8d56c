"""Bayesian optimization that knows related tasks: the same kernel on another device, for another size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
"""No slope is larger: the first values may differ by next to nothing."""


@dataclass(frozen=True, eq=False)
class _Sources:
    """The fitted models with the scales of their values, and the state of the later strategy."""

    models: tuple[Source, ...]
    scales: tuple[Scale, ...]
    inner: int


@final
@dataclass(frozen=True)
class TransferLearning:
    """Proposes what the related tasks promise most, and from two successes on what the ensemble of all models does.

    Attributes:
        then: Says how models are fitted and used; its surrogate is a Gaussian process.
        tasks: The related tasks.

    Raises:
        StrategyError: The surrogate is another.
    """

    then: Bayesian
    tasks: tuple[RelatedTask, ...]

    def __post_init__(self) -> None:
        self._surrogate()

    def init(self, problem: Problem, rng: Rng) -> _Sources:
        """Fit the sources, once."""
        inner = self.then.init(problem, rng)
        fitted = [self._fitted(problem, task, rng) for task in self.tasks]
        return _Sources(tuple(s for s, _ in fitted), tuple(s for _, s in fitted), inner)

    def ask(
        self, problem: Problem, history: History, state: _Sources, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return n points; the note on each says what the tasks weighed, where any did."""
        if history.where(Status.OK).sum() < NEEDED:
            return self._first(problem, history, state, n, rng)
        proposals = self._with(state, history).ask(problem, history, state.inner, n, rng)
        return [_weighed(proposal) for proposal in proposals]

    def tell(
        self, problem: Problem, state: _Sources, observation: Observation, rng: Rng
    ) -> _Sources:
        """There is nothing to remember: the history holds it all."""
        return state

    def predict(
        self, problem: Problem, history: History, state: _Sources, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return what the models expect.

        Raises:
            TrialError: Fewer than two trials have succeeded.
        """
        if history.where(Status.OK).sum() < NEEDED:
            raise TrialError(f"predict needs {NEEDED} successful trials; observe more first")
        return self._with(state, history).predict(problem, history, state.inner, codes, rng)

    def _fitted(self, problem: Problem, task: RelatedTask, rng: Rng) -> tuple[Source, Scale]:
        """Return a task's model and scale; a failure counts as it does in the target's model of the values."""
        ok = ~np.isnan(task.costs)
        scale = self.then.scale(task.costs[ok])
        costs, seen = task.costs, ok
        if self.then.failed_as is not None:
            told = np.quantile(task.costs[ok], self.then.failed_as, method="higher")
            costs, seen = np.where(ok, costs, told), np.ones_like(ok)
        y = scale.forward(costs[seen])
        data = Data(task.codes[seen], y, np.zeros_like(y), np.zeros_like(ok[seen]))
        model = self._surrogate().fit(self.then.view(problem.space), data, rng)
        return Source(task.name, model), scale

    def _with(self, state: _Sources, history: History) -> Bayesian:
        """Return the later strategy with the ensemble as its surrogate."""
        target = self.then.scale(history.costs[history.where(Status.OK)])
        sources = tuple(
            source.with_slope(_slope(scale, target))
            for source, scale in zip(state.models, state.scales, strict=True)
        )
        return replace(self.then, surrogate=RankingEnsemble(self._surrogate(), sources))

    def _surrogate(self) -> GaussianSurrogate:
        found = self.then.surrogate
        if not isinstance(found, GaussianSurrogate):
            raise StrategyError(
                f"a related task informs Gaussian processes, not a {type(found).__name__}; take strategy='auto', "
                "or WarmStart(..., mode='configs') for the task's best configurations"
            )
        return found

    def _first(
        self, problem: Problem, history: History, state: _Sources, n: int, rng: Rng
    ) -> list[Proposal]:
        space = problem.space

        def promised(codes: Codes) -> Array:
            """Minus the mean of the sources, each on its own scale."""
            means = [source.model.predict(codes)[0] for source in state.models]
            return np.asarray(-np.mean(means, axis=0))

        known = history.inside
        ran = ~history.where(Status.FAILED)[known]
        feasible = self.then.feasibility.fit(
            self.then.view(space), history.codes[known], ran, state.inner
        )
        score = weight_by_feasibility(
            promised, feasible, draw_minimum(rng, self.then.largest_minimum)
        )
        rows = self.then.search_of(space).maximise(
            score if known.any() else promised,
            space,
            n,
            rng,
            np.empty((0, space.width)),
            lambda codes: problem.is_excluded(history, codes),
        )
        return [Proposal(row, {"phase": "sources"}) for row in rows]


def _weighed(proposal: Proposal) -> Proposal:
    weights = proposal.tag.get("hyperparameters", {}).get("weights")
    return (
        proposal if weights is None else replace(proposal, tag={**proposal.tag, "weights": weights})
    )


def _slope(source: Scale, target: Scale) -> float:
    """Return one unit of the source's scale in units of the target's, if the tasks differ by a factor."""
    if not (isinstance(source, Transform) and isinstance(target, Transform)):
        return 1.0
    if source.kind == "linear" or (source.kind, source.sign) != (target.kind, target.sign):
        return 1.0
    return min(source.deviation / target.deviation, STEEPEST)
