"""Local searches as ask/tell: a scan waits for its costs, and when they settle it the algorithm moves on.

Everything happens in ``tell``: known configurations are answered from the memo (but with ``noise="repeat"`` evaluated
again), so that with outcomes in order each algorithm is exactly what its paper describes. It differs only where a run
does:

- Several in flight: the rest of the scan is proposed at once, and then *spares*, which are further starts drawn as the
  algorithm draws its next one, and later used as such. An improvement that comes out of turn is taken at once.
- What never comes back is waited for only until four spares, asked for when everything awaited was in flight, have
  overtaken it.
- An observation that was not awaited and is better than all before becomes the next start.
- One observation sets off at most 50 moves that need nothing new; spares follow, and then the walk goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.records.history import History, row_keys
from baco_like.records.trial import Observation, Proposal
from baco_like.spaces import design
from baco_like.spaces.rows import distinct
from baco_like.strategies.local.neighbourhoods import Neighbourhoods
from baco_like.strategies.local.scan import Scan
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.protocol import Problem

_MOVES_PER_TELL = 50
_OVERTAKEN = 4
_SPARES = 64
"""Spares kept, the newest."""

Point = tuple[Array, float]
"""A configuration, ``(w,)``, with its cost."""

M = TypeVar("M")


@final
@dataclass(frozen=True, eq=False)
class Walk(Generic[M]):
    """The state: what is looked at, and what the algorithm remembers.

    Attributes:
        algorithm: With its settings for the problem.
        near: Finds neighbours.
        memory: The algorithm's own.
        scans: What is looked at, most often one scan.
        memo: What is answered from it: all that was observed, with ``noise="repeat"`` only what failed.
        observed: Number of observations.
        best: The least cost observed.
        given: A configuration that was not awaited and better than all before, until it is made use of.
        spares: Observed spares, oldest first.
        turn: Number of moves made.
        overtaken: How often the awaited ones, all in flight, were overtaken by spares in this turn.
    """

    algorithm: Algorithm[M]
    near: Neighbourhoods
    memory: M
    scans: tuple[Scan, ...] = ()
    memo: ObservedCosts = field(default_factory=ObservedCosts)
    observed: int = 0
    best: float = math.inf
    given: Point | None = None
    spares: tuple[Point, ...] = ()
    turn: int = 0
    overtaken: int = 0

    def starting(self, problem: Problem, rng: Rng) -> Walk[M]:
        """Return the walk that looks at its next start: what was given, the oldest spare, or a fresh draw."""
        if self.given is not None:
            return replace(self, scans=(Scan.start(self.given[0], self.memo),), given=None)
        if self.spares:
            (row, _), *rest = self.spares
            return replace(self, scans=(Scan.start(row, self.memo),), spares=tuple(rest))
        row = self.algorithm.draw(problem, self.memory, rng)
        return replace(self, scans=(Scan.start(row, self.memo),))


class Algorithm(Protocol[M]):
    """What makes a local search; ``M`` is what it remembers."""

    @property
    def neighbourhood(self) -> str:
        """Name of the neighbourhood, of `NEIGHBOURHOODS`."""

    def begun(self, problem: Problem, near: Neighbourhoods, rng: Rng) -> Walk[M]:
        """Return the walk before anything is observed."""

    def moved(self, problem: Problem, walk: Walk[M], rng: Rng) -> Walk[M]:
        """Return the walk after a scan has settled, with other scans, none of which need be open."""

    def draw(self, problem: Problem, memory: M, rng: Rng) -> Array:
        """Return a next start, a feasible row, ``(w,)``."""


@final
@dataclass(frozen=True)
class Walking(Generic[M]):
    """A local search as a strategy.

    The tag of a proposal says whether it is a ``start``, a ``neighbour`` or a ``spare``, and in which turn it was asked
    for; a spare's also whether all that was awaited was in flight then.

    Attributes:
        by_budget: Returns the algorithm for a budget of evaluations, or None where it is not known, since settings
            that are left open follow from it.
    """

    by_budget: Callable[[int | None], Algorithm[M]]

    def init(self, problem: Problem, rng: Rng) -> Walk[M]:
        """Draw the first start."""
        algorithm = self.by_budget(problem.budget)
        near = Neighbourhoods.of(problem.space, algorithm.neighbourhood)
        return algorithm.begun(problem, near, rng)

    def ask(
        self, problem: Problem, history: History, state: Walk[M], n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return what is awaited, in order, and then spares."""
        found: dict[bytes, Proposal] = {}
        pool = n + len(history.pending)
        for scan, at in _awaited(state.scans, pool):
            row = scan.rows[at]
            if scan.keys[at] not in found and not problem.is_excluded(history, row[None, :])[0]:
                phase = "start" if scan.base is None else "neighbour"
                found[scan.keys[at]] = Proposal(row, {"phase": phase, "turn": state.turn})
            if len(found) == n:
                return list(found.values())
        waiting = not found
        for row in _spares(problem, history, state, found, n - len(found), rng):
            tag = {"phase": "spare", "turn": state.turn, "waiting": waiting}
            found[row_keys(row[None, :])[0]] = Proposal(row, tag)
        return list(found.values())

    def tell(self, problem: Problem, state: Walk[M], observation: Observation, rng: Rng) -> Walk[M]:
        """Note a cost, and move on as long as all that is needed is known."""
        code = observation.code
        if code is None:
            return state
        (key,) = row_keys(code[None, :])
        state, cost = _noted(problem, state, observation, key)
        scans = tuple(scan.told(key, cost) for scan in state.scans)
        awaited = any(new is not old for new, old in zip(scans, state.scans, strict=True))
        state = replace(state, scans=scans)
        if not awaited:
            state = _overheard(state, (code, cost), observation.tag)
        return _advanced(problem, replace(state, best=min(state.best, cost)), rng)


def _noted(
    problem: Problem, walk: Walk[M], observation: Observation, key: bytes
) -> tuple[Walk[M], float]:
    """Return the walk that knows of one observation more, and the cost that its scans are told."""
    cost, walk = observation.cost, replace(walk, observed=walk.observed + 1)
    if problem.noise == "repeat" and math.isfinite(cost):
        return walk, cost
    memo = walk.memo.add(key, cost)
    known = memo.cost(key)
    return replace(walk, memo=memo), cost if known is None else known


def _awaited(scans: Sequence[Scan], limit: int) -> Iterator[tuple[Scan, int]]:
    """Yield what is awaited: the first of every scan, the second of every scan, and so on."""
    if len(scans) == 1:
        yield from ((scans[0], int(i)) for i in scans[0].awaited[:limit])
        return
    columns = ([(scan, int(i)) for i in scan.awaited[:limit]] for scan in scans)
    yield from (one for one in chain.from_iterable(zip_longest(*columns)) if one is not None)


def _spares(
    problem: Problem,
    history: History,
    walk: Walk[Any],
    found: Mapping[bytes, Proposal],
    n: int,
    rng: Rng,
) -> Codes:
    """Return at most n further starts, drawn as the algorithm draws them; if these are taken, uniformly."""
    drawn = [walk.algorithm.draw(problem, walk.memory, rng) for _ in range(2 * n)]
    beyond = history.assume_pending(
        np.array([p.code for p in found.values()]).reshape(-1, problem.space.width)
    )
    rows = distinct(np.array(drawn))
    rows = rows[~problem.is_excluded(beyond, rows)][:n]
    if len(rows) == n:
        return rows
    beyond = beyond.assume_pending(rows)
    others = design.uniform(
        problem.space, n - len(rows), rng, lambda codes: problem.is_excluded(beyond, codes)
    )
    return np.concatenate([rows, others])


def _overheard(walk: Walk[M], point: Point, tag: Any) -> Walk[M]:
    """Return the walk after an observation that no scan awaits."""
    spare = isinstance(tag, Mapping) and tag.get("phase") == "spare"
    if spare and tag.get("waiting") and tag.get("turn") == walk.turn:
        walk = replace(walk, overtaken=walk.overtaken + 1)
        if walk.overtaken >= _OVERTAKEN:
            walk = replace(walk, scans=tuple(scan.given_up() for scan in walk.scans))
    if point[1] < walk.best:
        walk = replace(walk, given=point)
    elif spare:
        walk = replace(walk, spares=(*walk.spares, point)[-_SPARES:])
    if walk.given is not None and len(walk.scans) == 1 and walk.scans[0].base is None:
        place = walk.scans[0].place
        start = Scan.start(walk.given[0], walk.memo, place)
        return replace(walk, scans=(start,), given=None)
    return walk


def _advanced(problem: Problem, walk: Walk[M], rng: Rng) -> Walk[M]:
    """Return the walk with nothing but open scans, or where the most moves have been made."""
    for _ in range(_MOVES_PER_TELL):
        if not any(scan.settled for scan in walk.scans):
            return walk
        moved = walk.algorithm.moved(problem, walk, rng)
        walk = replace(moved, turn=walk.turn + 1, overtaken=0)
    return walk
