"""Kernel Tuner's Bayesian optimization (Willemsen, van Nieuwpoort, van Werkhoven, PMBS 2021).

A Gaussian process with fixed hyperparameters over evenly spaced values, every configuration that is not evaluated is
scored, several acquisitions take turns, and the exploration factor follows the model's uncertainty. Invalid
configurations are neither fitted nor proposed again; constant parameters are not modelled ("pruning").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.contextual import exploration_factor
from baco_like.acquisitions.optimizers.best_rows import best_free_rows
from baco_like.acquisitions.pending import condition_on_pending
from baco_like.acquisitions.selectors import (
    ACQUISITIONS,
    AcquisitionSelector,
    AdvancedMulti,
    Turns,
)
from baco_like.records.direction import sign_of
from baco_like.records.history import History
from baco_like.records.reading import finite_number
from baco_like.records.trial import Observation, Proposal, Status
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Problem
from baco_like.surrogates.gp.model import FixedGaussianProcess
from baco_like.surrogates.index_features import IndexFeatures
from baco_like.surrogates.protocol import Data, Surrogate, UpdatableModel
from baco_like.surrogates.transform import FitScale, standardise

_NEEDED = 2


@dataclass(frozen=True)
class State:
    """Whose turn it is, and what the exploration factor is measured against.

    Attributes:
        turns: The acquisitions in use.
        initial_mean: Mean cost of the first sample, once a proposal of the model has come back.
        initial_variance: Mean posterior variance after it.
    """

    turns: Turns
    initial_mean: float | None = None
    initial_variance: float | None = None


@final
@dataclass(frozen=True)
class KernelTunerBO:
    """Proposes the best unevaluated configuration by the acquisition whose turn it is.

    Attributes:
        acquisitions: Names in the order of their turns, from ``ei``, ``poi``, ``lcb``.
        selector: Decides which acquisition functions stay in use.
        exploration: A constant factor, or None for the contextual variance of section III-F.
        surrogate: Models the values; Table I has a lengthscale of 1.5 with contextual variance and 2 without.
        scale: Makes the scale on which values are modelled: standardised, without logarithms.
        candidates: Feasible sets larger than this are sampled anew for each proposal.
    """

    acquisitions: tuple[str, ...] = tuple(ACQUISITIONS)
    selector: AcquisitionSelector = field(default_factory=AdvancedMulti)
    exploration: float | None = None
    surrogate: Surrogate = field(default_factory=FixedGaussianProcess)
    scale: FitScale = standardise
    candidates: int = 20_000

    def __post_init__(self) -> None:
        unknown = [name for name in self.acquisitions if name not in ACQUISITIONS]
        if unknown or not self.acquisitions:
            known = tuple(ACQUISITIONS)
            raise ValueError(f"acquisitions must be from {known}, not {self.acquisitions!r}")
        factor = None if self.exploration is None else finite_number(self.exploration)
        if self.exploration is not None and (factor is None or factor < 0.0):
            raise ValueError(f"exploration = {self.exploration}: expected a number from 0, or None")

    def init(self, problem: Problem, rng: Rng) -> State:
        """Begin with all acquisitions."""
        return State(Turns.of(self.acquisitions))

    def ask(
        self, problem: Problem, history: History, state: State, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return n proposals, each by the acquisition whose turn it is; none before there are two successes."""
        ok = history.where(Status.OK)
        if ok.sum() < _NEEDED:
            return []
        costs = history.costs[ok]
        scale = self.scale(costs)
        y = scale.forward(costs)
        data = Data(history.codes[ok], y, np.zeros(len(y)), np.zeros(len(y), bool))
        model = self.surrogate.fit(IndexFeatures(problem.space), data, rng)
        assert isinstance(model, UpdatableModel)
        rows = _candidates(problem.space, self.candidates, rng)
        sign = sign_of(history.direction)
        told = {"phase": "model", "sign": sign, "median": _within(np.median, costs)}
        flying, chosen, found = history.pending_codes, history, []
        for i in range(n):
            conditioned = condition_on_pending(model, flying)
            mean, variance = conditioned.predict(rows)
            predicted = _PredictedModel(mean, variance)
            against = _against(state, costs, float(variance.mean()))
            factor = self._factor(float(variance.mean()), float(costs.min()), against)
            incumbent = min([float(y.min()), *conditioned.predict(flying)[0].tolist()])
            name = state.turns.next(_flying_turns(history) + i)
            taken = partial(problem.is_excluded, chosen)
            picks = {}
            for one in state.turns.names:
                score = ACQUISITIONS[one](factor).bind(predicted, incumbent, rng)
                picks[one] = best_free_rows(rows, score(rows), 1, rng, taken)[0]
            best = picks[name]
            if not len(best):
                break
            same = [one for one, pick in picks.items() if np.array_equal(pick, best)]
            tag = {"acquisition": name, "same": same, "factor": factor, **against, **told}
            found.append(Proposal(best[0], tag))
            flying, chosen = np.concatenate([flying, best]), chosen.assume_pending(best)
        return found

    def tell(self, problem: Problem, state: State, observation: Observation, rng: Rng) -> State:
        """Score the acquisition whose proposal it was; an invalid configuration counts as the median."""
        tag = observation.tag
        if not (isinstance(tag, Mapping) and "acquisition" in tag):
            return state
        if state.initial_mean is None:
            state = replace(
                state, initial_mean=tag["initial_mean"], initial_variance=tag["initial_variance"]
            )
        value = observation.value
        cost = tag["median"] if value is None else tag["sign"] * value
        turns = self.selector.update(state.turns, tag["acquisition"], cost, tag["same"])
        return replace(state, turns=turns)

    def _factor(self, mean_variance: float, best: float, note: Mapping[str, float]) -> float:
        if self.exploration is not None:
            return self.exploration
        return exploration_factor(
            mean_variance, best, note["initial_mean"], note["initial_variance"]
        )


def _against(state: State, costs: Array, mean_variance: float) -> dict[str, float]:
    """Return what the exploration factor is measured against: that of the state, or of now at the first proposal."""
    if state.initial_mean is None or state.initial_variance is None:
        return {"initial_mean": _within(np.mean, costs), "initial_variance": mean_variance}
    return {"initial_mean": state.initial_mean, "initial_variance": state.initial_variance}


def _within(statistic: Callable[[Array], Any], costs: Array) -> float:
    """Return the mean or median, also where the sum of the costs is beyond the range of doubles."""
    with np.errstate(over="ignore"):
        found = float(statistic(costs))
    if math.isfinite(found):
        return found
    shrunk = 2.0 ** -len(costs).bit_length()
    return float(statistic(costs * shrunk)) / shrunk


def _flying_turns(history: History) -> int:
    return sum(
        isinstance(t.tag, Mapping) and "acquisition" in t.tag for t in history.pending.values()
    )


def _candidates(space: Space, most: int, rng: Rng) -> Codes:
    count = space.feasible.count
    if count is not None and count <= most:
        return space.feasible.listed
    return space.feasible.sample(space.affordable(most), rng)


@dataclass(frozen=True, eq=False)
class _PredictedModel:
    """The posterior at all candidates, predicted once for all acquisition functions."""

    mean: Array
    variance: Array
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        return self.mean, self.variance
