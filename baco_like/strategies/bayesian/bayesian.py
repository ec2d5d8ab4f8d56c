"""Bayesian optimization as in BaCO (Hellsten et al., ASPLOS 2023, sections 3 and 4).

The parts are a surrogate of the transformed values, expected improvement of a noise-free evaluation, a model of
feasibility with a randomly drawn minimum probability, and an optimizer of the acquisition function. Each part is a
field and can be replaced. The results of related tasks, such as the same kernel on another device or for another
size, take part in an ensemble of models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from baco_like import surrogates
from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.functions import draw_minimum
from baco_like.exceptions import StrategyError
from baco_like.records import History, Proposal, Status
from baco_like.strategies.bayesian.fitting import (
    NEEDED,
    Recipe,
    check_successes,
    incumbents,
    tag_of,
    within_region,
)
from baco_like.strategies.bayesian.incremental import (
    FEW_PENDING,
    Incremental,
    is_incremental,
    propose,
)
from baco_like.strategies.observed_costs import failure_cost
from baco_like.strategies.protocol import (
    HistoryStrategy,
    Prediction,
    Problem,
    Proposals,
    RelatedTask,
)
from baco_like.surrogates.ranking_ensemble import OWN_WEIGHT, RankingEnsemble, Source
from baco_like.surrogates.transform import Scale, Transform

_STEEPEST = 100.0
"""Largest slope; the first values may be almost equal."""


class BayesianState(NamedTuple):
    """The state of `Bayesian`.

    Attributes:
        seed: Seed of the feasibility model.
        sources: The model fitted to each related task, and the scale of its values.
    """

    seed: int
    sources: tuple[tuple[Source, Scale], ...] = ()

    def predict(self, codes: Codes) -> Array:
        """Return the mean prediction of the related tasks, each on its own scale, ``(n, w)`` -> ``(n,)``."""
        means = [source.model.predict(codes)[0] for source, _ in self.sources]
        return np.asarray(np.mean(means, axis=0))

    def weights(self, hyperparameters: Mapping[str, Any]) -> dict[str, float]:
        """Return the weights of the tasks, which are among the hyperparameters of the ensemble if any is above 0."""
        weights = hyperparameters.get("weights", {OWN_WEIGHT: 1.0})
        return {**dict.fromkeys([source.name for source, _ in self.sources], 0.0), **weights}


@final
@dataclass(frozen=True)
class Bayesian(Recipe, HistoryStrategy):
    """Bayesian optimization as in BaCO: proposes where the feasibility-weighted acquisition function is highest.

    It has no initial design: until two trials have succeeded, it proposes uniform draws. `Phased` adds a design. The
    strategy with the name "bayesian" makes ten uniform draws, then uses this class. Use it if an evaluation takes tens
    of milliseconds or more. Source: Hellsten et al., ASPLOS 2023, sections 3 and 4.

    With the results of related tasks (``WarmStart(..., mode="prior")``) the surrogate is an ensemble of the models of
    the task and of the related ones. Before the second success it proposes what the related tasks predict to be best.

    Attributes:
        surrogate: Models the transformed values; also by name: "gp", "gpytorch", "forest", "effects".
        acquisition: Scores candidates by the fitted surrogate.
        feasibility: Models the probability that a configuration runs.
        scan: Acquisition optimizer for at most ``scan_limit`` feasible configurations.
        search: Acquisition optimizer for larger sets of other parameters.
        scan_limit: Largest number of configurations that are all scored.
        largest_minimum: Largest minimum probability of feasibility; the minimum is drawn from 0 to it. BaCO's program
            has 0.1, but once the feasible region is well known, improbable configurations then win by their
            uncertainty alone.
        scale: Fits the scale on which values are modelled.
        belief: Weight of the parameters' priors at one observation (piBO's beta, 10 in BaCO); it falls with the number
            of observations.
        mixed: Acquisition optimizer for spaces with reals or wide integers.
        view: Selects the features for the models: `plain` or `with_quantities`.
        failed_as: Quantile of the successful costs, from 0 to 1, that is imputed for a failure, so that the surrogate
            predicts high costs near it before the feasibility model is certain. None imputes nothing, as in BaCO.
        limits: Limits on metrics that are modelled, each by a Gaussian process of its margin; None: those of the
            problem.
        holds: Whether a Gaussian process in closed form keeps its hyperparameters for several observations while many
            trials are pending, and with many observations; otherwise it is fitted for each proposal.

    Raises:
        ValueError: ``failed_as`` is not a quantile, or no surrogate has this name.
    """

    uses_related_tasks: ClassVar[bool] = True

    def init(self, problem: Problem, rng: Rng) -> BayesianState:
        """Return the seed of the feasibility model, and a model of each related task.

        Raises:
            StrategyError: There are related tasks, and the surrogate is not a Gaussian process.
        """
        seed = int(rng.integers(2**31))
        return BayesianState(
            seed, tuple(self._fit_task(problem, task, rng) for task in problem.related)
        )

    def ask(
        self, problem: Problem, history: History, state: BayesianState, n: int, rng: Rng
    ) -> Proposals:
        """Return n proposals, each chosen as if the ones before it had the costs that the model predicts.

        Before the second success they are the best ones by the related tasks, or without such tasks the uniform draws
        that are most likely to run. With related tasks, the tags of those that a model has made hold their weights.
        """
        if history.where(Status.OK).sum() < NEEDED:
            if state.sources:
                return self._propose_by_tasks(problem, history, state, n, rng)
            return self.explore(problem, history, state.seed, n, rng)
        then = self._informed(problem, history, state)
        proposals = then._propose(problem, history, state.seed, n, rng)
        if not state.sources:
            return proposals
        return [replace(p, tag=_with_weights(p.tag, state)) for p in proposals]

    def _informed(self, problem: Problem, history: History, state: BayesianState) -> Bayesian:
        """Return the strategy that models the limits, with the related tasks in its surrogate."""
        then = self.with_ensemble(state, history) if state.sources else self
        return then.for_problem(problem)

    def _propose(
        self, problem: Problem, history: History, seed: int, n: int, rng: Rng
    ) -> list[Proposal]:
        """Return n proposals of the model."""
        pending = history.pending_codes
        if is_incremental(self, history, len(pending), n):
            models = Incremental.of(self, problem, history, seed, len(pending))
            if n > 1 or len(pending) > FEW_PENDING or models.is_listed:
                return propose(models, n, rng)
            fitted = models.fit()
        else:
            fitted = self.fit(problem.space, history, seed, rng)
        minimum = draw_minimum(rng, self.largest_minimum)
        search, start = self.search_of(problem.space), incumbents(history)
        goal = fitted
        if problem.region is not None:
            goal, start = within_region(problem.region, fitted, history, start)
        proposals: list[Proposal] = []
        for remaining in reversed(range(n)):
            model, incumbent = self.condition_on_pending(problem.space, goal, pending, rng)
            believed = goal._replace(incumbent=incumbent)
            score = self.score(problem, history, believed, model, minimum, rng)
            excluded = partial(problem.is_excluded, history)
            rows, _ = search.maximise(score, problem.space, 1, rng, start, excluded)
            if not len(rows):
                break
            proposals.append(Proposal(rows[0], tag_of(fitted, rows, history.direction)))
            if remaining:
                pending, history = np.concatenate([pending, rows]), history.assume_pending(rows)
        return proposals

    def predict(
        self, problem: Problem, history: History, state: BayesianState, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the models' predictions for configurations, ``(n, w)``.

        Raises:
            TrialError: Fewer than two trials have succeeded.
        """
        check_successes(history)
        then = self._informed(problem, history, state)
        if is_incremental(then, history, 0, 1):
            fitted = Incremental.of(then, problem, history, state.seed, 0).fit()
        else:
            fitted = then.fit(problem.space, history, state.seed, rng)
        centre, spread = fitted.model.predict(codes)
        mean, variance = fitted.transform.moments(centre, spread)
        feasible = fitted.feasibility.probability(codes)
        return Prediction(mean, np.sqrt(variance), feasible, fitted.transform.backward(centre))

    # Related tasks --------------------------------------------------------------------------------------------------

    def _fit_task(self, problem: Problem, task: RelatedTask, rng: Rng) -> tuple[Source, Scale]:
        """Return a task's model and scale; failures are imputed in the same way as for the target."""
        ok = ~np.isnan(task.costs)
        scale = self.scale(task.costs[ok])
        costs, seen = task.costs, ok
        if self.failed_as is not None:
            imputed = failure_cost(task.costs[ok], self.failed_as)
            costs, seen = np.where(ok, costs, imputed), np.ones_like(ok)
        y = scale.forward(costs[seen])
        data = surrogates.Data(task.codes[seen], y, np.zeros_like(y), np.zeros_like(ok[seen]))
        model = require_gaussian(self.surrogate).fit(self.view(problem.space), data, rng)
        return Source(task.name, model), scale

    def with_ensemble(self, state: BayesianState, history: History) -> Bayesian:
        """Return the strategy with the ensemble of its model and those of the related tasks as its surrogate."""
        target = self.scale(history.costs[history.where(Status.OK)])
        sources = tuple(
            replace(model, slope=_slope(scale, target)) for model, scale in state.sources
        )
        return replace(self, surrogate=RankingEnsemble(require_gaussian(self.surrogate), sources))

    def _propose_by_tasks(
        self, problem: Problem, history: History, state: BayesianState, n: int, rng: Rng
    ) -> list[Proposal]:
        rows = self.best_by_score(
            problem, history, state.seed, n, rng, lambda codes: -state.predict(codes)
        )
        return [Proposal(row, {"phase": "sources"}) for row in rows]


def require_gaussian(surrogate: surrogates.Surrogate | str) -> surrogates.GaussianSurrogate:
    """Return the surrogate if related tasks can inform it.

    Raises:
        StrategyError: It is not a Gaussian process.
    """
    if not isinstance(surrogate, surrogates.GaussianSurrogate):
        raise StrategyError(
            f"a related task informs Gaussian processes, not a {type(surrogate).__name__}; take surrogate='gp', "
            "the default of strategy='auto', or WarmStart(..., mode='configs') for the task's best configurations"
        )
    return surrogate


def _with_weights(tag: Mapping[str, Any], state: BayesianState) -> Mapping[str, Any]:
    """Return the tag of a proposal with the weights of the tasks, if a model has made it."""
    if "hyperparameters" not in tag:
        return tag
    return {**tag, "weights": state.weights(tag["hyperparameters"])}


def _slope(source: Scale, target: Scale) -> float:
    """Return one unit of the source's scale in units of the target's, if the tasks differ by a factor."""
    if not (isinstance(source, Transform) and isinstance(target, Transform)):
        return 1.0
    if source.kind == "linear" or (source.kind, source.sign) != (target.kind, target.sign):
        return 1.0
    return min(source.deviation / target.deviation, _STEEPEST)
