"""Every feasible configuration once, in the order of the feasible set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Rng
from baco_like.exceptions import SpaceError
from baco_like.records.history import History
from baco_like.records.trial import Proposal, Trial
from baco_like.strategies.protocol import Problem


@final
@dataclass(frozen=True)
class Exhaustive:
    """Proposes the feasible configurations by rank; the state is the rank to go on from.

    What was abandoned on the way comes again at the end. Where values are noisy (``noise="repeat"``) it then goes
    round, what was measured least often first.
    """

    def init(self, problem: Problem, rng: Rng) -> int:
        """Begin at the first rank.

        Raises:
            SpaceError: The feasible configurations cannot be listed.
        """
        if problem.space.feasible.count is None:
            raise SpaceError(
                "strategy 'exhaustive' needs a space whose configurations can be listed; "
                "make the real parameters ordinal, or choose another strategy"
            )
        return 0

    def ask(
        self, problem: Problem, history: History, state: int, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the next n configurations by rank, then those that were left out, then what may be repeated."""
        found = _scan(problem, history, state, n)
        if len(found) < n and state:
            found += _scan(problem, _with(history, found), 0, n - len(found))
        if len(found) < n and problem.noise == "repeat":
            found += _again(problem, _with(history, found), n - len(found))
        return found

    def tell(self, problem: Problem, state: int, observation: Trial, rng: Rng) -> int:
        """Go on behind the highest rank of the scan that has come back."""
        tag = observation.tag
        rank = tag.get("rank") if isinstance(tag, Mapping) else None
        return max(state, rank + 1) if isinstance(rank, int) else state


def _with(history: History, proposals: Sequence[Proposal]) -> History:
    rows = np.array([p.code for p in proposals]).reshape(-1, history.space.width)
    return history.assuming(rows)


def _scan(problem: Problem, history: History, rank: int, n: int) -> list[Proposal]:
    """Return the first n from a rank on that were never asked for."""
    feasible = problem.space.feasible
    assert feasible.count is not None
    found: list[Proposal] = []
    while rank < feasible.count and len(found) < n:
        ranks = range(rank, min(rank + max(n, 64), feasible.count))
        rows = feasible.unindex(ranks)
        fresh = np.flatnonzero(~history.taken(rows))
        found += [Proposal(rows[i], {"phase": "scan", "rank": ranks[int(i)]}) for i in fresh]
        rank = ranks.stop
    return found[:n]


def _again(problem: Problem, history: History, n: int) -> list[Proposal]:
    """Return the n that were measured least often among those that may be measured again; all were once."""
    rows = problem.space.feasible.listed
    ranks = problem.space.feasible.ranks(np.nan_to_num(history.codes, nan=-1.0))
    times = np.bincount(ranks[ranks >= 0].astype(np.int64), minlength=len(rows))
    order = np.argsort(times, kind="stable")
    free = order[~problem.taken(history, rows[order])][:n]
    return [Proposal(rows[i], {"phase": "scan", "rank": int(i)}) for i in free]
