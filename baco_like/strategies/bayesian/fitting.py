"""The values that models are fitted to, the fitted models, and the tag of a proposal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from baco_like import surrogates
from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.acquisitions import AcquisitionFunction, AcquisitionOptimizer
from baco_like.acquisitions.functions import log_pi
from baco_like.acquisitions.protocol import Score
from baco_like.exceptions import TrialError
from baco_like.records import Direction, History, Status, sign_of
from baco_like.spaces import Space
from baco_like.strategies.bayesian.limits import costs_beyond
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import FeasibilityModel
from baco_like.surrogates.transform import FitScale, Scale

NEEDED = 2
"""Number of successes that a surrogate needs."""


class ModelValues(NamedTuple):
    """The values of a history as a surrogate sees them.

    Attributes:
        rows: Indices of the observations with a value, ``(n,)``.
        y: Their values on the model's scale, ``(n,)``.
        variance: Known variances of the values on that scale, ``(n,)``.
        censored: Whether each value is only a lower bound, ``(n,)``.
        transform: Converts between costs and the model's scale.
        incumbent: The lowest value of a success, on the model's scale.
    """

    rows: Ints
    y: Array
    variance: Array
    censored: Mask
    transform: Scale
    incumbent: float


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

    data: surrogates.Data
    model: surrogates.Model
    transform: Scale
    feasibility: FeasibilityModel
    incumbent: float
    observed: int


class Recipe(Protocol):
    """The parts of `Bayesian` that choose among candidates; it describes them."""

    @property
    def surrogate(self) -> surrogates.Surrogate | str:
        """Models the transformed values."""

    @property
    def acquisition(self) -> AcquisitionFunction:
        """Scores candidates by the fitted surrogate."""

    @property
    def largest_minimum(self) -> float:
        """Largest minimum probability of feasibility."""

    @property
    def scale(self) -> FitScale:
        """Fits the scale on which values are modelled."""

    @property
    def belief(self) -> float:
        """Weight of the parameters' priors at one observation."""

    @property
    def view(self) -> Callable[[Space], surrogates.Featured]:
        """Selects the features for the models."""

    @property
    def failed_as(self) -> float | None:
        """Quantile of the successful costs that is imputed for a failure."""

    def search_of(self, space: Space) -> AcquisitionOptimizer:
        """Return the acquisition optimizer for a space."""

    def fit_feasibility(self, space: Space, history: History, seed: int) -> FeasibilityModel:
        """Return the model of feasibility."""

    def score(
        self,
        problem: Problem,
        history: History,
        fitted: Fitted,
        model: surrogates.Model,
        minimum: float,
        rng: Rng,
    ) -> Score:
        """Return the acquisition function with its weights."""


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
        # method="higher" returns one of the observed costs.
        imputed = np.quantile(history.costs[ok], failed_as, method="higher")
        costs = np.where(failed, imputed, costs)
        seen = seen | failed
    y = transform.forward(costs[seen])
    incumbent = float(y[ok[seen]].min())
    variance = np.nan_to_num(history.variances[seen])
    if variance.any():
        variance = transform.forward_variance(costs[seen], variance)
    return ModelValues(np.flatnonzero(seen), y, variance, censored[seen], transform, incumbent)


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
