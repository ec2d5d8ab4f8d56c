"""The models of Bayesian optimization: the values they are fitted to, the recipe of the fit, and limits on metrics.

An outcome beyond a limit is a failure in the history, because it must not win. But it ran, and its values are known:
they inform the surrogate of the objective. The probability of feasibility is multiplied by the probability that each
limit holds (Gardner et al., "Bayesian optimization with inequality constraints", ICML 2014, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
from typing_extensions import Self

from baco_like import acquisitions, surrogates
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.acquisitions import AcquisitionFunction, AcquisitionOptimizer
from baco_like.acquisitions.functions import (
    condition_on_pending,
    draw_minimum,
    log_pi,
    prior_weight,
    weight_by_feasibility,
)
from baco_like.acquisitions.gradient import is_climbed
from baco_like.acquisitions.optimizers import AlternatingSearch, ExhaustiveSearch, LocalSearch
from baco_like.acquisitions.protocol import Score
from baco_like.acquisitions.registry import bind_acquisition
from baco_like.exceptions import TrialError
from baco_like.records import History, Proposal, Status
from baco_like.records.limits import LIMIT, Limits, Margins, RunLimits
from baco_like.records.objective import Direction, sign_of
from baco_like.records.objective_values import number_within
from baco_like.records.trial import median, read_metric
from baco_like.spaces import Space
from baco_like.spaces.design import uniform
from baco_like.strategies.bayesian.repeats import prefer_new_programs
from baco_like.strategies.observed_costs import failure_cost
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import (
    Data,
    FeasibilityModel,
    FeasibilitySurrogate,
    GaussianProcess,
    Model,
    UpdatableModel,
)
from baco_like.surrogates.forest import ForestFeasibility, ForestFeasibilityModel
from baco_like.surrogates.gp.growing import EVERY_COUNT, add_rows, last_refit
from baco_like.surrogates.gp.model import GPModel
from baco_like.surrogates.gp.prior import SMOOTH_PRIORS
from baco_like.surrogates.protocol import Featured
from baco_like.surrogates.registry import create_surrogate, fit_feasibility, fit_surrogate
from baco_like.surrogates.transform import FitScale, Scale, fit_transform, standardise

NEEDED = 2
"""Number of successes, or of known margins of a limit, that a surrogate needs."""


INCUMBENTS = 5
"""Number of the best observed configurations from which the acquisition optimizer starts, beside random draws."""

_OUTSIDE = 1e6
"""Subtracted from the scores, which are logarithms, outside the region that may be proposed."""


class ModelValues(NamedTuple):
    """The values of a history as a surrogate sees them.

    Attributes:
        rows: Indices of the observations with a value, ``(n,)``.
        data: These observations, on the model's scale.
        transform: Converts between costs and the model's scale.
        incumbent: The lowest value of a success, on the model's scale.
    """

    rows: Ints
    data: Data
    transform: Scale
    incumbent: float

    def fitted(self, data: Data, model: Model, feasibility: FeasibilityModel) -> Fitted:
        """Return the models that were fitted to all of these values or to a part of them."""
        return Fitted(data, model, self.transform, feasibility, self.incumbent, len(self.rows))


class Fitted(NamedTuple):
    """The models fitted to a history.

    Attributes:
        data: Training data of the surrogate, on its scale.
        model: The fitted surrogate.
        transform: Converts between costs and the model's scale.
        feasibility: Predicts the probability that a configuration runs.
        incumbent: The lowest value so far, on the model's scale.
        observed: Number of observations with a value, of which ``data`` may have only a part.
    """

    data: Data
    model: Model
    transform: Scale
    feasibility: FeasibilityModel
    incumbent: float
    observed: int


def model_values(history: History, scale: FitScale, failed_as: float | None) -> ModelValues:
    """Return the values of a history with a success; see `Bayesian` for the arguments."""
    ok = history.where(Status.OK)
    beyond, values = costs_beyond(history)
    transform = scale(values[ok | beyond])
    censored, costs = _impute_bounds(history)
    costs = np.where(beyond, values, costs)
    seen = ok | censored | beyond
    if failed_as is not None:
        failed = count_as_failed(history) & ~beyond
        costs = np.where(failed, failure_cost(history.costs[ok], failed_as), costs)
        seen = seen | failed
    y = transform.forward(costs[seen])
    incumbent = float(y[ok[seen]].min())
    variance = np.nan_to_num(history.variances[seen])
    if variance.any():
        variance = transform.forward_variance(costs[seen], variance)
    data = Data(history.codes[seen], y, variance, censored[seen])
    return ModelValues(np.flatnonzero(seen), data, transform, incumbent)


def count_as_failed(history: History) -> Mask:
    """Return which observed trials are failures for the models, ``(n,)``.

    With several objectives, censored trials are failures: without all values they are never on the front, and a bound
    of one objective says nothing about the others. When they counted as trials that ran, they attracted nearly all
    proposals: 48 of 50 evaluations of `ehvi` reached a time limit, now 23.
    """
    failed = history.where(Status.FAILED)
    return failed | history.where(Status.CENSORED) if history.objectives else failed


def _impute_bounds(history: History) -> tuple[Mask, Array]:
    """Return which censored trials are modelled, ``(n,)``, and all costs with their bounds, ``(n,)``.

    A bound below the best cost says nothing. A bound above the worst cost is replaced by the worst cost: a time limit
    of a minute among runs of milliseconds would turn the landscape into a cliff.
    """
    censored = history.where(Status.CENSORED)
    if not censored.any():
        return censored, history.costs
    costs = history.costs[history.where(Status.OK)]
    modelled = censored & (history.bounds > costs.min())
    return modelled, np.where(modelled, np.minimum(history.bounds, costs.max()), history.costs)


def last_hyperparameters(history: History) -> Mapping[str, Any] | None:
    """Return the hyperparameters in the last observation's tag, from which the next fit starts.

    They are in the journal, so a resumed run starts from the same ones.
    """
    last = history.last
    hyperparameters = None if last is None else last.read_tag("hyperparameters")
    return hyperparameters if isinstance(hyperparameters, Mapping) else None


def tags(
    fitted: Fitted, centre: Array, spread: Array, feasible: Array, direction: Direction
) -> list[dict[str, Any]]:
    """Return the predictions for n proposals, for `Optimizer.why`, and the hyperparameters, for the next fit.

    Args:
        fitted: The models.
        centre: Predicted means on the model's scale, ``(n,)``.
        spread: Predicted variances on that scale, ``(n,)``.
        feasible: Probabilities of running, ``(n,)``.
        direction: Direction of the run.
    """
    mean, variance = fitted.transform.moments(centre, spread)
    below = log_pi(centre, spread, fitted.incumbent)
    known = getattr(fitted.model, "count", fitted.observed)
    part = {"model_rows": known, "of": fitted.observed} if known < fitted.observed else {}
    return [
        {
            "phase": "model",
            "mean": sign_of(direction) * float(mean[i]),
            "std": float(np.sqrt(variance[i])),
            "p_feasible": float(feasible[i]),
            "p_gain": float(feasible[i]) * math.exp(below[i]),
            **part,
            "hyperparameters": dict(fitted.model.hyperparameters),
        }
        for i in range(len(centre))
    ]


def tag_of(fitted: Fitted, row: Codes, direction: Direction) -> dict[str, Any]:
    """Return the tag of one proposal, ``(1, w)``."""
    feasible = fitted.feasibility.probability(row)
    return tags(fitted, *fitted.model.predict(row), feasible, direction)[0]


def check_successes(history: History) -> None:
    """Check that there are enough successes for a model.

    Raises:
        TrialError: There are too few.
    """
    successes = int(history.where(Status.OK).sum())
    if successes < NEEDED:
        raise TrialError(
            f"predict needs {NEEDED} successful trials, there are {successes}; observe more first"
        )


SURROGATE = GaussianProcess(priors=SMOOTH_PRIORS, mean="constant")
"""Models the margins, whatever models the objective. The priors are those of `auto`: most metrics are smooth."""

_CAUTION = 2.0
"""Power of the probability that a limit holds, in the weight of a score.

With 1, the most promising configurations near a limit are beyond it in about half of the evaluations. With 2 the share
beyond fell from 0.62 to 0.46 (DTLZ2), 0.58 to 0.42 (C kernel) and 0.37 to 0.25 (BNH) with best values as good; with 4
the best times of the C kernel were worse (four problems, five seeds).
"""

_ROWS = 600
"""Most rows of a model of a margin."""


@final
@dataclass(frozen=True, eq=False)
class FeasibilityWithLimits:
    """Predicts the probability that a configuration runs and that its metrics are within the limits.

    Attributes:
        running: Predicts the probability of running.
        margins: Model of each margin, and the limit on its scale.
    """

    running: FeasibilityModel
    margins: tuple[tuple[GPModel, float], ...]

    def probability(self, codes: Codes) -> Array:
        """Return the probability for each row, ``(n, w)`` -> ``(n,)``."""
        return self._multiply(codes, 1.0)

    def weight(self, codes: Codes) -> Array:
        """Return the weights of the scores, ``(n, w)`` -> ``(n,)``: the limits have the power `_CAUTION`."""
        return self._multiply(codes, _CAUTION)

    def _multiply(self, codes: Codes, power: float) -> Array:
        total = self.running.probability(codes)
        for model, limit in self.margins:
            total = total * np.exp(power * log_pi(*model.predict(codes), limit))
        return np.asarray(total)


def costs_beyond(history: History) -> tuple[Mask, Array]:
    """Return the outcomes beyond a limit that have a value, a mask ``(n,)``, and the costs with these values, ``(n,)``.

    The history of one objective of several has their costs already (`objective_costs`).
    """
    costs = history.costs if history.objectives else objective_costs(history)[0][:, 0]
    return history.where(Status.FAILED) & ~np.isnan(costs), costs


def objective_costs(history: History) -> tuple[Array, Array]:
    """Return the costs and squared standard errors of all objectives, ``(n, m)``, with outcomes beyond a limit."""
    return history.derive("modelled costs", history.objectives, lambda: _read_costs(history))


def _read_costs(history: History) -> tuple[Array, Array]:
    costs, variances = map(np.copy, history.objective_costs())
    trials = history.trials
    for i in np.flatnonzero(history.where(Status.FAILED) & history.inside):
        trial = trials[i]
        others = history.objectives[1:]
        if trial.failure != LIMIT or not trial.repeats:
            continue
        if any(objective.name not in trial.metrics for objective in others):
            continue
        costs[i, 0] = sign_of(history.direction) * median(trial.repeats)
        for j, objective in enumerate(others, 1):
            costs[i, j], variances[i, j] = read_metric(trial, objective)
    return costs, variances


def margins_of(limits: RunLimits, history: History) -> Margins:
    """Return the margins of all observed trials."""
    read = partial(Limits(limits.texts).margins, history.trials, limits.objective)
    return history.derive(("margins", limits), None, read)


def fit_margins(
    limits: RunLimits,
    history: History,
    space: Space,
    view: Callable[[Space], Featured],
    seed: int,
) -> tuple[tuple[GPModel, float], ...]:
    """Return a model of each margin, and the limit on its scale.

    Hyperparameters hold while the number of observations grows by up to an eighth; then a limit costs little beside
    the objective. A margin that never changed has no model.

    Args:
        limits: The limits.
        history: The observations.
        space: The space.
        view: Selects the features.
        seed: Seed of the random numbers.
    """
    values, models = margins_of(limits, history).values, []
    for j in range(values.shape[1]):
        known = np.flatnonzero(history.inside & ~np.isnan(values[:, j]))
        margins = values[known, j]
        if len(known) < NEEDED or np.ptp(margins) <= 1e-12 * np.abs(margins).max():
            continue
        scale = standardise(margins)
        model, used, last = _hold(history, values[:, j], (limits, j), space, view, seed)
        new = known[known > last]
        rows = np.concatenate([used, new])
        none = np.zeros(len(new))
        y, exact = scale.forward(values[rows, j]), np.zeros(len(rows), dtype=np.bool_)
        model = add_rows(model, history.codes[new], none, y, exact, SURROGATE.mean)
        models.append((model, float(scale.forward(np.zeros(1))[0])))
    return tuple(models)


def _hold(
    history: History,
    margins: Array,
    name: tuple[RunLimits, int],
    space: Space,
    view: Callable[[Space], Featured],
    seed: int,
) -> tuple[GPModel, Ints, int]:
    """Return the model of the last fit of hyperparameters, its rows as observations, and the last known one."""
    count = len(history)
    step = 1 << max(0, (count // 8).bit_length() - 1)
    known = np.flatnonzero(history.inside & ~np.isnan(margins))
    anchor = history.first(count - count % step)
    rows = known[known < len(anchor)]
    if len(rows) < NEEDED or np.ptp(margins[rows]) == 0.0:
        anchor, rows = history, known

    def fit() -> tuple[GPModel, Ints, int]:
        """Return the model of the anchor, which the history keeps."""
        y = standardise(margins[rows]).forward(margins[rows])
        none = np.zeros(len(rows))
        data = Data(history.codes[rows], y, none, none > 0.0)
        rng = generator(seed, Purpose.HOLD, 2 * len(anchor))
        model, used = SURROGATE.hold(view(space), data, rng, most=_ROWS)
        return model, rows[used], int(rows[-1])

    return anchor.derive(("limit", *name, view), seed, fit)


def plain(space: Space) -> Featured:
    """Return the space: models see the parameters' own features."""
    return space


def with_quantities(space: Space) -> Featured:
    """Return the space with the additional features of `baco_like.spaces.derived_features`."""
    return space.derived_features


@dataclass(frozen=True)
class Recipe:
    """The parts of Bayesian optimization: which models are fitted, and how candidates are scored and searched.

    `Bayesian` describes the attributes.

    Raises:
        ValueError: ``failed_as`` is not a quantile, or no surrogate has this name.
    """

    surrogate: surrogates.Surrogate | str = field(default_factory=surrogates.GaussianProcess)
    acquisition: AcquisitionFunction = field(default_factory=acquisitions.ExpectedImprovement)
    feasibility: FeasibilitySurrogate = field(default_factory=ForestFeasibility)
    scan: AcquisitionOptimizer = field(default_factory=ExhaustiveSearch)
    search: AcquisitionOptimizer = field(default_factory=LocalSearch)
    scan_limit: int = 20_000
    largest_minimum: float = 0.5
    scale: FitScale = fit_transform
    belief: float = 10.0
    mixed: AcquisitionOptimizer = field(default_factory=AlternatingSearch)
    view: Callable[[Space], Featured] = plain
    failed_as: float | None = None
    limits: RunLimits | None = None
    holds: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.surrogate, str):
            named = create_surrogate(self.surrogate, surrogates.GaussianProcess())
            object.__setattr__(self, "surrogate", named)
        if self.failed_as is not None:
            number_within("failed_as", self.failed_as, "[0, 1]")

    def for_problem(self, problem: Problem) -> Self:
        """Return the recipe that models the limits of a problem."""
        return replace(self, limits=problem.limits) if self.limits is None else self

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
        model = self._fit_surrogate(space, values.data, rng, last_hyperparameters(history))
        if feasibility is None:
            feasibility = self.fit_feasibility(space, history, seed)
        return values.fitted(values.data, model, feasibility)

    def condition_on_pending(
        self, space: Space, fitted: Fitted, pending: Codes, rng: Rng
    ) -> tuple[Model, float]:
        """Return model and incumbent as if the pending configurations had the costs that the model predicts.

        The incumbent changes too; otherwise the neighbours of a pending configuration would seem to offer the same
        improvement again.
        """
        model, data = fitted.model, fitted.data
        if not len(pending):
            return model, fitted.incumbent
        expected, _ = model.predict(pending)
        incumbent = min(fitted.incumbent, float(expected.min()))
        if isinstance(model, UpdatableModel):
            return condition_on_pending(model, pending), incumbent
        more = len(pending)
        imputed = Data(
            np.concatenate([data.codes, pending]),
            np.concatenate([data.y, expected]),
            np.concatenate([data.variance, np.zeros(more)]),
            np.concatenate([data.censored, np.zeros(more, bool)]),
        )
        return self._fit_surrogate(space, imputed, rng, model.hyperparameters), incumbent

    def _fit_surrogate(
        self, space: Space, data: Data, rng: Rng, start: Mapping[str, Any] | None
    ) -> Model:
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
        if isinstance(self.feasibility, ForestFeasibility) and count > EVERY_COUNT:
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
        minimum = draw_minimum(rng, self.largest_minimum)
        if history.inside.any():
            feasibility = self.fit_feasibility(space, history, state)
            score = weight_by_feasibility(score, feasibility, minimum)
        none, excluded = np.empty((0, space.width)), partial(problem.is_excluded, history)
        return self.search_of(space).maximise(score, space, n, rng, none, excluded)[0]

    def score(
        self,
        problem: Problem,
        history: History,
        fitted: Fitted,
        model: Model,
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
        weighted = weight_by_feasibility(score, fitted.feasibility, minimum)
        weighted = prefer_new_programs(weighted, history)
        return weighted if problem.region is None else _prefer(problem.region, weighted)


def weight_by_user_prior(score: Score, space: Space, count: int, belief: float) -> Score:
    """Return the score with the weight of the user's prior after ``count`` observations; unchanged without a prior."""
    if not has_prior(space):
        return score
    weight = prior_weight(space.log_density, count, belief)
    return lambda codes: np.asarray(score(codes) + weight(codes))


def has_prior(space: Space) -> bool:
    """Return whether a parameter has a prior of the user."""
    return any(getattr(p, "prior", None) is not None for p in space.parameters.values())


def incumbents(history: History) -> Codes:
    """Return the best observed configurations, from which a search starts, ``(m, w)``; of equal programs one."""
    programs = history.programs
    first = (programs < 0) | (programs == np.arange(len(programs)))
    ok = np.flatnonzero(history.where(Status.OK) & first)
    best = ok[np.argsort(history.costs[ok], kind="stable")[:INCUMBENTS]]
    return history.codes[best]


def within_region(
    region: Callable[[Codes], Mask], fitted: Fitted, history: History, start: Codes
) -> tuple[Fitted, Codes]:
    """Return the models with the lowest value of a region as incumbent, and starts of a search with its best rows."""
    known = region(fitted.data.codes) & ~fitted.data.censored
    if not known.any():
        return fitted, start
    lowest = float(fitted.data.y[known].min())
    ok = np.flatnonzero(history.where(Status.OK))
    ok = ok[region(history.codes[ok])]
    best = history.codes[ok[np.argsort(history.costs[ok], kind="stable")[:INCUMBENTS]]]
    return fitted._replace(incumbent=lowest), np.concatenate([best, start])


def _prefer(region: Callable[[Codes], Mask], score: Score) -> Score:
    """Return the score that is lower outside a region, so that searches move into it."""

    def within(codes: Codes) -> Array:
        return np.asarray(score(codes) - _OUTSIDE * ~region(codes))

    return within
