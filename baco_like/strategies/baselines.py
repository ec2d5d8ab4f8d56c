"""Strategies without a model or a plan: uniform draws, and every configuration once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from baco_like._typing import Rng
from baco_like.exceptions import SpaceError
from baco_like.records import History, Observation, Proposal
from baco_like.spaces.design import uniform
from baco_like.strategies.protocol import HistoryStrategy, Problem, Proposals, proposed_rows


@final
@dataclass(frozen=True)
class RandomSearch(HistoryStrategy):
    """Uniform random sampling without replacement.

    Use it as the baseline of a comparison. It has no settings.
    """

    several_objectives: ClassVar[bool] = True
    uses_tasks: ClassVar[bool] = True

    def init(self, problem: Problem, rng: Rng) -> None:
        """Return None: the strategy has no state."""

    def ask(self, problem: Problem, history: History, state: None, n: int, rng: Rng) -> Proposals:
        """Return n uniform draws from the feasible configurations that are not excluded."""
        rows = uniform(problem.space, n, rng, lambda codes: problem.is_excluded(history, codes))
        return [Proposal(row, {"phase": "random"}) for row in rows]


@final
@dataclass(frozen=True)
class Exhaustive:
    """Every feasible configuration once, in order.

    Use it if the budget covers the whole space. Configurations are proposed by rank, their position in the feasible
    set; abandoned ones are proposed again at the end. With ``noise="repeat"`` a second round follows, starting with the
    configurations that have the fewest observations. Its state is the rank of the next proposal.
    """

    draws_in_tell: ClassVar[bool] = False
    several_objectives: ClassVar[bool] = True

    def init(self, problem: Problem, rng: Rng) -> int:
        """Return the first rank.

        Raises:
            SpaceError: The feasible configurations cannot be listed.
        """
        if problem.space.feasible.count is None:
            raise SpaceError(
                "strategy 'exhaustive' needs a space whose configurations can be listed; "
                "make the real parameters ordinal, or choose another strategy"
            )
        return 0

    def ask(self, problem: Problem, history: History, state: int, n: int, rng: Rng) -> Proposals:
        """Return the next n configurations by rank, then the skipped ones, then repeats if noise allows them."""
        proposals = _scan(problem, history, state, n)
        if len(proposals) < n and problem.noise == "repeat":
            seen = history.assume_pending(proposed_rows(problem.space, proposals))
            proposals += _repeat(problem, seen, n - len(proposals))
        return proposals

    def tell(self, problem: Problem, state: int, observation: Observation, rng: Rng) -> int:
        """Return the rank after the highest observed one."""
        rank = observation.read_tag("rank")
        return max(state, rank + 1) if isinstance(rank, int) else state


def _scan(problem: Problem, history: History, first: int, n: int) -> list[Proposal]:
    """Return n configurations that are neither observed nor pending, from a rank on and then from the beginning."""
    feasible = problem.space.feasible
    assert feasible.count is not None
    proposals: list[Proposal] = []
    for begin, end in ((first, feasible.count), (0, first)):
        for rank in range(begin, end, max(n, 64)):
            ranks = range(rank, min(rank + max(n, 64), end))
            rows = feasible.unindex(ranks)
            for i in np.flatnonzero(~history.is_excluded(rows)):
                proposals.append(Proposal(rows[i], {"phase": "scan", "rank": ranks[int(i)]}))
            if len(proposals) >= n:
                return proposals[:n]
    return proposals


def _repeat(problem: Problem, history: History, n: int) -> list[Proposal]:
    """Return the n configurations with the fewest observations; every configuration has at least one."""
    rows = problem.space.feasible.listed
    ranks = problem.space.feasible.ranks(np.nan_to_num(history.codes, nan=-1.0))
    observations = np.bincount(ranks[ranks >= 0].astype(np.int64), minlength=len(rows))
    order = np.argsort(observations, kind="stable")
    allowed = order[~problem.is_excluded(history, rows[order])][:n]
    return [Proposal(rows[i], {"phase": "scan", "rank": int(i)}) for i in allowed]
