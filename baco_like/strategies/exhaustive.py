"""Every feasible configuration once, in the order of the feasible set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Rng
from baco_like.exceptions import SpaceError
from baco_like.records.history import History
from baco_like.records.trial import Proposal, Trial
from baco_like.strategies.protocol import Problem


@dataclass(frozen=True)
class Scan:
    """Which ranks are done: all below ``low``, and those in ``beyond``."""

    low: int = 0
    beyond: frozenset[int] = frozenset()

    def done(self, rank: int) -> Scan:
        """Return the scan after one more rank."""
        low, beyond = self.low, self.beyond | {rank}
        while low in beyond:
            beyond, low = beyond - {low}, low + 1
        return Scan(low, beyond)


@final
@dataclass(frozen=True)
class Exhaustive:
    """Proposes the feasible configurations by rank."""

    def init(self, problem: Problem, rng: Rng) -> Scan:
        """Begin at the first rank.

        Raises:
            SpaceError: The feasible configurations cannot be listed.
        """
        if problem.space.feasible.count is None:
            raise SpaceError(
                "strategy 'exhaustive' needs a space whose configurations can be listed; "
                "make the real parameters ordinal, or choose another strategy"
            )
        return Scan()

    def ask(
        self, problem: Problem, history: History, state: Scan, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the next n configurations by rank."""
        feasible = problem.space.feasible
        assert feasible.count is not None
        found: list[Proposal] = []
        rank = state.low
        while rank < feasible.count and len(found) < n:
            ranks = range(rank, min(rank + max(n, 64), feasible.count))
            rows = feasible.unindex(ranks)
            fresh = np.flatnonzero(~problem.taken(history, rows))
            found += [Proposal(rows[i], {"phase": "scan"}) for i in fresh]
            rank = ranks.stop
        return found[:n]

    def tell(self, problem: Problem, state: Scan, observation: Trial, rng: Rng) -> Scan:
        """Mark the rank as done, whoever proposed it."""
        if not problem.space.contains(observation.config):
            return state
        (rank,) = problem.space.feasible.index(problem.space.encode([observation.config]))
        return state.done(rank)
