"""Successive halving over fidelities, as in BOHB: a baseline for `MultiFidelity`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, final

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.records import History, Observation, Proposal, Status, row_keys
from baco_like.records.reading import number_within
from baco_like.spaces.design import uniform
from baco_like.strategies.bayesian.bayesian import Bayesian, BayesianState
from baco_like.strategies.levels import (
    base_keys,
    fidelity_of,
    history_at,
    lift,
    problem_at,
    set_level,
)
from baco_like.strategies.protocol import Problem, Proposals, proposed_rows


@final
@dataclass(frozen=True)
class SuccessiveHalving:
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

    draws_in_tell: ClassVar[bool] = False
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

    def tell(self, problem: Problem, state: int, observation: Observation, rng: Rng) -> int:
        """Return the state unchanged: levels and models are read from the history."""
        return state

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
