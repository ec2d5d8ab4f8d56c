"""Population algorithms as strategies: the candidates of a generation wait for their costs, then the next one is bred.

Known configurations are looked up, and infeasible ones get the penalty, an infinite cost. Everything happens in
``tell``. If the outcomes arrive in order, each algorithm does exactly what its paper describes. It differs from the
paper in these cases:

- Several pending trials: if all candidates without a cost are pending, further attempts for the same members of the
  population are proposed, and each member takes the outcome that arrives first. A lost trial delays nothing.
- Observations that the algorithm did not propose (*outsiders*) replace founders whose costs are awaited. Later they are
  offered to the algorithm together with the next generation.
- A population that has met only known configurations for ten generations is drawn again.

With several objectives, the state awaits the cost of the first one as before, and an algorithm gets the costs of all of
them, ``(n, m)`` instead of ``(n,)``. An algorithm with `uses_violations` gets one more column in runs with limits: the
total violation of the limits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.records import History, Observation, Proposal
from baco_like.records.limits import LIMIT, limits_of
from baco_like.records.rows import row_keys
from baco_like.records.trial import read_metric
from baco_like.spaces import Space
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


@dataclass(frozen=True, eq=False)
class PopulationState(Generic[M]):
    """The state: a population, and the candidates whose costs are awaited.

    Attributes:
        problem: The run.
        algorithm: The strategy with all its settings.
        seed: Seed of the algorithm's random numbers, together with the generation and the attempt.
        candidates: Candidates of this generation.
        keys: Their hash keys, n of them.
        costs: Their costs, ``(n,)``; NaN if awaited.
        population: The population; None while the founders' costs are awaited.
        generation: Number of the generation.
        observed: The observed costs, of the first objective.
        further: The observed costs of the other objectives.
        violations: The total violations of the observed outcomes beyond a limit; None if the algorithm uses none.
        penalised: Candidates that got the penalty.
        outsiders: Rows and costs of the outsiders since the generation began.
        size: Number of founders.
        stagnant: Number of candidates in the last consecutive generations without a new configuration.
    """

    problem: Problem
    algorithm: PopulationStrategy[M]
    seed: int
    candidates: Candidates
    keys: list[bytes] = field(default_factory=list)
    costs: Array = field(default_factory=lambda: np.empty(0))
    population: M | None = None
    generation: int = -1
    observed: ObservedCosts = field(default_factory=ObservedCosts)
    further: tuple[ObservedCosts, ...] = ()
    violations: ObservedCosts | None = None
    penalised: ObservedCosts = field(default_factory=ObservedCosts)
    outsiders: tuple[tuple[Array, float], ...] = ()
    size: int = 0
    stagnant: int = 0

    @property
    def awaited(self) -> Ints:
        """Members whose costs are awaited, increasing."""
        return np.flatnonzero(np.isnan(self.costs))

    def replace_candidate(self, member: int, other: Candidates, cost: float) -> PopulationState[M]:
        """Return the state with a single other candidate and its cost for a member."""
        keys, costs = self.keys.copy(), self.costs.copy()
        (keys[member],), costs[member] = row_keys(other.codes), cost
        arrays = [array.copy() for array in (self.candidates.codes, *self.candidates.moves)]
        for array, new in zip(arrays, (other.codes, *other.moves), strict=True):
            array[member] = new[0]
        candidates = Candidates(arrays[0], tuple(arrays[1:]))
        return replace(self, candidates=candidates, keys=keys, costs=costs)

    def attempt(self, number: int) -> Candidates:
        """Return an attempt for all members: the generation's own candidates, newly bred ones, or uniform draws."""
        if number == 0:
            return self.candidates
        rng = np.random.default_rng([self.seed, self.generation, number])
        if number % (_BRED + 1) != _BRED:
            bred = self._breed(self.population, rng)
            if len(bred) == len(self.candidates):
                return bred
        space = self.problem.space
        codes = space.feasible.spread(len(self.candidates), rng)
        return self.algorithm.place(space, self.candidates, codes)

    def advance(self) -> PopulationState[M]:
        """Breed until a candidate's cost is awaited, or too many generations have nothing new."""
        state, bred, stagnant = self, 0, 0
        while bred < _PER_TELL * state.size and stagnant < _STAGNANT_PER_TELL * state.size:
            if np.isnan(state.costs).any():
                break
            restart = state.stagnant >= _STAGNANT * state.size and state.population is not None
            state = state.begin_generation(None if restart else state._updated_population())
            bred += len(state.candidates)
            stagnant += len(state.candidates) if state.stagnant else 0
        return state

    def begin_generation(self, population: M | None) -> PopulationState[M]:
        """Return the state at the beginning of the next generation, with the known costs of its candidates."""
        generation = self.generation + 1
        candidates = self._breed(population, np.random.default_rng([self.seed, generation, 0]))
        keys = row_keys(candidates.codes)
        costs = self.observed.costs(keys)
        new = np.flatnonzero(np.isnan(costs))
        feasible = self.problem.space.feasible.contains_few(candidates.codes[new])
        costs[new[~feasible]] = np.inf
        penalised = self.penalised
        for i in new[~feasible]:
            if penalised.cost(keys[i]) is None:
                penalised = penalised.add(keys[i], math.inf)
        has_new = len(penalised) > len(self.penalised) or feasible.any()
        return replace(
            self,
            candidates=candidates,
            keys=keys,
            costs=costs,
            population=population,
            generation=generation,
            penalised=penalised,
            outsiders=(),
            size=len(candidates) if population is None else self.size,
            stagnant=0 if has_new else self.stagnant + len(candidates),
        )

    def _breed(self, population: M | None, rng: Rng) -> Candidates:
        if population is None:
            return self.algorithm.draw_founders(self.problem.space, rng)
        return self.algorithm.breed(self.problem.space, population, rng)

    def _updated_population(self) -> M:
        """Return the population after a generation whose costs are all known."""
        algorithm, candidates = self.algorithm, self.candidates
        costs = self._all_costs(self.costs, self.keys)
        if self.population is None:
            population = algorithm.form_population(candidates, costs)
        else:
            rng = np.random.default_rng([self.seed, self.generation, 0, 1])
            population = algorithm.select_members(self.population, candidates, costs, rng)
        for code, cost in self.outsiders:
            costs = self._all_costs(np.array([cost]), row_keys(code[None, :]))
            population = algorithm.add_outsider(self.problem.space, population, code, costs[0])
        return population

    def _all_costs(self, costs: Array, keys: Sequence[bytes]) -> Array:
        """Return the costs of all objectives, ``(n, m)``, or those of the only one, ``(n,)``.

        With violations there is one more column: the total violation of the limits, infinite for all other failures.

        Args:
            costs: Costs of the first objective, ``(n,)``; infinity for failures and penalised candidates.
            keys: The n configurations.
        """
        if not self.further and self.violations is None:
            return costs
        others = [other.costs(keys) for other in self.further]
        every = np.column_stack([costs, *others])
        failed = ~np.isfinite(costs)
        every[failed] = np.inf
        if self.violations is not None:
            violations = np.where(failed, self.violations.costs(keys), 0.0)
            every = np.column_stack([every, np.where(np.isnan(violations), np.inf, violations)])
        return every

    def observe(self, key: bytes, observation: Observation) -> PopulationState[M]:
        """Return the state that knows the costs of one more observation."""
        observed = self.observed.add(key, observation.cost)
        further = []
        for objective, known in zip(self.problem.objectives[1:], self.further, strict=True):
            succeeded = math.isfinite(observation.cost)
            cost = read_metric(observation, objective)[0] if succeeded else math.inf
            further.append(known.add(key, cost))
        violations = self.violations
        if violations is not None and observation.failure == LIMIT:
            violations = violations.add(key, self._violation(observation))
        return replace(self, observed=observed, further=tuple(further), violations=violations)

    def _violation(self, observation: Observation) -> float:
        limits = self.problem.limits
        assert limits is not None
        return limits_of(limits.texts).violation(observation, limits.objective)

    def assign_cost(self, key: bytes, code: Array, known: bool, tag: Any) -> PopulationState[M]:
        """Return the state after an observation, which is already in ``observed``.

        The cost belongs to every awaited candidate with this configuration, else to the member for which the attempt in
        the tag was made, else to an awaited founder; otherwise the configuration is an outsider.
        """
        cost, awaited = self.observed.cost(key), self.awaited
        assert cost is not None
        members = [i for i in awaited if self.keys[i] == key]
        if members:
            costs = self.costs.copy()
            costs[members] = cost
            return replace(self, costs=costs)
        match tag:
            case {"generation": self.generation, "place": int(member), "attempt": int(number)} if (
                number > 0 and member in awaited
            ):
                tried = self.attempt(number).select(np.array([member]))
                if row_keys(tried.codes) == [key]:
                    return self.replace_candidate(member, tried, cost)
        if known or not np.isfinite(cost):
            return self
        if self.population is None and len(awaited):
            founder = self.candidates.select(awaited[-1:])
            founder = self.algorithm.place(self.problem.space, founder, code[None, :])
            return self.replace_candidate(int(awaited[-1]), founder, cost)
        return replace(self, outsiders=(*self.outsiders, (code, cost)))


@dataclass(frozen=True)
class PopulationStrategy(BudgetedSettings, ABC, Generic[M]):
    """Base of population algorithms; ``M`` is the type of a population with everything that the algorithm remembers.

    The tag of a proposal holds its generation, member (``place``) and attempt, and the number of distinct infeasible
    candidates that had got the penalty by then (``penalised``), for comparisons that charge them.
    """

    constraints: str = setting("aware", choices=CONSTRAINTS)

    uses_violations: ClassVar[bool] = False
    """Whether `tell` passes the total violation of the limits as the last column of the costs, in runs with limits."""

    @property
    def is_aware(self) -> bool:
        """Whether infeasible candidates are repaired; otherwise they get the penalty."""
        return choose("constraints", self.constraints, CONSTRAINTS)

    @abstractmethod
    def draw_founders(self, space: Space, rng: Rng) -> Candidates:
        """Return the candidates of the first generation, at least one."""

    def place(self, space: Space, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates moved to given configurations, ``(n, w)``."""
        return Candidates(codes)

    @abstractmethod
    def form_population(self, founders: Candidates, costs: Array) -> M:
        """Return the first population from its founders and their costs, ``(n,)`` or ``(n, m)``."""

    @abstractmethod
    def breed(self, space: Space, population: M, rng: Rng) -> Candidates:
        """Return the candidates of the next generation, at least one."""

    @abstractmethod
    def select_members(self, population: M, candidates: Candidates, costs: Array, rng: Rng) -> M:
        """Return the population after the candidates' costs, ``(n,)`` or ``(n, m)``, are known."""

    @abstractmethod
    def add_outsider(self, space: Space, population: M, code: Array, cost: Any) -> M:
        """Return the population after an outsider, ``(w,)``, was observed: a finite cost, or one for each objective."""

    def for_problem(self, problem: Problem) -> Self:
        """Return the strategy with all its settings for a run."""
        return self.for_budget(problem.budget)

    def init(self, problem: Problem, rng: Rng) -> PopulationState[M]:
        """Return the state that awaits the founders' costs."""
        algorithm, seed = self.for_problem(problem), int(rng.integers(2**31))
        nothing = Candidates(np.empty((0, problem.space.width)))
        further = tuple(ObservedCosts() for _ in problem.objectives[1:])
        state: PopulationState[M]
        violations = ObservedCosts() if self.uses_violations and problem.limits else None
        state = PopulationState(
            problem, algorithm, seed, nothing, further=further, violations=violations
        )
        return state.begin_generation(None).advance()

    def ask(
        self, problem: Problem, history: History, state: PopulationState[M], n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return awaited candidates; if they are pending, further attempts for their members."""
        proposals: dict[bytes, Proposal] = {}
        awaited = state.awaited
        for attempt in _attempts(history, state, n):
            codes = state.attempt(attempt).codes[awaited]
            for i in _iterate_allowed(problem, history, codes, n):
                tag = {
                    "phase": "founders" if state.population is None else "bred",
                    "generation": state.generation,
                    "place": int(awaited[i]),
                    "attempt": attempt,
                    "penalised": len(state.penalised),
                }
                proposals.setdefault(row_keys(codes[i : i + 1])[0], Proposal(codes[i], tag))
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
        return (
            state.observe(key, observation).assign_cost(key, code, known, observation.tag).advance()
        )


def _attempts(history: History, state: PopulationState[Any], n: int) -> Iterator[int]:
    """Yield the attempts that may give n proposals: 0, then from the last pending one on.

    There are enough of them to include uniform draws.
    """
    members = len(state.awaited)
    if members == 0:
        return
    yield 0
    first = 1
    for trial in history.pending.values():
        match trial.tag:
            case {"generation": state.generation, "attempt": int(number)}:
                first = max(first, number)
    yield from range(first, first + _BRED + 1 + -(-(n + len(history.pending)) // members))


def _iterate_allowed(problem: Problem, history: History, codes: Codes, n: int) -> Iterator[int]:
    """Yield the indices of the rows that may be proposed.

    Rows are tested in blocks, because the first ones usually suffice.
    """
    block = 2 * n + len(history.pending)
    for begin in range(0, len(codes), block):
        rows = codes[begin : begin + block]
        allowed = ~problem.is_excluded(history, rows) & problem.space.feasible.contains_few(rows)
        yield from (begin + int(i) for i in np.flatnonzero(allowed))
