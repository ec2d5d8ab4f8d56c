"""Population algorithms as strategies: the candidates of a generation wait for their costs, then the next one is bred.

Known configurations are looked up, and infeasible ones get the penalty, an infinite cost. Everything happens in
``tell``. If the outcomes arrive in order, each algorithm does exactly what its paper describes. It differs from the
paper in these cases:

- Several pending trials: if all candidates without a cost are pending, further attempts for the same members of the
  population are proposed, and each member takes the outcome that arrives first. A lost trial delays nothing.
- Observations that the algorithm did not propose (*outsiders*) replace founders whose costs are awaited. Later they are
  offered to the algorithm together with the next generation.
- A population that has met only known configurations for ten generations is drawn again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, final

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.records.history import History, row_keys
from baco_like.records.trial import Observation, Proposal
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import BudgetedSettings, choose, setting

_STAGNANT = 10
"""A population is drawn again after this number of generations without a new configuration."""

_STAGNANT_PER_TELL = 2 * _STAGNANT
"""Most generations without a new configuration after one observation; then uniform draws are proposed."""

_PER_TELL = 200
"""Most generations after one observation, including those with new penalised candidates."""

_BRED = 3
"""One in four attempts for a member is a uniform draw, so that something can always be proposed."""

CONSTRAINTS: Mapping[str, bool] = {"aware": True, "penalty": False}
"""Values of the setting ``constraints``, and whether infeasible candidates are repaired."""

M = TypeVar("M")


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates for the members of a population.

    Attributes:
        codes: Legal rows, ``(n, w)``; infeasible ones get the penalty.
        moves: Arrays of n rows that an algorithm stores with the candidates, such as positions and velocities.
    """

    codes: Codes
    moves: tuple[npt.NDArray[Any], ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def select(self, members: Ints) -> Candidates:
        """Return the candidates for some members."""
        return Candidates(self.codes[members], tuple(array[members] for array in self.moves))

    def with_member(self, member: int, other: Candidates) -> Candidates:
        """Return the candidates with the one of a member replaced by a single other candidate."""
        arrays = [array.copy() for array in (self.codes, *self.moves)]
        for array, new in zip(arrays, (other.codes, *other.moves), strict=True):
            array[member] = new[0]
        return Candidates(arrays[0], tuple(arrays[1:]))


@final
@dataclass(frozen=True, eq=False)
class PopulationState(Generic[M]):
    """The state: a population, and the candidates whose costs are awaited.

    Attributes:
        algorithm: The strategy with all its settings.
        seed: Seed of the algorithm's random numbers, together with the generation and the attempt.
        candidates: Candidates of this generation.
        keys: Their hash keys, n of them.
        costs: Their costs, ``(n,)``; NaN if awaited.
        population: The population; None while the founders' costs are awaited.
        generation: Number of the generation.
        observed: The observed costs.
        penalised: Candidates that got the penalty.
        outsiders: Rows and costs of the outsiders since the generation began.
        size: Number of founders.
        stagnant: Number of candidates in the last consecutive generations without a new configuration.
    """

    algorithm: PopulationStrategy[M]
    seed: int
    candidates: Candidates
    keys: list[bytes] = field(default_factory=list)
    costs: Array = field(default_factory=lambda: np.empty(0))
    population: M | None = None
    generation: int = -1
    observed: ObservedCosts = field(default_factory=ObservedCosts)
    penalised: ObservedCosts = field(default_factory=ObservedCosts)
    outsiders: tuple[tuple[Array, float], ...] = ()
    size: int = 0
    stagnant: int = 0

    @property
    def awaited(self) -> Ints:
        """Members whose costs are awaited, increasing."""
        return np.flatnonzero(np.isnan(self.costs))

    def set_costs(self, members: Ints, cost: float) -> PopulationState[M]:
        """Return the state with the cost of some members."""
        costs = self.costs.copy()
        costs[members] = cost
        return replace(self, costs=costs)

    def replace_candidate(self, member: int, other: Candidates, cost: float) -> PopulationState[M]:
        """Return the state with another candidate and its cost for a member."""
        keys = self.keys.copy()
        (keys[member],) = row_keys(other.codes)
        state = replace(self, candidates=self.candidates.with_member(member, other), keys=keys)
        return state.set_costs(np.array([member]), cost)


@dataclass(frozen=True)
class PopulationStrategy(BudgetedSettings, ABC, Generic[M]):
    """Base of population algorithms; ``M`` is the type of a population with everything that the algorithm remembers.

    The tag of a proposal holds its generation, member (``place``) and attempt, and the number of distinct infeasible
    candidates that had got the penalty by then (``penalised``), for comparisons that charge them.
    """

    constraints: str = setting("aware", choices=CONSTRAINTS)

    @property
    def is_aware(self) -> bool:
        """Whether infeasible candidates are repaired; otherwise they get the penalty."""
        return choose("constraints", self.constraints, CONSTRAINTS)

    @abstractmethod
    def draw_founders(self, problem: Problem, rng: Rng) -> Candidates:
        """Return the candidates of the first generation, at least one."""

    def place(self, problem: Problem, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates moved to given configurations, ``(n, w)``."""
        return Candidates(codes)

    @abstractmethod
    def form_population(self, problem: Problem, founders: Candidates, costs: Array) -> M:
        """Return the first population from its founders and their costs, ``(n,)``."""

    @abstractmethod
    def breed(self, problem: Problem, population: M, rng: Rng) -> Candidates:
        """Return the candidates of the next generation, at least one."""

    @abstractmethod
    def select_members(
        self, problem: Problem, population: M, candidates: Candidates, costs: Array, rng: Rng
    ) -> M:
        """Return the population after the candidates' costs, ``(n,)``, are known."""

    @abstractmethod
    def add_outsider(self, problem: Problem, population: M, code: Array, cost: float) -> M:
        """Return the population after an outsider, ``(w,)``, was observed with a finite cost."""

    def init(self, problem: Problem, rng: Rng) -> PopulationState[M]:
        """Return the state that awaits the founders' costs."""
        algorithm = self.for_budget(problem.budget)
        nothing = Candidates(np.empty((0, problem.space.width)))
        state: PopulationState[M] = PopulationState(algorithm, int(rng.integers(2**31)), nothing)
        return _advance(problem, _begin_generation(problem, state, None))

    def ask(
        self, problem: Problem, history: History, state: PopulationState[M], n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return awaited candidates; if they are pending, further attempts for their members."""
        proposals: dict[bytes, Proposal] = {}
        awaited = state.awaited
        for attempt in _attempts(history, state, n):
            candidates = _attempt_candidates(problem, state, attempt).select(awaited)
            for i in _allowed(problem, history, candidates.codes, n):
                (key,) = row_keys(candidates.codes[i : i + 1])
                if key not in proposals:
                    tag = _tag(state, int(awaited[i]), attempt)
                    proposals[key] = Proposal(candidates.codes[i], tag)
                if len(proposals) == n:
                    return list(proposals.values())
        return list(proposals.values())

    def tell(
        self, problem: Problem, state: PopulationState[M], observation: Observation, rng: Rng
    ) -> PopulationState[M]:
        """Note the cost, and breed when no candidate lacks one."""
        code = observation.code
        if code is None:
            return state
        (key,) = row_keys(code[None, :])
        known = state.observed.cost(key) is not None
        observed = state.observed.add(key, observation.cost)
        state = replace(state, observed=observed)
        return _advance(problem, _assign_cost(problem, state, code, known, observation.tag))


def _tag(state: PopulationState[Any], member: int, attempt: int) -> dict[str, Any]:
    return {
        "phase": "founders" if state.population is None else "bred",
        "generation": state.generation,
        "place": member,
        "attempt": attempt,
        "penalised": len(state.penalised),
    }


def _attempts(history: History, state: PopulationState[Any], n: int) -> Iterator[int]:
    """Yield the attempts that may give n proposals: 0, then from the last pending one on.

    There are enough of them to include uniform draws.
    """
    members = len(state.awaited)
    if members == 0:
        return
    yield 0
    tags = [trial.tag for trial in history.pending.values()]
    numbers = [tag.get("attempt") for tag in tags if _is_of_generation(state, tag)]
    first = max([1, *(number for number in numbers if isinstance(number, int))])
    yield from range(first, first + _BRED + 1 + -(-(n + len(tags)) // members))


def _is_of_generation(state: PopulationState[Any], tag: Any) -> bool:
    return isinstance(tag, Mapping) and tag.get("generation") == state.generation


def _attempt_candidates(problem: Problem, state: PopulationState[M], attempt: int) -> Candidates:
    """Return the candidates of an attempt for all members: the generation's own, newly bred ones, or uniform draws."""
    if attempt == 0:
        return state.candidates
    rng = np.random.default_rng([state.seed, state.generation, attempt])
    if attempt % (_BRED + 1) != _BRED:
        bred = _breed(problem, state.algorithm, state.population, rng)
        if len(bred) == len(state.candidates):
            return bred
    codes = problem.space.feasible.sample(len(state.candidates), rng)
    return state.algorithm.place(problem, state.candidates, codes)


def _breed(
    problem: Problem, algorithm: PopulationStrategy[M], population: M | None, rng: Rng
) -> Candidates:
    if population is None:
        return algorithm.draw_founders(problem, rng)
    return algorithm.breed(problem, population, rng)


def _allowed(problem: Problem, history: History, codes: Codes, n: int) -> Iterator[int]:
    """Yield the indices of the rows that may be proposed.

    Rows are tested in blocks, because the first ones usually suffice.
    """
    block = 2 * n + len(history.pending)
    for begin in range(0, len(codes), block):
        rows = codes[begin : begin + block]
        allowed = ~problem.is_excluded(history, rows) & problem.space.feasible.contains_few(rows)
        yield from (begin + int(i) for i in np.flatnonzero(allowed))


def _begin_generation(
    problem: Problem, state: PopulationState[M], population: M | None
) -> PopulationState[M]:
    """Return the state at the beginning of the next generation, with the known costs of its candidates."""
    generation = state.generation + 1
    rng = np.random.default_rng([state.seed, generation, 0])
    candidates = _breed(problem, state.algorithm, population, rng)
    keys = row_keys(candidates.codes)
    costs = state.observed.costs(candidates.codes)
    new = np.flatnonzero(np.isnan(costs))
    infeasible = new[~problem.space.feasible.contains_few(candidates.codes[new])]
    costs[infeasible] = np.inf
    penalised = state.penalised
    for i in infeasible:
        if penalised.cost(keys[i]) is None:
            penalised = penalised.add(keys[i], math.inf)
    has_new = len(penalised) > len(state.penalised) or bool(np.isnan(costs).any())
    return replace(
        state,
        candidates=candidates,
        keys=keys,
        costs=costs,
        population=population,
        generation=generation,
        penalised=penalised,
        outsiders=(),
        size=len(candidates) if population is None else state.size,
        stagnant=0 if has_new else state.stagnant + len(candidates),
    )


def _advance(problem: Problem, state: PopulationState[M]) -> PopulationState[M]:
    """Breed until a candidate's cost is awaited, or too many generations have nothing new."""
    bred = stagnant = 0
    while bred < _PER_TELL * state.size and stagnant < _STAGNANT_PER_TELL * state.size:
        if np.isnan(state.costs).any():
            break
        restart = state.stagnant >= _STAGNANT * state.size and state.population is not None
        population = None if restart else _update_population(problem, state)
        state = _begin_generation(problem, state, population)
        bred += len(state.candidates)
        stagnant += len(state.candidates) if state.stagnant else 0
    return state


def _update_population(problem: Problem, state: PopulationState[M]) -> M:
    """Return the population after a generation whose costs are all known."""
    algorithm, candidates, costs = state.algorithm, state.candidates, state.costs
    if state.population is None:
        population = algorithm.form_population(problem, candidates, costs)
    else:
        rng = np.random.default_rng([state.seed, state.generation, 0, 1])
        population = algorithm.select_members(problem, state.population, candidates, costs, rng)
    for code, cost in state.outsiders:
        population = algorithm.add_outsider(problem, population, code, cost)
    return population


def _assign_cost(
    problem: Problem, state: PopulationState[M], code: Array, known: bool, tag: Any
) -> PopulationState[M]:
    """Return the state after an observation, which is already in ``observed``.

    The cost belongs to every awaited candidate with this configuration, else to the member for which the attempt in the
    tag was made, else to an awaited founder; otherwise the configuration is an outsider.
    """
    (key,) = row_keys(code[None, :])
    cost = state.observed.cost(key)
    assert cost is not None
    awaited = state.awaited
    members = np.array([i for i in awaited if state.keys[i] == key], dtype=np.int64)
    if len(members):
        return state.set_costs(members, cost)
    attempt = _open_attempt(state, tag)
    if attempt is not None:
        member, number = attempt
        tried = _attempt_candidates(problem, state, number).select(np.array([member]))
        if row_keys(tried.codes) == [key]:
            return state.replace_candidate(member, tried, cost)
    if known or not np.isfinite(cost):
        return state
    if state.population is None and len(awaited):
        member = int(awaited[-1])
        founder = state.candidates.select(np.array([member]))
        founder = state.algorithm.place(problem, founder, code[None, :])
        return state.replace_candidate(member, founder, cost)
    return replace(state, outsiders=(*state.outsiders, (code, cost)))


def _open_attempt(state: PopulationState[Any], tag: Any) -> tuple[int, int] | None:
    """Return member and number of the attempt in a tag; None if it names no attempt whose member is awaited."""
    if not _is_of_generation(state, tag):
        return None
    member, number = tag.get("place"), tag.get("attempt")
    if not isinstance(member, int) or not isinstance(number, int):
        return None
    return (member, number) if number > 0 and member in state.awaited else None
