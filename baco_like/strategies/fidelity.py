"""Runs with a fidelity: cheap proxies are evaluated when they inform about the target; successive halving.

The first functions are views of such a run, and of one with tasks: the problem and the history of one part of the
space, and proposals back in the whole space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.acquisitions.functions import deviations, log_ei
from baco_like.acquisitions.protocol import REFUSED, Score
from baco_like.records import History, Observation, Outcome, Proposal, Status, Trial
from baco_like.records.objective import sign_of
from baco_like.records.objective_values import number_within
from baco_like.records.rows import row_keys
from baco_like.spaces import Space
from baco_like.spaces.design import uniform
from baco_like.spaces.fidelity import Fidelity
from baco_like.strategies import protocol
from baco_like.strategies.auto import FAILED_AS
from baco_like.strategies.bayesian.bayesian import Bayesian, BayesianState
from baco_like.strategies.bayesian.fitting import with_quantities
from baco_like.strategies.per_second import COST_EXPONENT, total_seconds
from baco_like.strategies.protocol import (
    HistoryStrategy,
    Prediction,
    Problem,
    Proposals,
    Strategy,
    proposed_rows,
)
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.model import GPModel
from baco_like.surrogates.gp.prior import SMOOTH_PRIORS
from baco_like.surrogates.protocol import Model


def fidelity_of(problem: Problem) -> Fidelity:
    """Return the fidelity of a problem that has one."""
    fidelity = problem.space.fidelity
    assert fidelity is not None
    return fidelity


def problem_at(problem: Problem, level: int) -> Problem:
    """Return the problem in which the fidelity has only the value with this index."""
    return replace(problem, space=problem.space.at_level(level))


def set_level(fidelity: Fidelity, codes: Codes, level: int) -> Codes:
    """Return a copy of rows of codes, (n, w), with the code of a level."""
    rows = np.array(codes, dtype=float)
    rows[:, fidelity.column] = level
    return rows


def history_at(problem: Problem, history: History, level: int) -> History:
    """Return the observed and pending trials at one level as a history of `problem_at`; they are numbered anew."""
    fidelity = fidelity_of(problem)
    return history_of_part(
        problem.space.at_level(level),
        history,
        lambda codes: codes[:, fidelity.column] == level,
        lambda codes: set_level(fidelity, codes, 0),
    )


def history_of_part(
    space: Space,
    history: History,
    is_part: Callable[[Codes], Mask],
    convert: Callable[[Codes], Codes],
) -> History:
    """Return the observed and pending trials of a part of a space; they are numbered anew.

    Args:
        space: The part as a space.
        history: The history of the whole space.
        is_part: Whether rows of the whole space belong to the part, ``(n, w)`` -> ``(n,)``.
        convert: Returns the rows of the part as rows of ``space``.
    """
    trials = history.trials
    kept = np.flatnonzero(is_part(history.codes))
    view = rebuild(
        space,
        history,
        [(trials[i], trials[i].outcome) for i in kept],
        convert(history.codes[kept]),
    )
    codes = history.pending_codes
    at = np.flatnonzero(is_part(codes))
    pending = [trial for i, trial in enumerate(history.pending.values()) if i in set(at)]
    view = replace(view, warm=int((kept < history.warm).sum()))
    numbered = [replace(t, id=view.next_id + i) for i, t in enumerate(pending)]
    return view.add_pending(numbered, convert(codes[at])) if pending else view


def rebuild(
    space: Space, history: History, kept: Iterable[tuple[Trial, Outcome | None]], codes: Codes
) -> History:
    """Return a history of some trials with other outcomes and codes, numbered anew.

    Args:
        space: Its space.
        history: Gives the direction.
        kept: The trials with their new outcomes.
        codes: Their rows of codes in the space, (n, w).
    """
    rows: dict[int, tuple[Trial, Codes | None]] = {}
    outcomes = []
    for i, ((trial, outcome), code) in enumerate(zip(kept, codes, strict=True)):
        assert outcome is not None
        rows[i] = (Trial(i, trial.config, trial.tag, trial.origin), code)
        outcomes.append(replace(outcome, trial_id=i))
    return History.start(space, history.direction).complete(outcomes, rows)[0]


def observation_at(fidelity: Fidelity, observation: Observation) -> Observation:
    """Return an observation with its code in the space of `problem_at`."""
    assert observation.code is not None
    return replace(observation, code=set_level(fidelity, observation.code[None, :], 0)[0])


def lift(fidelity: Fidelity, proposal: Proposal, level: int) -> Proposal:
    """Return a proposal of `problem_at` as one of the whole space at a level."""
    return replace(proposal, code=set_level(fidelity, proposal.code[None, :], level)[0])


def base_keys(fidelity: Fidelity, codes: Codes) -> list[bytes]:
    """Return a key of each row, (n, w), that is the same at all levels."""
    return row_keys(set_level(fidelity, codes, 0))


PAIRS = 4
"""Number of configurations that are evaluated both at the target and at a lower level before that level is judged."""

MOST_DISCORDANT = 0.25
"""Share of pairs of configurations in a different order above which a level is not used; 0.5 is chance."""

_MODEL_PHASES = ("design", "explore", "model", "restart")
"""Phases in the tags of strategies with a model; others evaluate at the target only."""


def _make_model_based() -> Bayesian:
    # The acquisition over levels needs correlations, which a table of candidates does not keep.
    surrogate = GaussianProcess(priors=SMOOTH_PRIORS, mean="constant")
    return Bayesian(surrogate, view=with_quantities, failed_as=FAILED_AS, holds=False)


class FidelityState(NamedTuple):
    """The state.

    Attributes:
        inner: State of the wrapped strategy, which sees the target only.
        seed: Seed of the feasibility model over all levels.
    """

    inner: Any
    seed: int


@dataclass(frozen=True, eq=False)
class AugmentedImprovement:
    """Expected improvement at the target, times the correlation with it, per cost: all on the log scale.

    Source: D. Huang, T. Allen, W. Notz and R. Miller, "Sequential kriging optimization using multiple-fidelity
    evaluations", Structural and Multidisciplinary Optimization 32 (2006), the augmented expected improvement: the
    product of EI at the highest fidelity, the posterior correlation of the two fidelities at x, and the ratio of their
    costs. The ratio has the exponent `COST_EXPONENT` here. The factor for repeated measurements is left out, because a
    configuration is evaluated once at a level.

    Attributes:
        fidelity: The fidelity parameter.
        observed: Codes of the configurations observed at the target, (n, w); the least predicted value there is the
            incumbent.
        costs: Cost of an evaluation at each level that may be used, by its index.
    """

    fidelity: Fidelity
    observed: Codes
    costs: Mapping[int, float]

    def bind(self, model: Model, incumbent: float, rng: Rng) -> Score:
        """Return the score; ``incumbent`` is of all levels and is not used."""
        assert isinstance(model, GPModel)
        target, column = self.fidelity.target, self.fidelity.column
        best = float(model.predict(self.observed)[0].min())

        def score(codes: Codes) -> Array:
            level, at_target = codes[:, column], set_level(self.fidelity, codes, target)
            result = log_ei(*model.predict(at_target), best)
            low = level != target
            if low.any():
                correlation = posterior_correlation(model, codes[low], at_target[low])
                result[low] += np.log(np.maximum(correlation, 1e-12))
            for i in range(target + 1):
                at = level == i
                if i in self.costs:
                    result[at] -= COST_EXPONENT * np.log(self.costs[i])
                else:
                    result[at] = REFUSED
            return np.asarray(result)

        return score


def posterior_correlation(model: GPModel, a: Codes, b: Codes) -> Array:
    """Return the posterior correlation of the values at a row of ``a`` and the same row of ``b``, (n, w) -> (n,).

    Rasmussen and Williams (2006), Eq. 2.24: k(a, b) - k(a, X) K^-1 k(X, b), divided by both deviations.
    """
    left, right = model.scaled_features(a), model.scaled_features(b)
    squared = ((left - right) ** 2).sum(axis=1)
    prior = model.fitted.outputscale * model.kernel.value(squared, np.empty_like(squared))
    solved = [model.covariance(x, model.rows) @ model.inverse_factor.T for x in (left, right)]
    covariance = prior - np.einsum("ij,ij->i", solved[0], solved[1])
    scales = [deviations(model.fitted.outputscale - (s**2).sum(axis=1)) for s in solved]
    return np.asarray(np.clip(covariance / (scales[0] * scales[1]), 0.0, 1.0))


@final
@dataclass(frozen=True)
class MultiFidelity:
    """Evaluates at lower fidelities when they rank configurations like the target, otherwise at the target only.

    The wrapped strategy sees the target only. Its first configurations are also evaluated at each lower level, in
    pairs. If at most a quarter of these configurations are in another order there, the level is used: the proposals
    come from a Gaussian process over all used levels (the fidelity is one more ordered parameter with its own
    lengthscale) and `AugmentedImprovement`. Each further pair is judged, so that a misleading level is dropped. Lower
    levels take at most as much time in a row as one evaluation at the target: otherwise dozens of proxies came before
    the best of them was evaluated at the target.

    Attributes:
        then: The strategy for the target.
        model_based: Models all used levels.
    """

    then: Strategy[Any]
    model_based: Bayesian = field(default_factory=_make_model_based)

    @property
    def draws_in_tell(self) -> bool:
        """Whether the wrapped strategy does."""
        return protocol.draws_in_tell(self.then)

    def init(self, problem: Problem, rng: Rng) -> FidelityState:
        """Return the first state of the wrapped strategy, and a seed."""
        inner = self.then.init(problem_at(problem, fidelity_of(problem).target), rng)
        return FidelityState(inner, int(rng.integers(2**31)))

    def tell(
        self, problem: Problem, state: FidelityState, observation: Observation, rng: Rng
    ) -> FidelityState:
        """Pass observations at the target on."""
        fidelity = fidelity_of(problem)
        code = observation.code
        if code is None or code[fidelity.column] != fidelity.target:
            return state
        at_target = problem_at(problem, fidelity.target)
        own = observation_at(fidelity, observation)
        return state._replace(inner=self.then.tell(at_target, state.inner, own, rng))

    def ask(
        self, problem: Problem, history: History, state: FidelityState, n: int, rng: Rng
    ) -> Proposals:
        """Return n proposals, each as if the ones before it were pending."""
        proposals: list[Proposal] = []
        while len(proposals) < n:
            more = self._next(problem, history, state, rng)
            proposals += more
            if not more:
                break
            history = history.assume_pending(np.array([p.code for p in more]))
        return proposals

    def predict(
        self, problem: Problem, history: History, state: FidelityState, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the predictions of the wrapped strategy for configurations at the target, ``(n, w)``.

        Raises:
            TrialError: It has no model, or there are too few observations at the target.
        """
        target = fidelity_of(problem).target
        own, view = problem_at(problem, target), history_at(problem, history, target)
        rows = set_level(fidelity_of(problem), codes, 0)
        return protocol.require_predictive(self.then).predict(own, view, state.inner, rows, rng)

    def _next(
        self, problem: Problem, history: History, state: FidelityState, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the next proposal; none if the space is exhausted."""
        fidelity = fidelity_of(problem)
        target = fidelity.target
        view = history_at(problem, history, target)
        inner = self.then.ask(problem_at(problem, target), view, state.inner, 1, rng)
        own = [lift(fidelity, proposal, target) for proposal in inner]
        phase = own[0].tag.get("phase") if own and isinstance(own[0].tag, Mapping) else None
        if own and phase not in _MODEL_PHASES:
            return own
        levels = [judge_level(fidelity, history, level) for level in range(target)]
        pair = _missing_pair(problem, history, levels)
        if pair is not None:
            return [pair]
        used = {level for level, judged in enumerate(levels) if judged.is_used}
        if not used or phase != "model":
            return own
        shown = adjusted(problem, history, {i: levels[i].ratio for i in used})
        at_target = shown.codes[shown.is_success]
        costs = level_costs(fidelity, history, {*used, target})
        if _spent_below(fidelity, history, costs) >= costs[target]:
            costs = {target: costs[target]}
        acquisition = AugmentedImprovement(fidelity, at_target, costs)
        limit = self.model_based.scan_limit * (target + 1)
        strategy = replace(self.model_based, acquisition=acquisition, scan_limit=limit)
        return strategy.ask(problem, shown, BayesianState(state.seed), 1, rng)


def _spent_below(fidelity: Fidelity, history: History, costs: Mapping[int, float]) -> float:
    """Return the cost of the evaluations below the target since the last one at the target, pending ones included."""
    levels = np.concatenate([history.codes, history.pending_codes])[:, fidelity.column]
    at_target = np.flatnonzero(levels == fidelity.target)
    later = levels[at_target[-1] + 1 :] if len(at_target) else levels
    return float(sum(costs.get(int(level), 0.0) for level in later))


class JudgedLevel(NamedTuple):
    """Agreement of a lower level with the target, from pairs of results.

    Attributes:
        pairs: Number of configurations observed there and at the target.
        discordant: Share of pairs of them in another order; 0 with fewer than two.
        ratio: Typical factor from a value at the target to the value there, or difference if values are not positive.
    """

    pairs: int
    discordant: float
    ratio: float

    @property
    def is_used(self) -> bool:
        """Whether there are enough pairs, most of them in the same order."""
        return self.pairs >= PAIRS and self.discordant <= MOST_DISCORDANT


def judge_level(fidelity: Fidelity, history: History, level: int) -> JudgedLevel:
    """Compare the values of configurations that have succeeded at a level and at the target."""
    ok = history.where(Status.OK)
    values: list[dict[bytes, float]] = []
    for i in (level, fidelity.target):
        rows = np.flatnonzero(ok & (history.codes[:, fidelity.column] == i))
        keys = base_keys(fidelity, history.codes[rows])
        values.append(dict(zip(keys, history.costs[rows].tolist(), strict=True)))
    both = [key for key in values[1] if key in values[0]]
    low, high = (np.array([known[key] for key in both]) for known in values)
    if not len(both):
        return JudgedLevel(0, 0.0, 0.0)
    first, second = np.triu_indices(len(both), 1)
    opposite = np.sign(low[first] - low[second]) * np.sign(high[first] - high[second]) < 0
    discordant = float(opposite.mean()) if len(first) else 0.0
    is_ratio = has_one_sign(history)
    ratio = float(np.median(low / high if is_ratio else low - high))
    return JudgedLevel(len(both), discordant, ratio)


def has_one_sign(history: History) -> bool:
    """Whether all values are positive, or all negative, so that ratios have a meaning."""
    costs = history.costs[history.where(Status.OK)]
    return bool(np.all(costs > 0) or np.all(costs < 0))


def adjusted(problem: Problem, history: History, ratios: Mapping[int, float]) -> History:
    """Return the history of the target and of some lower levels, whose values are brought to the size of the target's.

    Args:
        problem: The problem.
        history: The whole history.
        ratios: `JudgedLevel.ratio` of the levels.
    """
    fidelity, is_ratio = fidelity_of(problem), has_one_sign(history)
    factors = {**ratios, fidelity.target: 1.0 if is_ratio else 0.0}
    sign = sign_of(history.direction)

    def convert(outcome: Outcome | None, level: int) -> Outcome | None:
        """Return an outcome of a level at the size of the target's."""
        if outcome is None or level == fidelity.target:
            return outcome
        factor = factors[level]

        def shift(x: float | None) -> float | None:
            return None if x is None else x / factor if is_ratio else x - sign * factor

        sem = None if outcome.sem is None else outcome.sem / factor if is_ratio else outcome.sem
        return replace(outcome, value=shift(outcome.value), bound=shift(outcome.bound), sem=sem)

    trials, level = history.trials, history.codes[:, fidelity.column]
    rows = [i for i in np.flatnonzero(history.inside) if int(level[i]) in factors]
    kept = [(trials[i], convert(trials[i].outcome, int(level[i]))) for i in rows]
    shown = rebuild(problem.space, history, kept, history.codes[rows])
    return shown.assume_pending(history.pending_codes)


def level_costs(fidelity: Fidelity, history: History, levels: set[int]) -> dict[int, float]:
    """Return the median seconds of an evaluation at each level, or the values of the levels if a time is unknown."""
    column, trials = history.codes[:, fidelity.column], history.trials
    seconds: dict[int, list[float]] = {level: [] for level in levels}
    for i, trial in enumerate(trials):
        if column[i] in seconds and trial.status is Status.OK:
            seconds[int(column[i])].append(total_seconds([trial]))
    if all(known and np.median(known) > 0 for known in seconds.values()):
        return {level: float(np.median(known)) for level, known in seconds.items()}
    numbers = all(isinstance(v, int | float) and v > 0 for v in fidelity.levels)
    return {i: float(fidelity.levels[i]) if numbers else i + 1.0 for i in levels}


def _missing_pair(
    problem: Problem, history: History, levels: Sequence[JudgedLevel]
) -> Proposal | None:
    """Return the first configuration at the target that a lower level still needs for its judgement, or None."""
    fidelity = fidelity_of(problem)
    at_target = history.codes[history.is_success]
    pending = history.pending_codes[:, fidelity.column]
    for level, judged in enumerate(levels):
        if judged.pairs + int((pending == level).sum()) >= PAIRS:
            continue
        rows = set_level(fidelity, at_target[:PAIRS], level)
        free = rows[problem.space.feasible.contains(rows) & ~history.is_excluded(rows)]
        if len(free):
            return Proposal(
                free[0], {"phase": "pair", "note": "compares this fidelity with the target"}
            )
    return None


@final
@dataclass(frozen=True)
class SuccessiveHalving(HistoryStrategy):
    """Starts configurations at the lowest fidelity and promotes the best share of each level to the next one.

    A level promotes its best configurations as soon as it has enough (asynchronous successive halving: L. Li et al.,
    "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, Algorithm 2). New configurations are uniform
    draws, or come from a model of the highest level with enough successes (BOHB: S. Falkner, A. Klein and F. Hutter,
    ICML 2018, section 4; the model here is a Gaussian process).

    Attributes:
        eta: One of so many configurations is promoted.
        random_share: Probability that a new configuration is a uniform draw.
        model_based: Proposes the others.

    Raises:
        ValueError: A setting is out of range.
    """

    uses_fidelity: ClassVar[bool] = True

    eta: float = 3.0
    random_share: float = 1.0 / 3.0
    model_based: Bayesian = field(default_factory=Bayesian)

    def __post_init__(self) -> None:
        number_within("eta", self.eta, "(1, inf)")
        number_within("random_share", self.random_share, "[0, 1]")

    def init(self, problem: Problem, rng: Rng) -> int:
        """Return the seed of the models."""
        return int(rng.integers(2**31))

    def ask(self, problem: Problem, history: History, state: int, n: int, rng: Rng) -> Proposals:
        """Return n proposals: promotions first, then new configurations. Without a fidelity there is one level."""
        if problem.space.fidelity is None:
            count = int((rng.random(n) >= self.random_share).sum())
            proposals = list(self._propose(problem, history, state, count, rng))
            history = history.assume_pending(proposed_rows(problem.space, proposals))
            excluded = partial(problem.is_excluded, history)
            rows = uniform(problem.space, n - len(proposals), rng, excluded)
            return [*proposals, *(Proposal(row, {"phase": "start"}) for row in rows)]
        proposals = []
        while len(proposals) < n:
            more = self._promote(problem, history) or self._start(problem, history, state, rng)
            if more is None:
                break
            proposals.append(more)
            history = history.assume_pending(more.code[None, :])
        return proposals

    def _propose(
        self, problem: Problem, history: History, seed: int, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return n proposals of a model at one level; none if it has too few successes."""
        if not n or history.where(Status.OK).sum() < len(problem.space.active) + 2:
            return []
        return self.model_based.ask(problem, history, BayesianState(seed), n, rng)

    def _promote(self, problem: Problem, history: History) -> Proposal | None:
        fidelity = fidelity_of(problem)
        level_of, ok = history.codes[:, fidelity.column], history.where(Status.OK)
        for level in reversed(range(fidelity.target)):
            rows = np.flatnonzero(ok & (level_of == level))
            best = rows[np.argsort(history.costs[rows], kind="stable")]
            promoted = set_level(
                fidelity, history.codes[best[: int(len(rows) / self.eta)]], level + 1
            )
            free = ~history.is_excluded(promoted) & problem.space.feasible.contains(promoted)
            if free.any():
                return Proposal(promoted[free][0], {"phase": "promotion"})
        return None

    def _start(self, problem: Problem, history: History, seed: int, rng: Rng) -> Proposal | None:
        """Return a new configuration at the lowest level, or None if there is no other."""
        fidelity = fidelity_of(problem)
        lowest = problem_at(problem, 0)
        seen = set(base_keys(fidelity, np.concatenate([history.codes, history.pending_codes])))
        if rng.random() >= self.random_share:
            for level in reversed(range(fidelity.target + 1)):
                view, own = history_at(problem, history, level), problem_at(problem, level)
                for proposal in self._propose(own, view, seed, 1, rng):
                    started = lift(fidelity, proposal, 0)
                    is_new = base_keys(fidelity, started.code[None, :])[0] not in seen
                    if is_new and problem.space.feasible.contains(started.code[None, :])[0]:
                        return started
        rows = uniform(lowest.space, 1, rng, partial(_are_known, seen))
        return Proposal(set_level(fidelity, rows, 0)[0], {"phase": "start"}) if len(rows) else None


def _are_known(seen: set[bytes], codes: Codes) -> Mask:
    """Return which rows at the lowest level, (n, w), are observed or pending at any level."""
    return np.array([key in seen for key in row_keys(codes)], dtype=np.bool_)
