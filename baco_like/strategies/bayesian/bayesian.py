"""Bayesian optimization as in BaCO (Hellsten et al., ASPLOS 2023, sections 3 and 4).

A surrogate of the transformed values, expected improvement of a noise-free evaluation, a model of feasibility over a
randomly drawn minimum, a search for the best score. Each part is a field and can be replaced by an object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.acquisitions.functions import ExpectedImprovement
from baco_like.acquisitions.optimizers.alternating import AlternatingSearch
from baco_like.acquisitions.optimizers.exhaustive import ExhaustiveSearch
from baco_like.acquisitions.optimizers.local import LocalSearch
from baco_like.acquisitions.optimizers.protocol import AcquisitionOptimizer
from baco_like.acquisitions.pending import condition_on_pending
from baco_like.acquisitions.protocol import AcquisitionFunction, Score
from baco_like.acquisitions.weights import draw_minimum, weight_by_feasibility, weight_by_prior
from baco_like.exceptions import TrialError
from baco_like.records.direction import Direction, sign_of
from baco_like.records.history import History
from baco_like.records.trial import Observation, Proposal, Status
from baco_like.spaces.design import uniform
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Prediction, Problem, RelatedTask, Strategy
from baco_like.surrogates.feasibility import ForestFeasibility
from baco_like.surrogates.gp.model import GaussianProcess
from baco_like.surrogates.protocol import (
    Data,
    FeasibilityModel,
    FeasibilitySurrogate,
    Featured,
    Model,
    Surrogate,
    UpdatableModel,
)
from baco_like.surrogates.transform import FitScale, Scale, fit_transform

NEEDED = 2
"""Successes that a model of the values needs."""

_INCUMBENTS = 5
"""So many of the best observed configurations are starts of the search, beside random draws."""


def plain(space: Space) -> Featured:
    """Return the space as it is: models see the parameters' own features."""
    return space


def with_quantities(space: Space) -> Featured:
    """Return the space with the further features of `baco_like.spaces.derived_features`."""
    return space.derived_features


@dataclass(frozen=True)
class _Fitted:
    """Everything that a history says about other configurations."""

    data: Data
    model: Model
    transform: Scale
    feasibility: FeasibilityModel
    incumbent: float


@final
@dataclass(frozen=True)
class Bayesian:
    """Proposes where the feasibility-weighted acquisition is highest. The state is a seed for the feasibility model.

    Attributes:
        surrogate: Models the transformed values.
        acquisition: Scores candidates by the model.
        feasibility: Models which configurations run at all.
        scan: Searches a feasible set of at most ``scan_limit`` configurations.
        search: Searches any other set without reals.
        mixed: Searches where there are reals.
        view: What the models see of a space: `plain` or `with_quantities`.
        failed_as: Quantile of the successes' values that the model of the values is told where a configuration
            failed, so that it expects little around it even before the model of feasibility is sure; None: it is
            told nothing, as in BaCO.
        scan_limit: Up to this many configurations are all scored.
        largest_minimum: The minimum feasibility is drawn from 0 to this. BaCO's program has 0.1; once the
            feasible region is well known, unlikely configurations then win by their uncertainty alone.
        scale: Makes the scale on which values are modelled.
        belief: How much the parameters' priors count at one observation (piBO's beta, 10 in BaCO); it fades with
            their number.
    """

    surrogate: Surrogate = field(default_factory=GaussianProcess)
    acquisition: AcquisitionFunction = field(default_factory=ExpectedImprovement)
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

    def __post_init__(self) -> None:
        if self.failed_as is not None and not 0.0 <= self.failed_as <= 1.0:
            raise ValueError(
                f"failed_as must be a quantile from 0 to 1 or None, not {self.failed_as}"
            )

    def init(self, problem: Problem, rng: Rng) -> int:
        """Draw the seed of the feasibility model."""
        return int(rng.integers(2**31))

    def ask(
        self, problem: Problem, history: History, state: int, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return n points, each chosen as if those before it had come out as the model expects.

        Before there are two successes the points are uniform draws among those that are likely to run.
        """
        if history.where(Status.OK).sum() < NEEDED:
            return self._explore(problem, history, state, n, rng)
        fitted = self._fit(problem.space, history, state, rng)
        minimum = draw_minimum(rng, self.largest_minimum)
        search = self.search_of(problem.space)
        start = _incumbents(history)
        proposals: list[Proposal] = []
        flying, chosen = history.pending_codes, history
        for left in reversed(range(n)):
            model, incumbent = self._assuming(problem.space, fitted, flying, rng)
            score = self.acquisition.bind(model, incumbent, rng)
            score = self._weight_by_prior(problem.space, score, history)
            score = weight_by_feasibility(score, fitted.feasibility, minimum)
            found = search.maximise(score, problem.space, 1, rng, start, _taken(problem, chosen))
            if not len(found):
                break
            proposals.append(Proposal(found[0], _note(fitted, found, history.direction)))
            if left:
                flying, chosen = np.concatenate([flying, found]), chosen.assume_pending(found)
        return proposals

    def tell(self, problem: Problem, state: int, observation: Observation, rng: Rng) -> int:
        """There is nothing to remember: the history holds it all."""
        return state

    def predict(
        self, problem: Problem, history: History, state: int, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return what the models expect.

        Raises:
            TrialError: Fewer than two trials have succeeded.
        """
        successes = int(history.where(Status.OK).sum())
        if successes < NEEDED:
            raise TrialError(
                f"predict needs {NEEDED} successful trials, there are {successes}; observe more first"
            )
        fitted = self._fit(problem.space, history, state, rng)
        centre, spread = fitted.model.predict(codes)
        mean, variance = fitted.transform.moments(centre, spread)
        feasible = fitted.feasibility.probability(codes)
        return Prediction(mean, np.sqrt(variance), feasible, fitted.transform.backward(centre))

    def with_related_tasks(self, tasks: Sequence[RelatedTask]) -> Strategy[Any]:
        """Return a strategy that also uses the results of related tasks.

        Raises:
            StrategyError: The surrogate is not a Gaussian process.
        """
        from baco_like.strategies.bayesian.transfer_learning import TransferLearning

        return TransferLearning(self, tuple(tasks))

    def _weight_by_prior(self, space: Space, score: Score, history: History) -> Score:
        """Weight the score by the parameters' priors, if any parameter has one."""
        if all(getattr(p, "prior", None) is None for p in space.parameters.values()):
            return score
        return weight_by_prior(score, space.log_density, len(history), self.belief)

    def search_of(self, space: Space) -> AcquisitionOptimizer:
        """Return how a score is maximised over a space."""
        if space.size == math.inf:
            return self.mixed
        count = space.feasible.count
        return self.scan if count is not None and count <= self.scan_limit else self.search

    def _fit(self, space: Space, history: History, seed: int, rng: Rng) -> _Fitted:
        ok = history.where(Status.OK)
        transform = self.scale(history.costs[ok])
        censored, costs = _told_of_bounds(history)
        seen = ok | censored
        incumbent = float(transform.forward(costs[seen])[ok[seen]].min())
        if self.failed_as is not None:
            failed = history.where(Status.FAILED)
            told = np.quantile(history.costs[ok], self.failed_as, method="higher")  # one of them
            costs = np.where(failed, told, costs)
            seen = seen | failed
        y = transform.forward(costs[seen])
        variance = transform.forward_variance(costs[seen], np.nan_to_num(history.variances[seen]))
        data = Data(history.codes[seen], y, variance, censored[seen])
        model = self.surrogate.fit(self.view(space), data, rng, _start(history))
        feasibility = self._feasibility(space, history, seed)
        return _Fitted(data, model, transform, feasibility, incumbent)

    def _assuming(
        self, space: Space, fitted: _Fitted, flying: Codes, rng: Rng
    ) -> tuple[Model, float]:
        """Return model and incumbent as if the points in flight had come out as the model expects.

        Without the new incumbent the neighbours of a point in flight would promise its improvement once more.
        """
        model, data = fitted.model, fitted.data
        if not len(flying):
            return model, fitted.incumbent
        expected, _ = model.predict(flying)
        incumbent = min(fitted.incumbent, float(expected.min()))
        if isinstance(model, UpdatableModel):
            return condition_on_pending(model, flying), incumbent
        more = len(flying)
        guessed = Data(
            np.concatenate([data.codes, flying]),
            np.concatenate([data.y, expected]),
            np.concatenate([data.variance, np.zeros(more)]),
            np.concatenate([data.censored, np.zeros(more, bool)]),
        )
        return self.surrogate.fit(self.view(space), guessed, rng, model.hyperparameters), incumbent

    def _feasibility(self, space: Space, history: History, seed: int) -> FeasibilityModel:
        known = history.inside
        ran = ~history.where(Status.FAILED)[known]
        return self.feasibility.fit(self.view(space), history.codes[known], ran, seed)

    def _explore(
        self, problem: Problem, history: History, state: int, n: int, rng: Rng
    ) -> list[Proposal]:
        draws = uniform(problem.space, 20 * n, rng, _taken(problem, history))
        if history.inside.any() and len(draws):
            probability = self._feasibility(problem.space, history, state).probability(draws)
            draws = draws[np.argsort(-probability, kind="stable")]
        return [Proposal(row, {"phase": "explore"}) for row in draws[:n]]


def _told_of_bounds(history: History) -> tuple[Mask, Array]:
    """Return which censored values the model is told of, and all costs with bounds in their place.

    A bound up to the best cost says nothing. One beyond the worst cost is told as that: a time limit of a minute
    among runs of milliseconds would make the landscape a cliff.
    """
    costs = history.costs[history.where(Status.OK)]
    told = history.where(Status.CENSORED) & (history.bounds > costs.min())
    return told, np.where(told, np.minimum(history.bounds, costs.max()), history.costs)


def _taken(problem: Problem, history: History) -> Any:
    return lambda codes: problem.is_excluded(history, codes)


def _incumbents(history: History) -> Codes:
    ok = np.flatnonzero(history.where(Status.OK))
    best = ok[np.argsort(history.costs[ok], kind="stable")]
    return history.codes[best[:_INCUMBENTS]]


def _start(history: History) -> Mapping[str, Any] | None:
    """Return the hyperparameters that came back with the last observation, so that a resumed run has the same."""
    tag = None if history.last is None else history.last.tag
    found = tag.get("hyperparameters") if isinstance(tag, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _note(fitted: _Fitted, row: Codes, direction: Direction) -> dict[str, Any]:
    """Return what the model expected of a point, for `Optimizer.why`, and its hyperparameters, for the next fit."""
    mean, variance = fitted.transform.moments(*fitted.model.predict(row))
    sign = sign_of(direction)
    return {
        "phase": "model",
        "mean": sign * float(mean[0]),
        "std": float(np.sqrt(variance[0])),
        "p_feasible": float(fitted.feasibility.probability(row)[0]),
        "hyperparameters": dict(fitted.model.hyperparameters),
    }
