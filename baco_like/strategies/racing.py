"""Iterated racing for noisy values (irace: López-Ibáñez et al. 2016; F-Race: Birattari et al. 2002).

Candidates are drawn near the best candidates of the previous race, the *elites*, and raced: every survivor is evaluated
once per round. After ``first_test`` rounds, Friedman's test drops the candidates that are worse than the best. A race
ends when few candidates are left or its share of the budget is spent. From race to race the draws get closer to their
elites, which are evaluated once more in each race (irace's elitist race with one new instance). Repeats of a
configuration take the place of irace's instances. Without noise (``noise="none"``) every configuration is evaluated
once; then a race has one round, and its best candidates are the elites.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.parameters.protocol import ParameterKind, is_sequence
from baco_like.records import History, Observation, Proposal
from baco_like.records.rows import row_keys
from baco_like.spaces import Space
from baco_like.spaces.design import uniform
from baco_like.spaces.rows import drop_duplicates
from baco_like.strategies import moves, settings
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.observed_costs import ObservedCosts, is_lost
from baco_like.strategies.protocol import Problem, Proposals
from baco_like.strategies.settings import BY_BUDGET, BudgetedSettings, setting

_MOST_ROUNDS = 5
"""Limit on the planned rounds that are added with the number of the race (irace's min(5, j))."""

_WIDE = 0.5
"""Standard deviation of the first draws (irace: half the range)."""


@dataclass(frozen=True)
class RaceState:
    """The state: the current race, and the records of the previous ones.

    Attributes:
        seed: Seed of the draws.
        observed: The observed costs.
        failed: Keys of the configurations that have failed.
        number: Number of the race, from 1.
        candidates: Candidates of the race, ``(m, w)``.
        costs: Costs of each candidate, oldest first; elites keep their earlier ones.
        alive: Candidates that are not dropped, ``(m,)``.
        raced: Candidates that were evaluated in this race, ``(m,)``; without noise, elites count as evaluated.
        round: Number of evaluations that every survivor must have.
        spent: Number of evaluations in this race.
        share: Number of evaluations planned for this race.
        spread: Standard deviation of the draws on the unit box.
        used: Number of evaluations in the run, without reported ones that were not suggested.
        outsider: The best such reported row that is not a candidate, with its cost, or None.
        waited: Number of outcomes since the last one of a candidate that this round needs.
    """

    seed: int
    observed: ObservedCosts = field(default_factory=ObservedCosts)
    failed: frozenset[bytes] = frozenset()
    number: int = 0
    candidates: Codes = field(default_factory=lambda: np.empty((0, 0)))
    costs: tuple[tuple[float, ...], ...] = ()
    alive: Mask = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    raced: Mask = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    round: int = 1
    spent: int = 0
    share: int = 0
    spread: float = _WIDE
    used: int = 0
    outsider: tuple[Array, float] | None = None
    waited: int = 0

    @property
    def survivors(self) -> list[int]:
        """Indices of the candidates that are not dropped."""
        indices: list[int] = np.flatnonzero(self.alive).tolist()
        return indices

    @property
    def missing(self) -> list[int]:
        """Indices of the survivors that need an evaluation in this round."""
        return [i for i in self.survivors if not self.raced[i] or len(self.costs[i]) < self.round]

    def ranking(self) -> list[int]:
        """Return the indices of the survivors, the one with the least mean cost first."""
        evaluated = [i for i in self.survivors if self.costs[i]]
        return sorted(evaluated, key=lambda i: _mean(self.costs[i]))


@final
@dataclass(frozen=True)
class Racing(BudgetedSettings):
    """Iterated racing; settings left open follow Table III of Schoonhoven et al. 2022.

    Use it with ``noise="repeat"`` if repeated measurements differ more than configurations do. Source: López-Ibáñez et
    al. 2016 (irace); Birattari et al. 2002 (F-Race).

    Attributes:
        first_test: Number of rounds before the first test, at least 2; None: by the budget.
        confidence: Confidence level of the test, from 0.5 to below 1.
        effort: Number of evaluations planned for each candidate of a race, at least 1, before those that are added with
            the number of the race (irace's mu).

    Raises:
        ValueError: A setting has an invalid value.
    """

    first_test: int = setting(BY_BUDGET, within="[2, inf)")
    confidence: float = setting(0.95, within="[0.5, 1)")
    effort: int = setting(5, within="[1, inf)")

    survey: ClassVar = settings.RACING

    def init(self, problem: Problem, rng: Rng) -> RaceState:
        """Return the first race."""
        return self._next_race(problem, RaceState(int(rng.integers(2**31))))

    def ask(
        self, problem: Problem, history: History, state: RaceState, n: int, rng: Rng
    ) -> Proposals:
        """Return the candidates that this round needs, then survivors for the next rounds."""
        ahead = state.survivors if problem.noise == "repeat" else []
        rows = state.candidates[list(dict.fromkeys([*state.missing, *ahead]))]
        rows = rows[~problem.is_excluded(history, rows)][:n]
        return [Proposal(row, {"phase": "racing", "race": state.number}) for row in rows]

    def tell(
        self, problem: Problem, state: RaceState, observation: Observation, rng: Rng
    ) -> RaceState:
        """Note the cost, and continue the race if the round is complete."""
        if observation.code is None:
            return state
        state = _note_cost(state, observation)
        if is_lost(state.waited, int(state.alive.sum())):
            alive = state.alive.copy()
            alive[state.missing] = False
            state = replace(state, alive=alive, waited=0)
        return self._continue_race(problem, state)

    def _continue_race(self, problem: Problem, state: RaceState) -> RaceState:
        """Return the state that needs an evaluation, or in which there is nothing new to race."""
        first_test = self.for_budget(problem.budget).first_test
        while not state.missing:
            if problem.noise == "repeat" and state.round >= first_test and state.alive.sum() > 1:
                # Candidates are compared by their first costs, one for each round.
                costs = np.array([state.costs[i][: state.round] for i in state.survivors]).T
                alive = state.alive.copy()
                alive[state.survivors] = ~worse_than_best(costs, 1.0 - self.confidence)
                state = replace(state, alive=alive)
            survivors = len(state.survivors)
            over = survivors <= _elites(problem) or state.spent + survivors > state.share
            if problem.noise == "repeat" and not over:
                state = replace(state, round=state.round + 1)
                continue
            state = self._next_race(problem, state)
            if problem.noise == "none" or not state.alive.any():
                break
        return state

    def _next_race(self, problem: Problem, state: RaceState) -> RaceState:
        """Return the next race between the best candidates, the outsider, and draws near the best."""
        most = _elites(problem)
        elites = state.ranking()[:most]
        # As many races as elites are planned; after them the draws are wide again.
        number = state.number % most + 1
        total = problem.budget or settings.UNKNOWN_BUDGET
        share = math.ceil(max(total - state.used, total / most) / (most - number + 1))
        planned = 1 if problem.noise == "none" else self.effort + min(_MOST_ROUNDS, number)
        count = max(share // planned - len(elites), 2)
        axes = max(1, UnitBox.of(problem.space).axes)
        spread = _WIDE if number == 1 else state.spread * count ** (-1.0 / axes)
        entries = [(state.candidates[i], state.costs[i]) for i in elites]
        if state.outsider is not None:
            entries.append((state.outsider[0], (state.outsider[1],)))
        entries.sort(key=lambda entry: _mean(entry[1]))
        old = np.array([row for row, _ in entries]).reshape(-1, problem.space.width)
        new = _draw_candidates(problem, state, old, count, spread, closeness=(number - 1) / most)
        candidates = np.concatenate([old, new])
        costs = (*(costs for _, costs in entries), *(() for _ in new))
        alive = np.ones(len(candidates), dtype=np.bool_)
        raced = np.arange(len(candidates)) < (len(old) if problem.noise == "none" else 0)
        lasting = state.seed, state.observed, state.failed
        race = RaceState(*lasting, number, candidates, costs, alive, raced, used=state.used)
        return replace(race, share=share, spread=spread)


def _mean(costs: Sequence[float]) -> float:
    """Return the mean; dividing first avoids an overflow of the sum."""
    return math.fsum(cost / len(costs) for cost in costs)


def _elites(problem: Problem) -> int:
    """Return the number of candidates with which a race ends and the number of planned races: floor(2 + log2 k)."""
    return int(2 + math.log2(max(1, len(problem.space.active))))


def _note_cost(state: RaceState, observation: Observation) -> RaceState:
    """Return the state after one observation, of a candidate or of any other configuration."""
    code, cost = observation.code, observation.cost
    assert code is not None
    (key,) = row_keys(code[None, :])
    keys = row_keys(state.candidates)
    state = replace(
        state,
        observed=state.observed.add(key, cost),
        used=state.used + (observation.origin not in ("told", "imported")),
        failed=state.failed if math.isfinite(cost) else state.failed | {key},
    )
    is_own = observation.read_tag("phase") == "racing"
    waited = state.waited + (is_own or observation.origin == "fill")
    if key not in keys:
        better = math.isfinite(cost) and (state.outsider is None or cost < state.outsider[1])
        return replace(state, outsider=(code, cost) if better else state.outsider, waited=waited)
    candidate = keys.index(key)
    waited = 0 if candidate in state.missing else waited
    alive, raced, costs = state.alive.copy(), state.raced.copy(), list(state.costs)
    raced[candidate] = True
    if math.isfinite(cost):
        costs[candidate] = (*costs[candidate], cost)
    else:
        alive[candidate] = False
    race = replace(state, alive=alive, raced=raced, costs=tuple(costs), waited=waited)
    return replace(race, spent=state.spent + 1)


def _draw_candidates(
    problem: Problem, state: RaceState, old: Codes, count: int, spread: float, closeness: float
) -> Codes:
    """Return new candidates: near the old ones, better ones more often, then uniform draws if some are missing."""
    rng = np.random.default_rng([state.seed, len(state.observed)])
    excluded, once = {*row_keys(old), *state.failed}, problem.noise == "none"

    def is_excluded(codes: Codes) -> Mask:
        """Return which rows are candidates already, have failed, or may not be evaluated again."""
        known = state.observed.cost
        keys = row_keys(codes)
        return np.array([k in excluded or (once and known(k) is not None) for k in keys], bool)

    rows = old[:0]
    if len(old):
        near = draw_near_elites(problem.space, old, 2 * count, spread, closeness, rng)
        rows = drop_duplicates(near[~is_excluded(near)])[:count]
        excluded.update(row_keys(rows))
    return np.concatenate([rows, uniform(problem.space, count - len(rows), rng, is_excluded)])


def draw_near_elites(
    space: Space, elites: Codes, count: int, spread: float, closeness: float, rng: Rng
) -> Codes:
    """Return feasible rows near elites, ``(count, w)``; the z-th of E elites has weight E - z + 1 (irace).

    Coordinates on the unit box are truncated normal draws around the elite's. Categorical parameters keep the elite's
    value with a probability; otherwise any value is drawn. Infeasible rows are replaced by the nearest feasible ones.

    Args:
        space: The space.
        elites: The elites, best first, ``(E, w)``.
        count: Number of draws.
        spread: Standard deviation on the unit box.
        closeness: Probability that a categorical parameter has its elite's value.
        rng: Random generator.
    """
    from scipy.special import ndtr, ndtri

    box = UnitBox.of(space)
    weights = np.arange(len(elites), 0, -1.0)
    parents = rng.choice(len(elites), count, p=weights / weights.sum())
    centres = box.to_unit(elites)[parents]
    low, high = ndtr(-centres / spread), ndtr((1.0 - centres) / spread)
    points = centres + spread * ndtri(low + (high - low) * rng.random(centres.shape))
    is_unordered = [p.kind is ParameterKind.UNORDERED for p in space.parameters.values()]
    starts = np.array([space.columns[name].start for name in space.names])
    unordered = box.binned_axes[np.isin(box.binned, starts[is_unordered])]
    kept = rng.random((count, len(unordered))) < closeness
    anywhere = rng.random((count, len(unordered)))
    points[:, unordered] = np.where(kept, centres[:, unordered], anywhere)
    rows = box.from_unit(points)
    for name in space.active:
        parameter, at = space.parameters[name], space.columns[name]
        if is_sequence(parameter):  # neighbouring numbers are unrelated elements
            rows[:, at] = elites[parents][:, at]
            for _ in range(max(1, round(spread * parameter.width))):
                rows[:, at] = parameter.change(rows[:, at], rng)
    return moves.repair_by_nearest(space, space.activity.at_rest(rows), rng)


def worse_than_best(costs: Array, level: float) -> Mask:
    """Return which candidates are worse than the one with the least sum of ranks, ``(m,)``.

    Candidates are ranked within each block; ties get their mean rank. If Friedman's test at this level finds
    differences, a candidate is worse if its sum of ranks exceeds the least one by more than Conover's critical
    difference (Conover 1999, section 5.8; the test of F-Race, Birattari et al. 2002).

    Args:
        costs: One row per block, one column per candidate, ``(b, m)`` with b, m >= 2.
        level: Probability of an error of the first kind.
    """
    from scipy.special import chdtrc, stdtrit

    blocks, m = costs.shape
    ranks = rank_rows(costs)
    sums = ranks.sum(axis=0)
    squares = float((ranks**2).sum())
    centre = blocks * m * (m + 1) ** 2 / 4.0
    if squares <= centre:  # all candidates are tied in every block
        return np.zeros(m, dtype=np.bool_)
    statistic = (m - 1) * float(((sums - blocks * (m + 1) / 2.0) ** 2).sum()) / (squares - centre)
    if chdtrc(m - 1, statistic) >= level:
        return np.zeros(m, dtype=np.bool_)
    freedom = (blocks - 1) * (m - 1)
    variance = 2.0 * max(0.0, blocks * squares - float((sums**2).sum())) / freedom
    critical = float(stdtrit(freedom, 1.0 - level / 2.0)) * np.sqrt(variance)
    return np.asarray(sums - sums.min() > critical)


def rank_rows(costs: Array) -> Array:
    """Return the ranks from 1 within each row, ties by their mean rank, ``(b, m)`` -> ``(b, m)``."""
    others, own = costs[:, None, :], costs[:, :, None]
    below, equal = (others < own).sum(axis=2), (others == own).sum(axis=2)
    return np.asarray(below + (equal + 1.0) / 2.0)
