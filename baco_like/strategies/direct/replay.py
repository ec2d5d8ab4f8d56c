"""Algorithms that own their loop, turned inside out: rerun from a checkpoint until they want something unknown.

A *program* is an algorithm in stages. A stage is plain code that calls its objective where it likes, such as a whole
run of a minimiser of scipy; it is a function of the checkpoint, of the answers and of chance. Where an answer is not
known the stage is broken off, and what it wanted is the proposal. When the observation comes, the stage starts again
from its checkpoint with all answers so far, gets a little further, and so on; that costs one stage at most, however
long the run. The stages do the same as if the program called the function itself.

The objective is defined on a whole box: a point stands for the feasible configuration nearest to its own (the
index-distance of Willemsen et al.), because in spaces of which one configuration in a hundred is feasible nearly every
step would otherwise meet the same penalty and teach nothing. What is known already is answered from the memo. A
configuration that fails costs more than the worst success by the spread of the successes: a finite number that leaves
a minimiser's picture of the others intact, as 1e10 would not. Costs are divided by that of the first start, because
tolerances and temperatures are absolute numbers made for values of about 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar, final

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.records.history import History, row_keys
from baco_like.records.trial import Observation, Proposal
from baco_like.strategies.direct.program import Program, Recipe
from baco_like.strategies.geometry.repaired_box import RepairedBox
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.protocol import Problem

C = TypeVar("C")

_STARTS = 16
"""Random configurations among which a start is chosen, an unknown one if there is any."""

_PATIENCE = 8
"""At least so many later proposals are observed before a program stops waiting for the one that it wants."""

_HUGE = 1e300

_NOTHING: Mapping[bytes, float] = MappingProxyType({})


class _Unknown(Exception):
    """The objective was asked for what nobody has observed."""

    def __init__(self, row: Array) -> None:
        super().__init__()
        self.row = row


class _Tired(Exception):
    """Nothing new was asked for in a long time."""


@dataclass(frozen=True)
class Replay(Generic[C]):
    """How far a program has come.

    Attributes:
        program: The algorithm.
        box: The space as a box.
        chance: State of the generator where the stage in progress began.
        at: Checkpoint of that stage; None while a start is sought.
        before: The checkpoint that the start in search will follow, or None.
        start: The row at which to begin, or None for a random one.
        answers: What the stage in progress was told, call by call.
        wanted: The row whose cost is wanted, or None where nothing unknown was found.
        memo: What is known.
        unit: The objective's unit, the cost of the first start; 0 before there is one.
        best: The success of least cost with that cost, or None.
        worst: Greatest cost of a success.
        own: Whether a wanted row was observed: from then on a told one is no start any more.
        skipped: Keys that the program has stopped waiting for; they count as failed.
        waited: Later proposals that were observed while it was waiting.
    """

    program: Program[C]
    box: RepairedBox
    chance: Mapping[str, Any]
    at: C | None = None
    before: C | None = None
    start: Array | None = None
    answers: tuple[float, ...] = ()
    wanted: Array | None = None
    memo: ObservedCosts = field(default_factory=ObservedCosts)
    unit: float = 0.0
    best: tuple[Array, float] | None = None
    worst: float = -math.inf
    own: bool = False
    skipped: frozenset[bytes] = frozenset()
    waited: int = 0

    def cost(self, key: bytes, assumed: Mapping[bytes, float]) -> float | None:
        """Return the cost of a configuration, infinity where it failed, None where it is neither known nor assumed."""
        known = self.memo.cost(key)
        if known is None and key in self.skipped:
            return math.inf
        return assumed.get(key) if known is None else known

    def answer(self, cost: float) -> float:
        """Return a cost as the objective gives it."""
        if not math.isfinite(cost):
            assert self.best is not None  # a start has succeeded
            cost = self.worst + ((self.worst - self.best[1]) or abs(self.worst) or 1.0)
        return max(-_HUGE, min(cost / self.unit, _HUGE))


@final
@dataclass(frozen=True)
class Replayed(Generic[C]):
    """The strategy that proposes what a program wants to know.

    Further proposals, while the wanted one is in flight, are what the program would want next if everything in flight
    were as bad as the worst success.

    Attributes:
        recipe: The settings of the program.
    """

    recipe: Recipe[C]

    def init(self, problem: Problem, rng: Rng) -> Replay[C]:
        """Draw the first start."""
        box = RepairedBox.of(problem.space)
        program = self.recipe.program(problem, box)
        chance = np.random.PCG64(int(rng.integers(2**63))).state
        return _advanced(Replay(program, box, chance))

    def ask(
        self, problem: Problem, history: History, state: Replay[C], n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return what the program wants, and what it would want after that."""
        found: list[Proposal] = []
        assumed: dict[bytes, float] = {}
        for ahead in range(n + len(history.pending)):
            if state.wanted is None:
                break
            row = state.wanted[None, :]
            if not problem.is_excluded(history, row)[0]:
                found.append(Proposal(row[0], {"phase": self.recipe.name, "ahead": ahead}))
                if len(found) == n:
                    break
            assumed[row_keys(row)[0]] = 1.0 if state.best is None else state.worst
            state = _advanced(state, assumed)
        return found

    def tell(
        self, problem: Problem, state: Replay[C], observation: Observation, rng: Rng
    ) -> Replay[C]:
        """Remember the cost, and let the program run on if it was waiting for it."""
        code = observation.code
        if code is None:
            return state
        grown = _grown(problem, state, observation, code)
        if state.wanted is None:
            return _advanced(grown)
        if row_keys(state.wanted[None, :]) == row_keys(code[None, :]):
            return _advanced(replace(grown, own=True, waited=0))
        if grown.best is not state.best and (not state.own or state.unit == 0.0):
            return _advanced(replace(grown, at=None, start=code, answers=(), unit=0.0))
        return _waiting(grown, _ahead(observation))


def _waiting(state: Replay[C], ahead: int) -> Replay[C]:
    """Return the state after an observation that was not wanted; after too many the wanted one is skipped."""
    assert state.wanted is not None
    waited = state.waited + (ahead > 0)
    if waited <= max(_PATIENCE, 2 * ahead):
        return replace(state, waited=waited)
    skipped = state.skipped.union(row_keys(state.wanted[None, :]))
    return _advanced(replace(state, skipped=skipped, waited=0))


def _ahead(observation: Observation) -> int:
    """Return how many unknowns lay between the wanted one and this, or 0 where it was not proposed for later."""
    if observation.origin == "fill":
        return 1
    ahead = observation.tag.get("ahead") if isinstance(observation.tag, Mapping) else None
    return ahead if isinstance(ahead, int) else 0


def _grown(problem: Problem, state: Replay[C], observation: Observation, code: Array) -> Replay[C]:
    """Return the state that knows of one more observation and goes no further."""
    cost = observation.cost
    memo = state.memo.add(row_keys(code[None, :])[0], cost)
    if not math.isfinite(cost):
        return replace(state, memo=memo)
    best = (code, cost) if state.best is None or cost < state.best[1] else state.best
    return replace(state, memo=memo, best=best, worst=max(state.worst, cost))


def _advanced(state: Replay[C], assumed: Mapping[bytes, float] = _NOTHING) -> Replay[C]:
    """Return the state where the program wants something unknown, or has met only known things for long.

    Args:
        state: From where.
        assumed: Costs that are taken for granted where nothing is observed.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    tired = False
    room = state.program.lookups
    while True:
        rng.bit_generator.state = state.chance
        if state.at is None:
            state = _begun(state, rng, assumed)
            if state.at is None:
                return state
            continue
        if not state.box.axes:  # the start is all there is
            return replace(state, wanted=None)
        answers = _Answers(state, assumed, room)
        try:
            after = state.program.stage(state.at, answers, rng)
        except _Unknown as unknown:
            return replace(state, answers=tuple(answers.given), wanted=unknown.row)
        except _Tired:
            if tired:
                return replace(state, answers=tuple(answers.given), wanted=None)
            tired, room = True, state.program.lookups
            state = _elsewhere(state, rng)
            continue
        room = answers.room
        if after is None:
            state = _elsewhere(state, rng)
        else:
            state = replace(state, at=after, answers=(), chance=rng.bit_generator.state)


@final
class _Answers:
    """Answers the calls of one stage: as before as far as it goes, then from what is known."""

    def __init__(self, state: Replay[Any], assumed: Mapping[bytes, float], room: int) -> None:
        self.given = list(state.answers)
        self.room = room
        self._state = state
        self._assumed = assumed
        self._calls = 0

    def __call__(self, point: Array) -> float:
        if self._calls == len(self.given):
            self.given.append(self._known(point))
        self._calls += 1
        return self.given[self._calls - 1]

    def _known(self, point: Array) -> float:
        if not self.room:
            raise _Tired
        key, row = self._state.box.row(point)
        cost = self._state.cost(key, self._assumed)
        if cost is None:
            raise _Unknown(row)
        self.room -= 1
        return self._state.answer(cost)


def _elsewhere(state: Replay[C], rng: Rng) -> Replay[C]:
    """Return the state that seeks another start."""
    chance = rng.bit_generator.state
    return replace(state, at=None, before=state.at, start=None, answers=(), chance=chance)


def _begun(state: Replay[C], rng: Rng, assumed: Mapping[bytes, float]) -> Replay[C]:
    """Return the state that has begun at a start of finite cost, or wants to know of one.

    A start that fails is followed by others, as in scipy's dual annealing; where all that are drawn are known to have
    failed, nothing is wanted.
    """
    rows = state.box.starts(_STARTS, rng)
    if state.start is not None:
        rows = np.concatenate([state.start[None, :], rows])
    costs = [state.cost(key, assumed) for key in row_keys(rows)]
    good = [place for place, cost in enumerate(costs) if cost is not None and math.isfinite(cost)]
    chosen = state.start is not None and 0 in good
    if None in costs and not chosen:
        wanted = rows[costs.index(None)]
        return replace(state, start=wanted, wanted=wanted)
    if not good:
        return replace(state, wanted=None)
    cost = costs[good[0]]
    assert cost is not None
    unit = state.unit or abs(cost) or 1.0
    begun = replace(state, unit=unit, start=None, chance=rng.bit_generator.state)
    point = state.box.point(rows[good[0]])
    return replace(begun, at=state.program.begin(point, begun.answer(cost), state.before))
