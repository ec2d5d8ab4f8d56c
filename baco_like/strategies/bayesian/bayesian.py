"""Bayesian optimization as in BaCO (Hellsten et al., ASPLOS 2023, sections 3 and 4).

The parts are a surrogate of the transformed values, expected improvement of a noise-free evaluation, a model of
feasibility with a randomly drawn minimum probability, and an optimizer of the acquisition function. Each part is a
field and can be replaced. The results of related tasks, such as the same kernel on another device or for another
size, take part in an ensemble of models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from baco_like import acquisitions, surrogates
from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.acquisitions import AcquisitionFunction, AcquisitionOptimizer
from baco_like.acquisitions.checked import bind_acquisition
from baco_like.acquisitions.optimizers.gradient import is_climbed
from baco_like.acquisitions.protocol import Score
from baco_like.exceptions import StrategyError
from baco_like.records import History, Observation, Proposal, RunLimits, Status
from baco_like.spaces import Space
from baco_like.spaces.design import uniform
from baco_like.strategies.bayesian.fitting import (
    NEEDED,
    Fitted,
    check_successes,
    count_as_failed,
    last_hyperparameters,
    model_values,
    tag_of,
)
from baco_like.strategies.bayesian.incremental import (
    FEW_PENDING,
    INCUMBENTS,
    Incremental,
    incumbents,
    is_incremental,
    propose,
    weight_by_user_prior,
)
from baco_like.strategies.bayesian.known_programs import prefer_new_programs
from baco_like.strategies.bayesian.limits import FeasibilityWithLimits, fit_margins, margins_of
from baco_like.strategies.protocol import Prediction, Problem, Proposals, RelatedTask
from baco_like.surrogates import FeasibilityModel, FeasibilitySurrogate
from baco_like.surrogates.checked import fit_feasibility, fit_surrogate
from baco_like.surrogates.forest import ForestFeasibilityModel
from baco_like.surrogates.gp.growing import EVERY_COUNT, last_refit
from baco_like.surrogates.ranking_ensemble import OWN_WEIGHT, RankingEnsemble, Source
from baco_like.surrogates.registry import create_surrogate
from baco_like.surrogates.transform import FitScale, Scale, Transform

_OUTSIDE = 1e6
"""Subtracted from the scores, which are logarithms, outside the region that may be proposed."""

_STEEPEST = 100.0
"""Largest slope; the first values may be almost equal."""


def plain(space: Space) -> surrogates.Featured:
    """Return the space: models see the parameters' own features."""
    return space


def with_quantities(space: Space) -> surrogates.Featured:
    """Return the space with the additional features of `baco_like.spaces.derived_features`."""
    return space.derived_features


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
class Bayesian:
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

    Raises:
        ValueError: ``failed_as`` is not a quantile, or no surrogate has this name.
    """

    draws_in_tell: ClassVar[bool] = False
    uses_related_tasks: ClassVar[bool] = True

    surrogate: surrogates.Surrogate | str = field(default_factory=surrogates.GaussianProcess)
    acquisition: AcquisitionFunction = field(default_factory=acquisitions.ExpectedImprovement)
    feasibility: FeasibilitySurrogate = field(default_factory=surrogates.ForestFeasibility)
    scan: AcquisitionOptimizer = field(default_factory=acquisitions.ExhaustiveSearch)
    search: AcquisitionOptimizer = field(default_factory=acquisitions.LocalSearch)
    scan_limit: int = 20_000
    largest_minimum: float = 0.5
    scale: FitScale = surrogates.fit_transform
    belief: float = 10.0
    mixed: AcquisitionOptimizer = field(default_factory=acquisitions.AlternatingSearch)
    view: Callable[[Space], surrogates.Featured] = plain
    failed_as: float | None = None
    limits: RunLimits | None = None

    def __post_init__(self) -> None:
        if isinstance(self.surrogate, str):
            named = create_surrogate(self.surrogate, surrogates.GaussianProcess())
            object.__setattr__(self, "surrogate", named)
        if self.failed_as is not None and not 0.0 <= self.failed_as <= 1.0:
            raise ValueError(
                f"failed_as must be a quantile from 0 to 1 or None, not {self.failed_as}"
            )

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
        seed, enough = state.seed, history.where(Status.OK).sum() >= NEEDED
        if state.sources and not enough:
            return self._propose_by_tasks(problem, history, state, n, rng)
        if state.sources:
            then, alone = self.with_ensemble(state, history), BayesianState(seed)
            proposals = then.ask(problem, history, alone, n, rng)
            return [replace(p, tag=_with_weights(p.tag, state)) for p in proposals]
        if problem.limits and not self.limits:
            return self.for_problem(problem).ask(problem, history, state, n, rng)
        return (self._propose if enough else self.explore)(problem, history, seed, n, rng)

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
        minimum = acquisitions.draw_minimum(rng, self.largest_minimum)
        search, start = self.search_of(problem.space), incumbents(history)
        goal = fitted
        if problem.region is not None:
            goal, start = _within(problem.region, fitted, history, start)
        proposals: list[Proposal] = []
        for remaining in reversed(range(n)):
            model, incumbent = self._condition_on_pending(problem.space, goal, pending, rng)
            believed = goal._replace(incumbent=incumbent)
            score = self.score(problem, history, believed, model, minimum, rng)
            excluded = partial(problem.is_excluded, history)
            rows = search.maximise(score, problem.space, 1, rng, start, excluded)
            if not len(rows):
                break
            proposals.append(Proposal(rows[0], tag_of(fitted, rows, history.direction)))
            if remaining:
                pending, history = np.concatenate([pending, rows]), history.assume_pending(rows)
        return proposals

    def score(
        self,
        problem: Problem,
        history: History,
        fitted: Fitted,
        model: surrogates.Model,
        minimum: float,
        rng: Rng,
    ) -> Score:
        """Return the acquisition function with its weights.

        Args:
            problem: The problem.
            history: The history.
            fitted: The models, with the incumbent.
            model: The surrogate, possibly conditioned on pending trials.
            minimum: Least accepted probability of feasibility.
            rng: Random generator.
        """
        score = bind_acquisition(self.acquisition, model, fitted.incumbent, rng)
        score = weight_by_user_prior(score, problem.space, len(history), self.belief)
        weighted = acquisitions.weight_by_feasibility(score, fitted.feasibility, minimum)
        weighted = prefer_new_programs(weighted, history)
        return weighted if problem.region is None else _prefer(problem.region, weighted)

    def tell(
        self, problem: Problem, state: BayesianState, observation: Observation, rng: Rng
    ) -> BayesianState:
        """Return the state unchanged: the models are fitted to the history."""
        return state

    def predict(
        self, problem: Problem, history: History, state: BayesianState, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the models' predictions for configurations, ``(n, w)``.

        Raises:
            TrialError: Fewer than two trials have succeeded.
        """
        check_successes(history)
        if state.sources:
            then, alone = self.with_ensemble(state, history), BayesianState(state.seed)
            return then.predict(problem, history, alone, codes, rng)
        if problem.limits and not self.limits:
            return self.for_problem(problem).predict(problem, history, state, codes, rng)
        if is_incremental(self, history, 0, 1):
            fitted = Incremental.of(self, problem, history, state.seed, 0).fit()
        else:
            fitted = self.fit(problem.space, history, state.seed, rng)
        centre, spread = fitted.model.predict(codes)
        mean, variance = fitted.transform.moments(centre, spread)
        feasible = fitted.feasibility.probability(codes)
        return Prediction(mean, np.sqrt(variance), feasible, fitted.transform.backward(centre))

    def for_problem(self, problem: Problem) -> Bayesian:
        """Return the strategy that models the limits of a problem."""
        return replace(self, limits=problem.limits) if self.limits is None else self

    # Related tasks --------------------------------------------------------------------------------------------------

    def _fit_task(self, problem: Problem, task: RelatedTask, rng: Rng) -> tuple[Source, Scale]:
        """Return a task's model and scale; failures are imputed in the same way as for the target."""
        ok = ~np.isnan(task.costs)
        scale = self.scale(task.costs[ok])
        costs, seen = task.costs, ok
        if self.failed_as is not None:
            imputed = np.quantile(task.costs[ok], self.failed_as, method="higher")
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

    # The models -----------------------------------------------------------------------------------------------------

    def search_of(self, space: Space) -> AcquisitionOptimizer:
        """Return the acquisition optimizer for a space."""
        count = space.feasible.count
        if count is not None and count <= self.scan_limit:
            return self.scan
        is_mixed = any(is_climbed(space.parameters[name]) for name in space.active)
        return self.mixed if is_mixed else self.search

    def fit(
        self,
        space: Space,
        history: History,
        seed: int,
        rng: Rng,
        feasibility: FeasibilityModel | None = None,
    ) -> Fitted:
        """Return the models, fitted to the costs of a history with at least two successes.

        Args:
            space: The space.
            history: The history.
            seed: Seed of the model of feasibility.
            rng: Random generator.
            feasibility: The fitted model of feasibility; None fits it.
        """
        values = model_values(history, self.scale, self.failed_as)
        codes = history.codes[values.rows]
        data = surrogates.Data(codes, values.y, values.variance, values.censored)
        model = self._fit_surrogate(space, data, rng, last_hyperparameters(history))
        if feasibility is None:
            feasibility = self.fit_feasibility(space, history, seed)
        return Fitted(
            data, model, values.transform, feasibility, values.incumbent, len(values.rows)
        )

    def _condition_on_pending(
        self, space: Space, fitted: Fitted, pending: Codes, rng: Rng
    ) -> tuple[surrogates.Model, float]:
        """Return model and incumbent as if the pending configurations had the costs that the model predicts.

        The incumbent changes too; otherwise the neighbours of a pending configuration would seem to offer the same
        improvement again.
        """
        model, data = fitted.model, fitted.data
        if not len(pending):
            return model, fitted.incumbent
        expected, _ = model.predict(pending)
        incumbent = min(fitted.incumbent, float(expected.min()))
        if isinstance(model, surrogates.UpdatableModel):
            return acquisitions.condition_on_pending(model, pending), incumbent
        more = len(pending)
        imputed = surrogates.Data(
            np.concatenate([data.codes, pending]),
            np.concatenate([data.y, expected]),
            np.concatenate([data.variance, np.zeros(more)]),
            np.concatenate([data.censored, np.zeros(more, bool)]),
        )
        return self._fit_surrogate(space, imputed, rng, model.hyperparameters), incumbent

    def _fit_surrogate(
        self, space: Space, data: surrogates.Data, rng: Rng, start: Mapping[str, Any] | None
    ) -> surrogates.Model:
        assert not isinstance(self.surrogate, str)  # `__post_init__` has replaced a name
        return fit_surrogate(self.surrogate, self.view(space), data, rng, start)

    def fit_feasibility(self, space: Space, history: History, seed: int) -> FeasibilityModel:
        """Return the model of feasibility, fitted to the observations inside the space.

        Beyond `EVERY_COUNT` observations a forest is grown at the refits of the surrogate; new observations are counted
        in its leaves. With limits, it is the product of the probabilities of running and of being within each limit.
        """
        running = self._fit_running(space, history, seed)
        if self.limits is None or not len(history):
            return running
        margins = fit_margins(self.limits, history, space, self.view, seed)
        return FeasibilityWithLimits(running, margins) if margins else running

    def _fit_running(self, space: Space, history: History, seed: int) -> FeasibilityModel:
        count = len(history)
        if isinstance(self.feasibility, surrogates.ForestFeasibility) and count > EVERY_COUNT:
            anchor = history.first(last_refit(count))
            grown = anchor.derive(
                ("feasibility", self), seed, lambda: self._grow_feasibility(space, anchor, seed)
            )
            if isinstance(grown, ForestFeasibilityModel):
                new = np.flatnonzero(history.inside[len(anchor) :]) + len(anchor)
                return grown.add_rows(history.codes[new], self._ran(history)[new])
        return self._grow_feasibility(space, history, seed)

    def _grow_feasibility(self, space: Space, history: History, seed: int) -> FeasibilityModel:
        known = history.inside
        ran = self._ran(history)[known]
        view = self.view(space)
        return fit_feasibility(self.feasibility, view, history.codes[known], ran, seed)

    def _ran(self, history: History) -> Mask:
        """Return which trials ran; those that only broke a modelled limit did."""
        ran = ~count_as_failed(history)
        return ran if self.limits is None else ran | margins_of(self.limits, history).is_explained

    def explore(
        self, problem: Problem, history: History, state: int, n: int, rng: Rng
    ) -> list[Proposal]:
        """Return the n uniform draws, of 20 times as many, that are most likely to run."""
        draws = uniform(problem.space, 20 * n, rng, partial(problem.is_excluded, history))
        if history.inside.any() and len(draws):
            models = self.for_problem(problem)
            feasibility = models.fit_feasibility(problem.space, history, state)
            draws = draws[np.argsort(-feasibility.probability(draws), kind="stable")]
        return [Proposal(row, {"phase": "explore"}) for row in draws[:n]]

    def best_by_score(
        self, problem: Problem, history: History, state: int, n: int, rng: Rng, score: Score
    ) -> Codes:
        """Return the n rows with the highest score, which is weighted by feasibility once there are observations."""
        space = problem.space
        minimum = acquisitions.draw_minimum(rng, self.largest_minimum)
        if history.inside.any():
            feasibility = self.fit_feasibility(space, history, state)
            score = acquisitions.weight_by_feasibility(score, feasibility, minimum)
        none, excluded = np.empty((0, space.width)), partial(problem.is_excluded, history)
        return self.search_of(space).maximise(score, space, n, rng, none, excluded)


def _within(
    region: Callable[[Codes], Mask], fitted: Fitted, history: History, start: Codes
) -> tuple[Fitted, Codes]:
    """Return the models with the lowest value of a region as incumbent, and starts of a search with its best rows."""
    known = region(fitted.data.codes) & ~fitted.data.censored
    if not known.any():
        return fitted, start
    lowest = float(fitted.data.y[known].min())
    # Imported successes may lie outside the space, without codes.
    ok = np.flatnonzero(history.where(Status.OK) & ~np.isnan(history.codes).any(axis=1))
    ok = ok[region(history.codes[ok])]
    best = history.codes[ok[np.argsort(history.costs[ok], kind="stable")[:INCUMBENTS]]]
    return fitted._replace(incumbent=lowest), np.concatenate([best, start])


def _prefer(region: Callable[[Codes], Mask], score: Score) -> Score:
    """Return the score that is lower outside a region, so that searches move into it."""

    def within(codes: Codes) -> Array:
        return np.asarray(score(codes) - _OUTSIDE * ~region(codes))

    return within


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
