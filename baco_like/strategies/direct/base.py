"""Algorithms that call their objective themselves, turned into strategies by replaying them.

An algorithm runs in stages. A stage is plain code that calls its objective whenever it likes, for example a whole run
of a minimiser from scipy; it depends only on its checkpoint, the answers of the objective and the random generator.
When it asks for an unknown cost, the stage is interrupted and the requested configuration becomes the proposal. When
the observation arrives, the stage starts again from its checkpoint with all answers so far and gets a little further.
An observation costs one stage at most, however long the run is, and the algorithm takes the same steps as if it called
the function directly.

The objective is defined on a whole box: a point represents the feasible configuration that is nearest to the point's
own (by the index-distance of Willemsen et al.). Otherwise, in spaces in which one configuration in a hundred is
feasible, nearly every step would meet the same penalty and teach the algorithm nothing. Known configurations are
answered without an evaluation. A failure costs the worst success plus the spread of the successes: a finite number that
keeps the differences between the other costs visible, which 1e10 would not. Costs are divided by the cost of the first
start, because tolerances and temperatures are absolute numbers made for values of about 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.records import History, Observation, Proposal
from baco_like.records.rows import row_keys
from baco_like.strategies.geometry import RepairedBox
from baco_like.strategies.observed_costs import ObservedCosts, is_lost
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import BudgetedSettings

C = TypeVar("C")

Objective = Callable[[Array], float]
"""Returns the cost at a point of the box, ``(k,)``, in units of the first start's cost; finite everywhere."""

CostedPoint = tuple[Array, float]
"""A point of the box, ``(k,)``, with its cost."""

_STARTS = 16
"""Random configurations from which a start is chosen, preferably an unknown one."""

_HUGE = 1e300
"""Bound of the objective, so that minimisers do not overflow."""


class _Interrupted(Exception):
    """The objective was called at an unobserved row, the argument, or too often without one (the argument is None)."""


@dataclass(frozen=True)
class Replay(Generic[C]):
    """The state: the progress of an algorithm.

    Attributes:
        algorithm: The strategy with all its settings.
        box: The space as a box.
        rng_state: State of the random generator at the beginning of the current stage.
        checkpoint: Checkpoint of that stage; None while a start is sought.
        previous: The last checkpoint before the current start, or None.
        start: The row at which to begin, or None for a random one.
        answers: Answers to the calls of the current stage, in order.
        request: The row whose cost is needed, or None if nothing unknown was found.
        observed: The observed costs.
        unit: Unit of the objective, the cost of the first start; 0 before there is one.
        best: The success of least cost with that cost, or None.
        worst: Greatest cost of a success.
        started: Whether a requested row was observed; from then on reported configurations are no longer starts.
        skipped: Keys of requests that were given up; they count as failed.
        waited: Number of later proposals that were observed before the requested one.
    """

    algorithm: ReplayedStrategy[C]
    box: RepairedBox
    rng_state: Mapping[str, Any]
    checkpoint: C | None = None
    previous: C | None = None
    start: Array | None = None
    answers: tuple[float, ...] = ()
    request: Array | None = None
    observed: ObservedCosts = field(default_factory=ObservedCosts)
    unit: float = 0.0
    best: tuple[Array, float] | None = None
    worst: float = -math.inf
    started: bool = False
    skipped: frozenset[bytes] = frozenset()
    waited: int = 0

    def cost(self, key: bytes, assumed: Mapping[bytes, float]) -> float | None:
        """Return the cost of a configuration: infinity if it failed, None if it is neither known nor assumed."""
        known = self.observed.cost(key)
        if known is None and key in self.skipped:
            return math.inf
        return assumed.get(key) if known is None else known

    def scale_cost(self, cost: float) -> float:
        """Return a cost as the objective returns it: finite, in units of the first start's cost."""
        if not math.isfinite(cost):
            assert self.best is not None  # a start has succeeded
            cost = self.worst + ((self.worst - self.best[1]) or abs(self.worst) or 1.0)
        return max(-_HUGE, min(cost / self.unit, _HUGE))


@dataclass(frozen=True)
class ReplayedStrategy(BudgetedSettings, ABC, Generic[C]):
    """Base of strategies whose algorithm calls the objective itself; ``C`` is the type of its checkpoints.

    Proposals beyond the requested one are those that the algorithm would request next if every pending trial were as
    bad as the worst success.
    """

    phase: ClassVar[str]
    """Name of the algorithm in the tags of proposals."""

    def lookup_limit(self, box: RepairedBox) -> int:
        """Return the number of consecutive known answers after which the algorithm starts again elsewhere."""
        return 200

    @abstractmethod
    def begin(self, box: RepairedBox, start: Array, cost: float, previous: C | None) -> C:
        """Return the checkpoint at a start, ``(k,)``, of known cost; ``previous`` is the last one before it, if any."""

    @abstractmethod
    def stage(self, box: RepairedBox, at: C, objective: Objective, rng: Rng) -> C | None:
        """Return the checkpoint after the next stage, or None to start again elsewhere.

        The result depends on the arguments only, and the objective is called at least once.
        """

    def init(self, problem: Problem, rng: Rng) -> Replay[C]:
        """Return the state that requests the first start."""
        rng_state = np.random.PCG64(int(rng.integers(2**63))).state
        algorithm = self.for_budget(problem.budget)
        return _advance(Replay(algorithm, RepairedBox(problem.space), rng_state))

    def ask(
        self, problem: Problem, history: History, state: Replay[C], n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the requested configuration, then those that would be requested after it."""
        proposals: list[Proposal] = []
        assumed: dict[bytes, float] = {}
        for ahead in range(n + len(history.pending)):
            if state.request is None:
                break
            row = state.request[None, :]
            if not problem.is_excluded(history, row)[0]:
                proposals.append(Proposal(row[0], {"phase": self.phase, "ahead": ahead}))
                if len(proposals) == n:
                    break
            assumed[row_keys(row)[0]] = 1.0 if state.best is None else state.worst
            state = _advance(state, assumed)
        return proposals

    def tell(
        self, problem: Problem, state: Replay[C], observation: Observation, rng: Rng
    ) -> Replay[C]:
        """Note the cost, and continue the algorithm if it has requested it."""
        code, cost = observation.code, observation.cost
        if code is None:
            return state
        (key,) = row_keys(code[None, :])
        after = replace(state, observed=state.observed.add(key, cost))
        if math.isfinite(cost):
            best = (code, cost) if state.best is None or cost < state.best[1] else state.best
            after = replace(after, best=best, worst=max(state.worst, cost))
        if state.request is None:
            return _advance(after)
        if row_keys(state.request[None, :]) == [key]:
            return _advance(replace(after, started=True, waited=0))
        if after.best is not state.best and (not state.started or state.unit == 0.0):
            return _advance(replace(after, checkpoint=None, start=code, answers=(), unit=0.0))
        ahead = _proposed_ahead(observation)
        waited = state.waited + (ahead > 0)
        if not is_lost(waited, ahead):
            return replace(after, waited=waited)
        skipped = state.skipped.union(row_keys(state.request[None, :]))
        return _advance(replace(after, skipped=skipped, waited=0))


def _proposed_ahead(observation: Observation) -> int:
    """Return the number of requests between the pending one and this trial; 0 if it was not proposed ahead."""
    if observation.origin == "fill":
        return 1
    ahead = observation.read_tag("ahead")
    return ahead if isinstance(ahead, int) else 0


def _advance(state: Replay[C], assumed: Mapping[bytes, float] = {}) -> Replay[C]:
    """Run the algorithm until it requests an unknown cost, or has met only known configurations for too long.

    Args:
        state: Where to continue.
        assumed: Costs of configurations that are not observed.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    restarted = False
    lookups = limit = state.algorithm.lookup_limit(state.box)
    while True:
        rng.bit_generator.state = state.rng_state
        if state.checkpoint is None:
            state = _begin(state, rng, assumed)
            if state.checkpoint is None:
                return state
            continue
        if not state.box.unit.axes:  # the space has one configuration, the start
            return replace(state, request=None)
        objective = _ReplayedObjective(state, assumed, lookups)
        try:
            after = state.algorithm.stage(state.box, state.checkpoint, objective, rng)
        except _Interrupted as interrupted:
            (row,) = interrupted.args
            if row is not None or restarted:
                return replace(state, answers=tuple(objective.answers), request=row)
            restarted, lookups = True, limit
            state = _restart(state, rng)
            continue
        lookups = objective.lookups
        if after is None:
            state = _restart(state, rng)
        else:
            state = replace(state, checkpoint=after, answers=(), rng_state=rng.bit_generator.state)


@dataclass
class _ReplayedObjective:
    """Answers the calls of one stage: first as before, then from the observed costs.

    Attributes:
        state: The state at the beginning of the stage.
        assumed: Costs of configurations that are not observed.
        lookups: Number of new answers that may still be given.
        answers: All answers of the stage.
    """

    state: Replay[Any]
    assumed: Mapping[bytes, float]
    lookups: int

    def __post_init__(self) -> None:
        self.answers = list(self.state.answers)
        self._calls = 0

    def __call__(self, point: Array) -> float:
        if self._calls == len(self.answers):
            if not self.lookups:
                raise _Interrupted(None)
            key, row = self.state.box.row(point)
            cost = self.state.cost(key, self.assumed)
            if cost is None:
                raise _Interrupted(row)
            self.lookups -= 1
            self.answers.append(self.state.scale_cost(cost))
        self._calls += 1
        return self.answers[self._calls - 1]


def _restart(state: Replay[C], rng: Rng) -> Replay[C]:
    """Return the state that seeks another start."""
    left = replace(state, previous=state.checkpoint, rng_state=rng.bit_generator.state)
    return replace(left, checkpoint=None, start=None, answers=())


def _begin(state: Replay[C], rng: Rng, assumed: Mapping[bytes, float]) -> Replay[C]:
    """Return the state that begins at a start of finite cost, or requests the cost of a start.

    After a start that fails another one is tried, as in scipy's dual annealing. If all drawn starts are known to fail,
    there is no request.
    """
    rows = state.box.starts(_STARTS, rng)
    if state.start is not None:
        rows = np.concatenate([state.start[None, :], rows])
    costs = [state.cost(key, assumed) for key in row_keys(rows)]
    usable = [(i, cost) for i, cost in enumerate(costs) if cost is not None and cost < math.inf]
    if None in costs and (state.start is None or not usable or usable[0][0] > 0):
        request = rows[costs.index(None)]
        return replace(state, start=request, request=request)
    if not usable:
        return replace(state, request=None)
    index, cost = usable[0]
    unit = state.unit or abs(cost) or 1.0
    state = replace(state, unit=unit, start=None, rng_state=rng.bit_generator.state)
    point = state.box.point(rows[index])
    checkpoint = state.algorithm.begin(state.box, point, state.scale_cost(cost), state.previous)
    return replace(state, checkpoint=checkpoint)


def right_angled_simplex(corner: Array, sides: Array) -> Array:
    """Return a simplex with sides of given lengths, ``(k,)``, that point inwards from a corner, ``(k + 1, k)``."""
    return np.concatenate(
        [corner[None, :], corner + np.diag(np.where(corner <= 0.5, sides, -sides))]
    )
