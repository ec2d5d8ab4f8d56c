"""Several strategies at work on one run; a rule says whose turn it is, and all of them hear of every observation.

A proposal carries the name of its arm around the arm's own tag. Every arm sees the run as if it were alone in it: its
own proposals with its own tags, all others as if a user had told them. So arms may be portfolios themselves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from baco_like._typing import Rng
from baco_like.records.history import History
from baco_like.records.trial import Proposal, Trial
from baco_like.strategies.composite.bandit import AreaUnderCurve, Rule, Use, Uses, chosen
from baco_like.strategies.protocol import Problem, Strategy


@dataclass(frozen=True)
class PortfolioState:
    """What a portfolio remembers: its arms' states, what each was used for, and the best cost so far."""

    arms: tuple[Any, ...]
    totals: tuple[int, ...]
    log: tuple[Use, ...] = ()
    best: float = math.inf


@final
@dataclass(frozen=True)
class Portfolio:
    """Shares the evaluations out to several strategies. Each counts on its even share of the budget.

    Attributes:
        arms: The strategies by name; the names stand in the journal.
        rule: Says whose turn it is.

    Raises:
        ValueError: There is no arm.
    """

    arms: Mapping[str, Strategy[Any]]
    rule: Rule = field(default_factory=AreaUnderCurve)

    def __post_init__(self) -> None:
        if not self.arms:
            raise ValueError("a portfolio needs at least one strategy; give arms={name: strategy}")

    def init(self, problem: Problem, rng: Rng) -> PortfolioState:
        """Begin with the states of the arms."""
        share = self._share(problem)
        states = tuple(arm.init(share, rng) for arm in self.arms.values())
        return PortfolioState(states, (0,) * len(states))

    def ask(
        self, problem: Problem, history: History, state: PortfolioState, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return what the arms propose, each as often as the rule gives it the turn.

        An arm that has nothing to propose leaves its turns to the others.
        """
        share = self._share(problem)
        strategies = list(self.arms.values())
        pending = list(self._pending(history))
        quiet: set[int] = set()
        found: list[Proposal] = []
        while len(found) < n and len(quiet) < len(strategies):
            turns = self._turns(state, pending, quiet, n - len(found), rng)
            for arm, count in turns.items():
                rows = np.array([p.code for p in found]).reshape(-1, problem.space.width)
                seen = self._seen_by(arm, history.assuming(rows))
                new = strategies[arm].ask(share, seen, state.arms[arm], count, rng)
                found += [replace(p, tag={"arm": self._name(arm), "tag": p.tag}) for p in new]
                pending[arm] += len(new)
                if len(new) < count:
                    quiet.add(arm)
        return found

    def tell(
        self, problem: Problem, state: PortfolioState, observation: Trial, rng: Rng
    ) -> PortfolioState:
        """Let every arm know, and note whether it was the best so far."""
        share = self._share(problem)
        states = tuple(
            arm.tell(share, one, self._own(place, observation), rng)
            for place, (arm, one) in enumerate(zip(self.arms.values(), state.arms, strict=True))
        )
        cost = problem.cost(observation)
        heard = replace(state, arms=states, best=min(cost, state.best))
        used = self._arm_of(observation)
        if used is None:
            return heard
        totals = tuple(t + (arm == used) for arm, t in enumerate(state.totals))
        log = (*state.log, (used, cost < state.best))
        return replace(
            heard,
            totals=totals,
            log=log[len(log) - self.rule.window :] if len(log) > self.rule.window else log,
        )

    def _share(self, problem: Problem) -> Problem:
        if problem.budget is None:
            return problem
        return replace(problem, budget=math.ceil(problem.budget / len(self.arms)))

    def _turns(
        self, state: PortfolioState, pending: Sequence[int], quiet: set[int], n: int, rng: Rng
    ) -> Counter[int]:
        """Return how many of the next n turns each arm has, as if all were asked one after the other."""
        flying = list(pending)
        turns: Counter[int] = Counter()
        for _ in range(n):
            totals = tuple(t + f for t, f in zip(state.totals, flying, strict=True))
            scores = self.rule.scores(Uses(totals, tuple(flying), state.log))
            scores[list(quiet)] = -np.inf
            arm = chosen(scores, rng)
            turns[arm] += 1
            flying[arm] += 1
        return turns

    def _pending(self, history: History) -> tuple[int, ...]:
        counts = Counter(self._arm_of(trial) for trial in history.pending.values())
        return tuple(counts[arm] for arm in range(len(self.arms)))

    def _name(self, arm: int) -> str:
        return list(self.arms)[arm]

    def _arm_of(self, trial: Trial) -> int | None:
        """Return which arm has proposed a trial, or None."""
        name = trial.tag.get("arm") if isinstance(trial.tag, Mapping) else None
        return list(self.arms).index(name) if isinstance(name, str) and name in self.arms else None

    def _own(self, arm: int, trial: Trial) -> Trial:
        """Return a trial as one arm knows it: with its own tag, or with none where it is not its own."""
        mine = self._arm_of(trial) == arm
        return replace(trial, tag=trial.tag.get("tag") if mine else None)

    def _seen_by(self, arm: int, history: History) -> History:
        return history.retagged(lambda trial: self._own(arm, trial))
