"""Kernel Tuner's Bayesian optimization (Willemsen, van Nieuwpoort, van Werkhoven, PMBS 2021).

The surrogate is a Gaussian process with fixed hyperparameters over evenly spaced values. Every configuration that was
not evaluated is scored, several acquisition functions take turns, and the exploration factor follows the model's
uncertainty. Failures are neither fitted nor proposed again; constant parameters are not modelled ("pruning").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import numpy as np

from baco_like._plugins import name_of
from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions import AcquisitionSelector, AdvancedMulti, condition_on_pending
from baco_like.acquisitions.optimizers.best_rows import best_free_rows
from baco_like.acquisitions.selectors import ACQUISITIONS, Turns, exploration_factor
from baco_like.exceptions import StrategyError
from baco_like.records import History, Observation, Proposal, Status, sign_of
from baco_like.records.reading import finite_number
from baco_like.spaces.space import Space
from baco_like.strategies.bayesian.fitting import NEEDED
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import Data, FixedGaussianProcess, Surrogate, UpdatableModel, standardise
from baco_like.surrogates.checked import fit_surrogate
from baco_like.surrogates.index_features import IndexFeatures
from baco_like.surrogates.transform import FitScale


@dataclass(frozen=True)
class KernelTunerState:
    """The state: whose turn it is, and the reference values of the exploration factor.

    Attributes:
        turns: The acquisition functions in use.
        reference: Mean cost of the first sample (``initial_mean``) and the mean posterior variance after it
            (``initial_variance``); None before a proposal of the model was observed.
    """

    turns: Turns
    reference: Mapping[str, float] | None = None


@final
@dataclass(frozen=True)
class KernelTunerBO:
    """Kernel Tuner's Bayesian optimization: several acquisition functions take turns.

    Use it inside `Phased`, which makes the first observations, to compare with Kernel Tuner. Source: Willemsen, van
    Nieuwpoort and van Werkhoven, PMBS 2021.

    Attributes:
        acquisitions: Names of acquisition functions in the order of their turns: ``ei``, ``poi``, ``lcb``.
        selector: Decides which acquisition functions stay in use.
        exploration: A constant factor, 0 or more; None: the contextual variance of section III-F.
        surrogate: Models the values; the lengthscale of Table I is 1.5 with contextual variance and 2 without.
        scale: Fits the scale on which values are modelled: standardised, without logarithms.
        candidates: Larger feasible sets are represented by this number of random configurations, drawn anew for each
            call.

    Raises:
        ValueError: An acquisition function is unknown, or the factor is not a number of 0 or more.
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

    def init(self, problem: Problem, rng: Rng) -> KernelTunerState:
        """Return the state with all acquisition functions."""
        return KernelTunerState(Turns.of(self.acquisitions))

    def ask(
        self, problem: Problem, history: History, state: KernelTunerState, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return n proposals, each by the function whose turn it is; none before the second success."""
        ok = history.where(Status.OK)
        if ok.sum() < NEEDED:
            return []
        costs = history.costs[ok]
        y = self.scale(costs).forward(costs)
        model = self._fit(problem.space, history.codes[ok], y, rng)
        rows = self._candidate_rows(problem.space, rng)
        common = {
            "phase": "model",
            "sign": sign_of(history.direction),
            "median": _without_overflow(np.median, costs),
        }
        pending, proposals = history.pending_codes, []
        pending_turns = sum(_is_own(trial.tag) for trial in history.pending.values())
        for i in range(n):
            conditioned = condition_on_pending(model, pending)
            mean, variance = conditioned.predict(rows)
            predicted, now = _PredictedModel(mean, variance), float(variance.mean())
            reference = state.reference or {
                "initial_mean": _without_overflow(np.mean, costs),
                "initial_variance": now,
            }
            factor = self.exploration
            if factor is None:
                factor = exploration_factor(now, float(costs.min()), **reference)
            incumbent = min([float(y.min()), *conditioned.predict(pending)[0].tolist()])
            name = state.turns.next(pending_turns + i)
            excluded = partial(problem.is_excluded, history)
            picks = {}
            for candidate in state.turns.names:
                score = ACQUISITIONS[candidate](factor).bind(predicted, incumbent, rng)
                picks[candidate] = best_free_rows(rows, score(rows), 1, rng, excluded)[0]
            best = picks[name]
            if not len(best):
                break
            same = [other for other, pick in picks.items() if np.array_equal(pick, best)]
            tag = {"acquisition": name, "same": same, "factor": factor, **reference, **common}
            proposals.append(Proposal(best[0], tag))
            pending, history = np.concatenate([pending, best]), history.assume_pending(best)
        return proposals

    def _fit(self, space: Space, codes: Codes, y: Array, rng: Rng) -> UpdatableModel:
        data = Data(codes, y, np.zeros(len(y)), np.zeros(len(y), bool))
        model = fit_surrogate(self.surrogate, IndexFeatures(space), data, rng)
        if not isinstance(model, UpdatableModel):
            raise StrategyError(
                f"surrogate {name_of(self.surrogate)} has models without a method condition, which kernel_tuner_bo "
                "needs; take surrogate gp or gpytorch"
            )
        return model

    def _candidate_rows(self, space: Space, rng: Rng) -> Codes:
        """Return all feasible rows, or random ones if there are more than `candidates`."""
        count = space.feasible.count
        if count is not None and count <= self.candidates:
            return space.feasible.listed
        return space.feasible.spread(space.affordable(self.candidates), rng)

    def tell(
        self, problem: Problem, state: KernelTunerState, observation: Observation, rng: Rng
    ) -> KernelTunerState:
        """Return the state after the result of the function that made the proposal; a failure counts as the median."""
        tag = observation.tag
        if not _is_own(tag):
            return state
        if state.reference is None:
            reference = {key: tag[key] for key in ("initial_mean", "initial_variance")}
            state = replace(state, reference=reference)
        cost = observation.cost if math.isfinite(observation.cost) else tag["median"]
        turns = self.selector.update(state.turns, tag["acquisition"], cost, tag["same"])
        return replace(state, turns=turns)


def _is_own(tag: Any) -> bool:
    """Whether a tag was written by this strategy."""
    return isinstance(tag, Mapping) and "acquisition" in tag


def _without_overflow(statistic: Callable[[Array], Any], costs: Array) -> float:
    """Return the mean or median even if the sum of the costs exceeds the range of doubles."""
    with np.errstate(over="ignore"):
        value = float(statistic(costs))
    if math.isfinite(value):
        return value
    scale = 2.0 ** -len(costs).bit_length()
    return float(statistic(costs * scale)) / scale


@dataclass(frozen=True, eq=False)
class _PredictedModel:
    """The posterior at all candidates, predicted once for all acquisition functions."""

    mean: Array
    variance: Array
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        return self.mean, self.variance
