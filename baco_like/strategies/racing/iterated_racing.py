"""Iterated racing for noisy values (irace: López-Ibáñez et al. 2016; F-Race: Birattari et al. 2002).

Candidates are drawn around the best of the race before, the *elites*, and raced: every survivor is evaluated once
more each round, and after ``first_test`` rounds those that Friedman's test finds worse than the best are dropped. A
race ends when few are left or its share of the budget is spent; from race to race the draws come nearer to their
elites, which are evaluated once more in each (irace's elitist race with one new instance). Repeats of a configuration
stand for irace's instances. Without noise (``noise="none"``) nothing is evaluated twice, so a race is one round and
its best are the elites.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.records.history import History, row_keys
from baco_like.records.trial import Observation, Proposal
from baco_like.spaces.design import uniform
from baco_like.spaces.rows import distinct
from baco_like.strategies.geometry.continuous import UnitBox
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.protocol import Problem
from baco_like.strategies.racing.elite_draws import Draws, around
from baco_like.strategies.racing.friedman import worse_than_best
from baco_like.strategies.survey_defaults import RACING, UNKNOWN_BUDGET, resolved

_MOST_ROUNDS = 5
"""Rounds by which the plan of a race grows with its number (irace's min(5, j))."""

_WIDE = 0.5
"""Standard deviation of the first draws (irace: half the range)."""

_PATIENCE = 8
"""At least so many other outcomes come before a race goes on without a candidate whose outcome does not."""


@dataclass(frozen=True)
class Race:
    """A race in progress, and what stays of those before.

    Attributes:
        seed: Of the draws.
        memo: What is known.
        failed: Keys of configurations that have failed.
        number: Number of the race, from 1.
        candidates: Rows in the race, ``(m, w)``.
        costs: What each has cost, oldest first; elites bring theirs along.
        alive: Which are not dropped, ``(m,)``.
        raced: Which were evaluated in this race, ``(m,)``; where nothing may be repeated, elites count as such.
        round: Evaluations that every survivor is to have.
        spent: Evaluations of this race.
        share: Evaluations that it may take.
        spread: Standard deviation of the draws on the unit box.
        used: Evaluations of the run, without what was told.
        guest: The best told row that is no candidate with its cost, or None.
        waited: Outcomes since the last one of a candidate that this round waits for.
    """

    seed: int
    memo: ObservedCosts = field(default_factory=ObservedCosts)
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
    guest: tuple[Array, float] | None = None
    waited: int = 0

    @property
    def missing(self) -> list[int]:
        """Survivors that this round waits for."""
        alive = np.flatnonzero(self.alive).tolist()
        return [i for i in alive if not self.raced[i] or len(self.costs[i]) < self.round]

    def ranking(self) -> list[int]:
        """Return the survivors, the one with the least mean cost first."""
        alive = [i for i in np.flatnonzero(self.alive).tolist() if self.costs[i]]
        return sorted(alive, key=lambda i: _mean(self.costs[i]))


@final
@dataclass(frozen=True)
class Racing:
    """Iterated racing; settings left open follow Table III of Schoonhoven et al. 2022.

    Attributes:
        first_test: Rounds before the first test, at least 2.
        confidence: Of the test.
        effort: Evaluations planned for each candidate of a race, before those that grow with its number (irace's mu).

    Raises:
        ValueError: A setting has a wrong value.
    """

    first_test: int | None = None
    confidence: float = 0.95
    effort: int = 5

    def __post_init__(self) -> None:
        if self.first_test is not None and self.first_test < 2:
            raise ValueError(f"first_test is {self.first_test}; give at least 2 rounds")
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence}; give a number from 0.5 to below 1")
        if self.effort < 1:
            raise ValueError(f"effort is {self.effort}; give at least 1 evaluation")

    def init(self, problem: Problem, rng: Rng) -> Race:
        """Draw the first candidates."""
        return self._next_race(problem, Race(int(rng.integers(2**31))))

    def ask(
        self, problem: Problem, history: History, state: Race, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the candidates that this round waits for, then survivors for the rounds after it."""
        ahead = np.flatnonzero(state.alive).tolist() if problem.noise == "repeat" else []
        rows = state.candidates[list(dict.fromkeys([*state.missing, *ahead]))]
        rows = rows[~problem.is_excluded(history, rows)][:n]
        return [Proposal(row, {"phase": "racing", "race": state.number}) for row in rows]

    def tell(self, problem: Problem, state: Race, observation: Observation, rng: Rng) -> Race:
        """Note the cost, and go on with the race if the round is complete."""
        code = observation.code
        if code is None:
            return state
        asked = observation.origin not in ("told", "imported")
        memo = state.memo.add(row_keys(code[None, :])[0], observation.cost)
        state = replace(state, memo=memo, used=state.used + asked)
        state = _noted(state, code, observation.cost, _ours(observation))
        if state.waited > max(_PATIENCE, 2 * int(state.alive.sum())):
            alive = state.alive.copy()
            alive[state.missing] = False
            state = replace(state, alive=alive, waited=0)
        return self._raced(problem, state)

    def _raced(self, problem: Problem, state: Race) -> Race:
        """Return the state in which the race waits for something, or in which nothing new is left to race."""
        first_test = resolved(RACING, problem.budget, {"first_test": self.first_test})["first_test"]
        while not state.missing:
            if problem.noise == "repeat" and state.round >= first_test and state.alive.sum() > 1:
                state = _tested(state, 1.0 - self.confidence)
            left = int(state.alive.sum())
            over = left <= _kept(problem) or state.spent + left > state.share
            if problem.noise == "repeat" and not over:
                state = replace(state, round=state.round + 1)
                continue
            state = self._next_race(problem, state)
            if problem.noise == "none" or not state.alive.any():
                break
        return state

    def _next_race(self, problem: Problem, state: Race) -> Race:
        """Return the race after this one: its best, the best told row, and draws around the best."""
        kept = _kept(problem)
        elites = state.ranking()[:kept]
        # As many races as elites are planned; after them the draws are wide again.
        number = state.number % kept + 1
        total = problem.budget or UNKNOWN_BUDGET
        share = math.ceil(max(total - state.used, total / kept) / (kept - number + 1))
        planned = 1 if problem.noise == "none" else self.effort + min(_MOST_ROUNDS, number)
        fresh = max(share // planned - len(elites), 2)
        axes = max(1, UnitBox.of(problem.space).axes)
        spread = _WIDE if number == 1 else state.spread * fresh ** (-1.0 / axes)
        entries = [(state.candidates[i], state.costs[i]) for i in elites]
        if state.guest is not None:
            entries.append((state.guest[0], (state.guest[1],)))
        entries.sort(key=lambda entry: _mean(entry[1]))
        old = np.array([row for row, _ in entries]).reshape(-1, problem.space.width)
        rng = np.random.default_rng([state.seed, len(state.memo)])
        new = _drawn(problem, state, old, Draws(fresh, spread, (number - 1) / kept), rng)
        return replace(
            state,
            number=number,
            candidates=np.concatenate([old, new]),
            costs=(*(costs for _, costs in entries), *(() for _ in new)),
            alive=np.ones(len(old) + len(new), dtype=np.bool_),
            raced=np.arange(len(old) + len(new)) < (len(old) if problem.noise == "none" else 0),
            round=1,
            spent=0,
            share=share,
            spread=spread,
            guest=None,
            waited=0,
        )


def _mean(costs: Sequence[float]) -> float:
    return math.fsum(cost / len(costs) for cost in costs)


def _kept(problem: Problem) -> int:
    """Return how many candidates a race ends with, and how many races are planned: floor(2 + log2 k) both."""
    return int(2 + math.log2(max(1, len(problem.space.active))))


def _ours(observation: Observation) -> bool:
    tag = observation.tag
    return observation.origin == "fill" or (
        isinstance(tag, Mapping) and tag.get("phase") == "racing"
    )


def _noted(state: Race, code: Array, cost: float, ours: bool) -> Race:
    """Return the state that knows what a candidate, or any other configuration, has cost."""
    (key,) = row_keys(code[None, :])
    keys = row_keys(state.candidates)
    failed = state.failed if math.isfinite(cost) else state.failed | {key}
    if key not in keys:
        better = math.isfinite(cost) and (state.guest is None or cost < state.guest[1])
        guest = (code, cost) if better else state.guest
        return replace(state, failed=failed, guest=guest, waited=state.waited + ours)
    place = keys.index(key)
    alive, raced, costs = state.alive.copy(), state.raced.copy(), list(state.costs)
    raced[place] = True
    if math.isfinite(cost):
        costs[place] = (*costs[place], cost)
    else:
        alive[place] = False
    waited = 0 if place in state.missing else state.waited + ours
    return replace(
        state,
        failed=failed,
        alive=alive,
        raced=raced,
        costs=tuple(costs),
        spent=state.spent + 1,
        waited=waited,
    )


def _tested(state: Race, level: float) -> Race:
    """Return the race without the candidates that are worse than the best, by their first costs."""
    places = np.flatnonzero(state.alive)
    costs = np.array([state.costs[i][: state.round] for i in places]).T
    alive = state.alive.copy()
    alive[places[worse_than_best(costs, level)]] = False
    return replace(state, alive=alive)


def _drawn(problem: Problem, state: Race, old: Codes, draws: Draws, rng: Rng) -> Codes:
    """Return new candidates: around the old ones, better ones more often, or uniform where there are none."""
    known = set(row_keys(old))

    def taken(codes: Codes) -> Mask:
        if problem.noise == "none":
            return ~np.isnan(state.memo.costs(codes))
        return np.array([key in known or key in state.failed for key in row_keys(codes)], bool)

    rows = old[:0]
    if len(old):
        near = around(problem.space, old, draws, rng)
        rows = distinct(near[~taken(near)])[: draws.count]
        known.update(row_keys(rows))
    rest = draws.count - len(rows)
    seen = set(row_keys(rows))
    more = uniform(
        problem.space,
        rest,
        rng,
        lambda codes: taken(codes) | np.array([key in seen for key in row_keys(codes)], bool),
    )
    return np.concatenate([rows, more])
