"""Kernel Tuner's Bayesian optimization (Willemsen, van Nieuwpoort, van Werkhoven, PMBS 2021).

The surrogate is a Gaussian process with fixed hyperparameters over evenly spaced values. Every configuration that was
not evaluated is scored, several acquisition functions take turns, and the exploration factor follows the model's
uncertainty. Failures are neither fitted nor proposed again; constant parameters are not modelled ("pruning").

Multi and advanced multi (section III-G): each acquisition function makes one proposal in turn. Its *discounted
observation score* is the sum of its observed costs, each weighted by the discount to the power of its age, so that
recent ones count more. All updates are pure functions of a frozen state. Defaults are those of the paper's Table I,
which differs from the factors named in its text.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, final

import numpy as np

from baco_like._plugins import name_of
from baco_like._typing import Array, Codes, Features, Ints, Rng
from baco_like.acquisitions.functions import (
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
    condition_on_pending,
)
from baco_like.acquisitions.optimizers import best_free_rows
from baco_like.acquisitions.protocol import AcquisitionFunction
from baco_like.exceptions import StrategyError
from baco_like.parameters.protocol import is_continuous
from baco_like.records import History, Observation, Proposal, Status
from baco_like.records.objective import sign_of
from baco_like.records.objective_values import number_within
from baco_like.spaces.space import Space
from baco_like.strategies.bayesian.fitting import NEEDED
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import (
    MATERN32,
    Data,
    GaussianProcess,
    Surrogate,
    UpdatableModel,
    standardise,
)
from baco_like.surrogates.gp.fit import Effort
from baco_like.surrogates.registry import fit_surrogate
from baco_like.surrogates.transform import FitScale

ACQUISITIONS: Mapping[str, Callable[[float], AcquisitionFunction]] = {
    "ei": ExpectedImprovement,
    "poi": ProbabilityOfImprovement,
    "lcb": LowerConfidenceBound,
}
"""Acquisition functions by name, made from an exploration factor: the margin of the first two, the number of standard
deviations of the third. The order is the order of turns (Table I)."""


@dataclass(frozen=True)
class AcquisitionRecord:
    """Results of the proposals of one acquisition function.

    Attributes:
        name: Its key in `ACQUISITIONS`.
        score: Discounted sum of its observed costs.
        weight: The same sum with every cost replaced by 1, so that sums of different length can be compared.
        observed: Number of its observations.
        duplicates: Number of its proposals that another function made too (multi).
        above: Number of rounds with a clearly worse mean than the average (advanced multi).
        below: Number of rounds with a clearly better mean.
    """

    name: str
    score: float = 0.0
    weight: float = 0.0
    observed: int = 0
    duplicates: int = 0
    above: int = 0
    below: int = 0

    @property
    def mean(self) -> float:
        """The score per unit of weight; infinity without an observation."""
        return self.score / self.weight if self.weight else float("inf")

    def add_cost(self, cost: float, discount: float) -> AcquisitionRecord:
        """Return the record after one more observation."""
        score, weight = self.score * discount + cost, self.weight * discount + 1.0
        return replace(self, score=score, weight=weight, observed=self.observed + 1)

    def compare(self, low: float, high: float) -> AcquisitionRecord:
        """Return the record after a round in which costs below ``low`` or above ``high`` are clearly different."""
        above, below = self.above + (self.mean > high), self.below + (self.mean < low)
        return replace(self, above=above, below=below)


@dataclass(frozen=True)
class Turns:
    """The acquisition functions still in use, and whose turn it is.

    Attributes:
        records: One per function, in the order of turns.
        taken: Number of observed turns.
    """

    records: tuple[AcquisitionRecord, ...]
    taken: int = 0

    @classmethod
    def of(cls, names: Iterable[str] = tuple(ACQUISITIONS)) -> Turns:
        """Return the state before the first turn."""
        return cls(tuple(AcquisitionRecord(name) for name in names))

    def next(self, pending: int) -> str:
        """Return the name of the function whose turn it is while ``pending`` proposals are not observed."""
        return self.records[(self.taken + pending) % len(self.records)].name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the functions still in use."""
        return tuple(record.name for record in self.records)

    def add_cost(self, name: str, cost: float, discount: float) -> Turns:
        """Return the state after an observation; a function no longer in use changes nothing."""
        records = tuple(r.add_cost(cost, discount) if r.name == name else r for r in self.records)
        return Turns(records, self.taken + (name in self.names))


class AcquisitionSelector(Protocol):
    """Decides which acquisition functions stay in use: `Multi` or `AdvancedMulti`."""

    def update(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation.

        Args:
            turns: The state before.
            name: The acquisition function that made the proposal.
            cost: The observed cost (for an invalid configuration the median of the valid costs).
            same: All functions that would have proposed the same configuration then, including ``name``.
        """


@dataclass(frozen=True)
class Multi:
    """Drops functions that keep proposing the same configurations as a better one.

    Attributes:
        discount: Weight of an observation relative to the next one.
        skip_threshold: Number of duplicates after which the functions involved compete; the best of them stays.
    """

    discount: float = 0.65
    skip_threshold: int = 5

    def update(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation; see `AcquisitionSelector.update`."""
        turns = turns.add_cost(name, cost, self.discount)
        conflict = set(same)
        if len(conflict) < 2:
            return turns
        records = [
            replace(r, duplicates=r.duplicates + (r.name in conflict)) for r in turns.records
        ]
        rivals = [r for r in records if r.name in conflict and r.duplicates >= self.skip_threshold]
        if len(rivals) > 1:
            best = min(rivals, key=lambda r: r.mean)
            kept = [r for r in records if r is best or r not in rivals]
            records = [replace(r, duplicates=0) for r in kept]
        return replace(turns, records=tuple(records))


@dataclass(frozen=True)
class AdvancedMulti:
    """Compares functions by their scores alone: drops clearly worse ones, keeps only a clearly better one.

    Functions are compared when a round is complete: when the least observed one has one more observation.

    Attributes:
        discount: Weight of an observation relative to the next one.
        skip_threshold: Number of bad (good) rounds after which a function is dropped (is the only one kept).
        improvement: Distance from the mean of the scores, relative to it, that counts as clearly worse or better.
    """

    discount: float = 0.75
    skip_threshold: int = 5
    improvement: float = 0.1

    def update(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation; ``same`` is not used. See `AcquisitionSelector.update`."""
        before = min(r.observed for r in turns.records)
        turns = turns.add_cost(name, cost, self.discount)
        if len(turns.records) == 1 or min(r.observed for r in turns.records) == before:
            return turns
        mean = sum(r.mean for r in turns.records) / len(turns.records)
        margin = self.improvement * abs(mean)
        compared = tuple(r.compare(mean - margin, mean + margin) for r in turns.records)
        for record in compared:
            if record.below >= self.skip_threshold:
                return replace(turns, records=(record,))
        kept = tuple(r for r in compared if r.above < self.skip_threshold)
        if len(kept) < len(compared):
            kept = tuple(replace(r, above=0, below=0) for r in kept)
        return replace(turns, records=kept)


def exploration_factor(
    mean_variance: float, best: float, initial_mean: float, initial_variance: float
) -> float:
    """Return lambda = (mean_variance / (initial_mean / best)) / initial_variance, at least 0.

    Source: Willemsen et al. 2021, section III-F. The factor shrinks as the model becomes certain and as the best cost
    improves on the mean of the first sample.

    Args:
        mean_variance: Mean posterior variance over the candidates now.
        best: Lowest cost so far, in the user's unit. Negative costs are rates that are maximised; the time that
            corresponds to a rate is its inverse, so the ratio is inverted for them.
        initial_mean: Mean cost of the first sample, in the user's unit.
        initial_variance: Mean posterior variance over the candidates after the first sample.

    Returns:
        The factor. A ratio that is undefined (division by zero, or costs of both signs) counts as 1, its value before
        any improvement.
    """
    now, then = (initial_mean, best) if initial_mean < 0.0 else (best, initial_mean)
    remaining = now / then if then != 0.0 else 1.0
    if not math.isfinite(remaining) or remaining < 0.0:
        remaining = 1.0
    explored = mean_variance / initial_variance if initial_variance > 0.0 else 1.0
    return max(0.0, remaining * explored)


class IndexFeatures:
    """The features of a space in which every scalar is its index, from 0 to 1; permutations keep their own features.

    Section III-D normalises numerical inputs linearly, so that powers of two do not distort the model; the order of the
    values is the order in which the user lists them.

    Args:
        space: The space whose configurations are modelled.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.active = space.active
        active = {name: space.parameters[name] for name in self.active}
        bounds = space.bounds() if any(map(is_continuous, active.values())) else {}
        self._ranges: dict[str, tuple[float, float]] = {
            name: bounds[name] if is_continuous(parameter) else (0.0, parameter.cardinality - 1.0)
            for name, parameter in active.items()
            if parameter.width == 1
        }

    def features(self, codes: Codes) -> Features:
        """Return one column per scalar and the space's columns for permutations, ``(n, w)`` -> ``(n, k)``."""
        columns = [self._columns(name, codes) for name in self.active]
        return np.concatenate([np.empty((len(codes), 0)), *columns], axis=1)

    @cached_property
    def feature_owner(self) -> Ints:
        """For each column, the index of its parameter in `active`, ``(k,)``."""
        row = self._space.feasible.sample(1, np.random.default_rng(0))
        widths = [self._columns(name, row).shape[1] for name in self.active]
        return np.repeat(np.arange(len(self.active)), widths)

    def _columns(self, name: str, codes: Codes) -> Array:
        own = codes[:, self._space.columns[name]]
        if name not in self._ranges:
            return self._space.parameters[name].features(own)
        low, high = self._ranges[name]
        return (own - low) / (high - low) if high > low else own - low


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


def fixed_process(lengthscale: float = 1.5) -> GaussianProcess:
    """Return the Gaussian process of Table I, which uses all observations."""
    fixed, effort = (lengthscale, 1.0, 1e-6), Effort(seen_rows=sys.maxsize)
    return GaussianProcess(MATERN32, effort=effort, fixed=fixed)


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
    surrogate: Surrogate = field(default_factory=fixed_process)
    scale: FitScale = standardise
    candidates: int = 20_000

    def __post_init__(self) -> None:
        unknown = [name for name in self.acquisitions if name not in ACQUISITIONS]
        if unknown or not self.acquisitions:
            known = tuple(ACQUISITIONS)
            raise ValueError(f"acquisitions must be from {known}, not {self.acquisitions!r}")
        if self.exploration is not None:
            number_within("exploration", self.exploration, "[0, inf)")

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
