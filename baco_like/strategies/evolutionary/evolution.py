"""Populations as ask/tell: candidates of a generation wait for their costs, and then the next one is bred.

What the algorithms share: known configurations are answered from the memo, infeasible ones with the penalty (an
infinite cost), and everything happens in ``tell``, so that with outcomes in order each algorithm is exactly what its
paper describes. It differs only where a run does:

- Several in flight: when all candidates that lack a cost are in flight, further attempts at the same places in the
  population are proposed, and each place takes the outcome that comes first. So a trial that never returns holds up
  nothing.
- Observations of other origin take the places of founders while these are awaited, and are offered to the algorithm
  with the next generation after that.
- A population that has met only known configurations for ten generations begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.records.history import History, row_keys
from baco_like.records.trial import Observation, Proposal
from baco_like.strategies.evolutionary.population import Algorithm, Candidates, Penalised
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.protocol import Problem

_SILENT = 10
"""A population begins anew after so many candidates in a row, as a multiple of it, that were all known before."""

_SILENT_PER_TELL = 2 * _SILENT
"""So many of them may one observation set off; if there are no others, uniform draws follow."""

_PER_TELL = 200
"""So many candidates, again as a multiple of the population, newly penalised ones included."""

_BRED = 3
"""Of the candidates for a place, each behind so many bred ones is a uniform draw, so that there is always one."""

M = TypeVar("M")


@final
@dataclass(frozen=True, eq=False)
class Generation(Generic[M]):
    """The state: a population and the candidates whose costs are awaited.

    Attributes:
        algorithm: With its settings for the problem.
        seed: Of all the algorithm's chance, together with the step and the attempt.
        candidates: Of this generation.
        keys: Theirs.
        costs: Theirs, ``(n,)``; NaN where awaited.
        population: None while the founders' costs are awaited.
        step: Number of the generation.
        memo: What was observed.
        penalised: What was answered with the penalty.
        strangers: Observations of other origin since the generation was begun.
        size: Number of founders.
        silent: Candidates of the last generations in a row in which all were known before.
    """

    algorithm: Algorithm[M]
    seed: int
    candidates: Candidates
    keys: list[bytes] = field(default_factory=list)
    costs: Array = field(default_factory=lambda: np.empty(0))
    population: M | None = None
    step: int = -1
    memo: ObservedCosts = field(default_factory=ObservedCosts)
    penalised: Penalised = field(default_factory=Penalised)
    strangers: tuple[tuple[Array, float], ...] = ()
    size: int = 0
    silent: int = 0

    @property
    def awaited(self) -> Ints:
        """Places whose costs are awaited, increasing."""
        return np.flatnonzero(np.isnan(self.costs))


@final
@dataclass(frozen=True)
class Evolution(Generic[M]):
    """A population algorithm as a strategy.

    The tag of a proposal says which generation, place and attempt it belongs to, and how many distinct infeasible
    candidates had been answered with the penalty by then (``penalised``), for comparisons that charge them.

    Attributes:
        by_budget: Returns the algorithm for a budget of evaluations, or None where it is not known, since settings
            that are left open follow from it.
    """

    by_budget: Callable[[int | None], Algorithm[M]]

    def init(self, problem: Problem, rng: Rng) -> Generation[M]:
        """Draw the founders."""
        algorithm = self.by_budget(problem.budget)
        nothing = Candidates(np.empty((0, problem.space.width)))
        blank: Generation[M] = Generation(algorithm, int(rng.integers(2**31)), nothing)
        return _advanced(problem, _begun(problem, blank, None))

    def ask(
        self, problem: Problem, history: History, state: Generation[M], n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return awaited candidates, and further attempts at their places where these are in flight."""
        found: dict[bytes, Proposal] = {}
        awaited = state.awaited
        for attempt in _attempts(history, state, n):
            tried = _attempt(problem, state, attempt).chosen(awaited)
            for i in _fresh(problem, history, tried.codes, n):
                (key,) = row_keys(tried.codes[i : i + 1])
                if key not in found:
                    tag = _tag(state, int(awaited[i]), attempt)
                    found[key] = Proposal(tried.codes[i], tag)
                if len(found) == n:
                    return list(found.values())
        return list(found.values())

    def tell(
        self, problem: Problem, state: Generation[M], observation: Observation, rng: Rng
    ) -> Generation[M]:
        """Note a cost, and breed on when no candidate lacks one."""
        code = observation.code
        if code is None:
            return state
        (key,) = row_keys(code[None, :])
        known = state.memo.cost(key) is not None
        state = replace(state, memo=state.memo.add(key, observation.cost))
        return _advanced(problem, _heard(problem, state, code, known, observation.tag))


def _tag(state: Generation[Any], place: int, attempt: int) -> dict[str, Any]:
    return {
        "phase": "founders" if state.population is None else "bred",
        "generation": state.step,
        "place": place,
        "attempt": attempt,
        "penalised": len(state.penalised),
    }


def _chance(seed: int, step: int, attempt: int) -> Rng:
    return np.random.default_rng([seed, step, attempt])


def _attempts(history: History, state: Generation[Any], n: int) -> Iterator[int]:
    """Yield the numbers of the attempts that may give n proposals: 0, and on from the last one in flight.

    There are so many that uniform draws are among them.
    """
    places = len(state.awaited)
    if places == 0:
        return
    yield 0
    tags = [trial.tag for trial in history.pending.values()]
    numbers = [tag.get("attempt") for tag in tags if _of_generation(state, tag)]
    first = max([1, *(number for number in numbers if isinstance(number, int))])
    yield from range(first, first + _BRED + 1 + -(-(n + len(tags)) // places))


def _of_generation(state: Generation[Any], tag: Any) -> bool:
    return isinstance(tag, Mapping) and tag.get("generation") == state.step


def _attempt(problem: Problem, state: Generation[M], attempt: int) -> Candidates:
    """Return candidates for all places: the generation's own, others bred alike, at last uniform draws."""
    if attempt == 0:
        return state.candidates
    rng = _chance(state.seed, state.step, attempt)
    if attempt % (_BRED + 1) == _BRED:
        return _immigrants(problem, state, rng)
    found = _bred(problem, state.algorithm, state.population, rng)
    return found if len(found) == len(state.candidates) else _immigrants(problem, state, rng)


def _bred(problem: Problem, algorithm: Algorithm[M], population: M | None, rng: Rng) -> Candidates:
    if population is None:
        return algorithm.founders(problem, rng)
    return algorithm.bred(problem, population, rng)


def _immigrants(problem: Problem, state: Generation[M], rng: Rng) -> Candidates:
    """Return the candidates moved to uniform draws."""
    codes = problem.space.feasible.sample(len(state.candidates), rng)
    return state.algorithm.placed(problem, state.candidates, codes)


def _fresh(problem: Problem, history: History, codes: Codes, n: int) -> Iterator[int]:
    """Yield the numbers of the rows that may be proposed; most often the first ones are enough."""
    block = 2 * n + len(history.pending)
    for begin in range(0, len(codes), block):
        rows = codes[begin : begin + block]
        free = ~problem.is_excluded(history, rows) & problem.space.feasible.contains_few(rows)
        yield from (begin + int(i) for i in np.flatnonzero(free))


def _begun(problem: Problem, state: Generation[M], population: M | None) -> Generation[M]:
    """Return the state at the beginning of the next generation: what is known of its candidates is answered."""
    step, algorithm = state.step + 1, state.algorithm
    rng = _chance(state.seed, step, 0)
    candidates = _bred(problem, algorithm, population, rng)
    keys = row_keys(candidates.codes)
    costs = state.memo.costs(candidates.codes)
    new = np.flatnonzero(np.isnan(costs))
    bad = new[~problem.space.feasible.contains_few(candidates.codes[new])]
    penalised = state.penalised.grown([keys[i] for i in bad])
    costs[bad] = np.inf
    progress = len(penalised) > len(state.penalised) or bool(np.isnan(costs).any())
    return replace(
        state,
        candidates=candidates,
        keys=keys,
        costs=costs,
        population=population,
        step=step,
        penalised=penalised,
        strangers=(),
        size=len(candidates) if population is None else state.size,
        silent=0 if progress else state.silent + len(candidates),
    )


def _advanced(problem: Problem, state: Generation[M]) -> Generation[M]:
    """Return the state with an awaited candidate, or the last one where only known ones are met."""
    bred = silent = 0
    while bred < _PER_TELL * state.size and silent < _SILENT_PER_TELL * state.size:
        if np.isnan(state.costs).any():
            break
        stuck = state.silent >= _SILENT * state.size and state.population is not None
        state = _begun(problem, state, None if stuck else _population(problem, state))
        bred += len(state.candidates)
        silent += len(state.candidates) if state.silent else 0
    return state


def _population(problem: Problem, state: Generation[M]) -> M:
    """Return the population after a generation whose costs are all known."""
    algorithm, candidates, costs = state.algorithm, state.candidates, state.costs
    if state.population is None:
        population = algorithm.gathered(problem, candidates, costs)
    else:
        rng = np.random.default_rng([state.seed, state.step, 0, 1])
        population = algorithm.replaced(problem, state.population, candidates, costs, rng)
    for code, cost in state.strangers:
        population = algorithm.joined(problem, population, code, cost)
    return population


def _heard(
    problem: Problem, state: Generation[M], code: Array, known: bool, tag: Any
) -> Generation[M]:
    """Return the state after an observation that its memo has already."""
    (key,) = row_keys(code[None, :])
    cost = state.memo.cost(key)
    assert cost is not None
    awaited = state.awaited
    places = np.array([i for i in awaited if state.keys[i] == key], dtype=np.int64)
    if len(places):
        return _answered(state, places, cost)
    attempt = _own_attempt(state, tag)
    if attempt is not None:
        place, number = attempt
        tried = _attempt(problem, state, number).chosen(np.array([place]))
        if row_keys(tried.codes) == [key]:
            return _answered(_changed(state, place, tried), np.array([place]), cost)
    if known or not np.isfinite(cost):
        return state
    if state.population is None and len(awaited):
        place = int(awaited[-1])
        stand_in = state.candidates.chosen(np.array([place]))
        stand_in = state.algorithm.placed(problem, stand_in, code[None, :])
        return _answered(_changed(state, place, stand_in), np.array([place]), cost)
    return replace(state, strangers=(*state.strangers, (code, cost)))


def _answered(state: Generation[M], places: Ints, cost: float) -> Generation[M]:
    costs = state.costs.copy()
    costs[places] = cost
    return replace(state, costs=costs)


def _changed(state: Generation[M], place: int, other: Candidates) -> Generation[M]:
    keys = state.keys.copy()
    (keys[place],) = row_keys(other.codes)
    return replace(state, candidates=state.candidates.at(np.array([place]), other), keys=keys)


def _own_attempt(state: Generation[Any], tag: Any) -> tuple[int, int] | None:
    """Return place and number of an attempt that is still of use, or None where the tag tells of none."""
    if not _of_generation(state, tag):
        return None
    place, number = tag.get("place"), tag.get("attempt")
    if not isinstance(place, int) or not isinstance(number, int):
        return None
    return (place, number) if number > 0 and place in state.awaited else None
