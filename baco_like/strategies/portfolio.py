"""Several strategies share one run; a rule selects which of them proposes next.

All strategies receive every observation. The tag of a proposal holds the name of the arm and the arm's own tag. Each
arm sees the run as if it were alone: its own proposals with its own tags, all others as if the user had reported them.
Therefore an arm may be a portfolio itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, final

import numpy as np

from baco_like._plugins import is_foreign
from baco_like._typing import Array, Rng
from baco_like.records import History, Observation, Proposal, Trial
from baco_like.strategies.protocol import Problem, Strategy, check_proposals, proposed_rows
from baco_like.strategies.settings import CheckedSettings, setting

T = TypeVar("T", bound=Trial)

ArmUse = tuple[int, bool]
"""The arm that made a proposal, and whether the proposal's value was the best so far."""


class ArmUses(NamedTuple):
    """The proposals of all arms.

    Attributes:
        totals: Number of observed and pending proposals of each arm.
        pending: Number of pending proposals of each arm.
        log: The observed proposals, oldest first, limited to the rule's window.
    """

    totals: tuple[int, ...]
    pending: tuple[int, ...]
    log: Sequence[ArmUse]


class ArmRule(Protocol):
    """Selects the next arm."""

    @property
    def window(self) -> int:
        """Number of the latest observed proposals that the rule reads."""

    def scores(self, uses: ArmUses) -> Array:
        """Return a score for each arm, ``(arms,)``; the highest is selected, ties at random."""


@final
@dataclass(frozen=True)
class RoundRobin:
    """Selects the arm with the fewest proposals."""

    window: int = 0

    def scores(self, uses: ArmUses) -> Array:
        """Return minus the number of proposals; of equal arms the first scores higher."""
        arms = len(uses.totals)
        return -np.asarray(uses.totals, dtype=np.float64) - np.arange(arms) / arms


@final
@dataclass(frozen=True)
class AreaUnderCurve(CheckedSettings):
    """The AUC bandit of OpenTuner (Ansel et al., PACT 2014, section 5), after Fialho et al. 2010.

    Let V_1, ..., V_h be the uses of an arm among the last ``window`` uses: 1 if the use gave a new best value, else 0.
    The score is 2 / (h (h + 1)) * sum of i V_i, the area under a curve that rises at every success, plus
    ``exploration`` times sqrt(2 log2(H) / h), where H is the number of uses of all arms. In the second term, h and H
    include pending uses so that a batch is shared out. An arm without uses comes first.

    Attributes:
        window: Number of uses that count, at least 1 (500 in OpenTuner and pyATF).
        exploration: Weight of the second term, 0 or more (0.05 there).

    Raises:
        ValueError: The window is not positive, or the exploration is negative.
    """

    window: int = setting(500, within="[1, inf)")
    exploration: float = setting(0.05, within="[0, inf)")

    def scores(self, uses: ArmUses) -> Array:
        """Return the score of each arm, ``(arms,)``."""
        arms = len(uses.totals)
        log = uses.log[-self.window :]
        total = len(log) + sum(uses.pending)
        scores = np.full(arms, np.inf)
        for arm in range(arms):
            improved = [was_best for used, was_best in log if used == arm]
            count = len(improved) + uses.pending[arm]
            if count:
                spread = math.sqrt(2.0 * math.log2(total) / count)
                scores[arm] = area_under_curve(improved) + self.exploration * spread
        return scores


def area_under_curve(improved: Sequence[bool]) -> float:
    """Return 2 / (h (h + 1)) times the sum of the indices, from 1 to h, of the improvements; 0 if h is 0."""
    indices = sum(index for index, success in enumerate(improved, 1) if success)
    return 2.0 * indices / (len(improved) * (len(improved) + 1)) if improved else 0.0


def select_arm(scores: Array, rng: Rng) -> int:
    """Return the index of the highest score; ties are broken at random."""
    best = np.flatnonzero(scores == scores.max())
    return int(best[0] if len(best) == 1 else rng.choice(best))


@dataclass(frozen=True)
class PortfolioState:
    """State of a portfolio.

    Attributes:
        arms: State of each arm.
        totals: Number of observed proposals of each arm.
        log: The latest observed proposals, oldest first.
        best: Lowest cost so far.
    """

    arms: tuple[Any, ...]
    totals: tuple[int, ...]
    log: tuple[ArmUse, ...] = ()
    best: float = math.inf


@final
@dataclass(frozen=True)
class Portfolio:
    """Shares the evaluations among several strategies.

    Use it if it is unknown which strategy suits the problem. Each arm plans with an equal share of the budget.

    Attributes:
        arms: The strategies by name; the names are written to the journal.
        rule: Selects the next arm.

    Raises:
        ValueError: ``arms`` is empty.
    """

    arms: Mapping[str, Strategy[Any]]
    rule: ArmRule = field(default_factory=AreaUnderCurve)

    def __post_init__(self) -> None:
        if not self.arms:
            raise ValueError("a portfolio needs at least one strategy; give arms={name: strategy}")

    def init(self, problem: Problem, rng: Rng) -> PortfolioState:
        """Return the first states of the arms."""
        share = self._share_of(problem)
        states = tuple(arm.init(share, rng) for arm in self.arms.values())
        return PortfolioState(states, (0,) * len(states))

    def ask(
        self, problem: Problem, history: History, state: PortfolioState, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the proposals of the arms that the rule selects; arms with too few proposals are left out."""
        share = self._share_of(problem)
        names, strategies = list(self.arms), list(self.arms.values())
        owners = Counter(self._arm_of(trial) for trial in history.pending.values())
        pending = [owners[arm] for arm in range(len(names))]
        finished: set[int] = set()
        proposals: list[Proposal] = []
        while len(proposals) < n and len(finished) < len(names):
            turns = self._select_turns(state, pending, finished, n - len(proposals), rng)
            for arm, count in turns.items():
                seen = history.assume_pending(proposed_rows(problem.space, proposals))
                seen = seen.view_as(partial(self._retag, arm))
                new = strategies[arm].ask(share, seen, state.arms[arm], count, rng)
                if is_foreign(strategies[arm]):  # the optimizer would name the portfolio
                    check_proposals(strategies[arm], problem.space, new, count)
                proposals += [replace(p, tag={"arm": names[arm], "tag": p.tag}) for p in new]
                pending[arm] += len(new)
                if len(new) < count:
                    finished.add(arm)
        return proposals

    def tell(
        self, problem: Problem, state: PortfolioState, observation: Observation, rng: Rng
    ) -> PortfolioState:
        """Pass the observation on to every arm and note whether it is the best so far."""
        share = self._share_of(problem)
        arms = enumerate(zip(self.arms.values(), state.arms, strict=True))
        states = tuple(
            strategy.tell(share, arm_state, self._retag(arm, observation), rng)
            for arm, (strategy, arm_state) in arms
        )
        cost = observation.cost
        after = replace(state, arms=states, best=min(cost, state.best))
        used = self._arm_of(observation)
        if used is None:
            return after
        totals = tuple(total + (arm == used) for arm, total in enumerate(state.totals))
        log = (*state.log, (used, cost < state.best))
        return replace(after, totals=totals, log=log[max(0, len(log) - self.rule.window) :])

    def _share_of(self, problem: Problem) -> Problem:
        """Return the problem with an arm's share of the budget."""
        if problem.budget is None:
            return problem
        return replace(problem, budget=math.ceil(problem.budget / len(self.arms)))

    def _select_turns(
        self, state: PortfolioState, pending: Sequence[int], finished: set[int], n: int, rng: Rng
    ) -> Counter[int]:
        """Return the number of proposals that each arm makes when the next n arms are selected one at a time."""
        pending = list(pending)
        turns: Counter[int] = Counter()
        for _ in range(n):
            totals = tuple(map(sum, zip(state.totals, pending, strict=True)))
            scores = self.rule.scores(ArmUses(totals, tuple(pending), state.log))
            scores[list(finished)] = -math.inf
            arm = select_arm(scores, rng)
            turns[arm] += 1
            pending[arm] += 1
        return turns

    def _arm_of(self, trial: Trial) -> int | None:
        """Return the arm that proposed a trial, or None."""
        name = trial.read_tag("arm")
        return list(self.arms).index(name) if isinstance(name, str) and name in self.arms else None

    def _retag(self, arm: int, trial: T) -> T:
        """Return a trial as an arm sees it: with the arm's tag, or without a tag if the arm did not propose it."""
        return replace(trial, tag=trial.tag.get("tag") if self._arm_of(trial) == arm else None)
