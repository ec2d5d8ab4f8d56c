"""Genetic local search, also called a memetic algorithm (Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Rng
from baco_like.spaces import Space
from baco_like.strategies import moves
from baco_like.strategies.local import base
from baco_like.strategies.local.base import HILL_CLIMBERS, Climber, LocalSearchStrategy, Scan
from baco_like.strategies.settings import BY_BUDGET, GENETIC_LOCAL_SEARCH, choose, setting

_STAGNANT = 5
"""Number of generations without a new configuration after which the population is drawn again."""

_WINDOW = 150
"""Number of members among which a child's rival is the most similar one (the authors' program)."""


@dataclass(frozen=True, eq=False)
class ClimbingGeneration:
    """Parents and the local minima that their children have reached.

    Attributes:
        rows: The parents, ``(n, w)``; empty in the first generation.
        costs: Costs of the parents, ``(n,)``.
        minima: Local minima of the children, ``(n, w)``.
        minima_costs: Costs of the minima, ``(n,)``; NaN for children that are still climbing.
        observations: Number of observations when the generation began.
        stagnant: Number of consecutive generations before it without a new configuration.
    """

    rows: Codes
    costs: Array
    minima: Codes
    minima_costs: Array
    observations: int = 0
    stagnant: int = 0


GenerationState = base.SearchState[ClimbingGeneration]

SurvivorSelection = Callable[[Space, Codes, Array, Codes, Array, Rng], tuple[Codes, Array]]
"""Returns the next parents and their costs, from the parents, the children and the costs of both."""


def select_by_restricted_tournament(
    space: Space, rows: Codes, costs: Array, children: Codes, child_costs: Array, rng: Rng
) -> tuple[Codes, Array]:
    """Replace members by better children, each child competing with the most similar member (Harik 1995).

    The similarity is the number of equal parameters. A child is compared with 150 random members.

    Args:
        space: The space.
        rows: The members, ``(n, w)``.
        costs: Their costs, ``(n,)``.
        children: The children, ``(m, w)``.
        child_costs: Their costs, ``(m,)``.
        rng: Random generator; it chooses the compared members and breaks ties.
    """
    rows, costs = rows.copy(), costs.copy()
    starts = [space.columns[name].start for name in space.active] or [0]
    for child, cost in zip(children, child_costs, strict=True):
        window = rng.permutation(len(rows))[:_WINDOW]
        differences = np.logical_or.reduceat(rows[window] != child, starts, axis=1).sum(axis=1)
        rival = window[differences.argmin()]
        if cost < costs[rival]:
            rows[rival], costs[rival] = child, cost
    return rows, costs


def select_by_tournament(
    space: Space, rows: Codes, costs: Array, children: Codes, child_costs: Array, rng: Rng
) -> tuple[Codes, Array]:
    """Return the winners of tournaments between parents and children (see `Tournament`)."""
    chosen = moves.Tournament().survivors(costs, child_costs, rng)
    both = np.concatenate([rows, children]), np.concatenate([costs, child_costs])
    return both[0][chosen], both[1][chosen]


SELECTIONS: Mapping[str, SurvivorSelection] = {
    "restricted_tournament": select_by_restricted_tournament,
    "tournament": select_by_tournament,
}
"""Survivor selections by name, for the setting ``selection``."""


@final
@dataclass(frozen=True)
class GeneticLocalSearch(LocalSearchStrategy[ClimbingGeneration]):
    """Genetic local search: crossover whose children are all climbed to local minima.

    Pairs are crossed, infeasible children are repaired, every child is climbed, and the minima compete with the
    parents, as in the authors' program. Use it for cheap evaluations and large budgets. Source: Schoonhoven et al.
    2022, section III-C1; open settings (None) follow its Table III by the budget.

    Attributes:
        population: Number of members, 2 or more; fewer in a smaller space.
        crossover: ``one_point``, ``two_point``, ``uniform``, ``disruptive_uniform``, or a `Crossover` function.
        selection: ``restricted_tournament``, ``tournament``, or a `SurvivorSelection` function.
        hill_climber: ``random_first``, ``best``, or a `Climber`.
        neighbourhood: Neighbourhood of the hill climber: ``hamming`` or ``adjacent``.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    population: int = setting(BY_BUDGET, within="[2, inf)")
    crossover: str | moves.Crossover = setting(BY_BUDGET, choices=moves.CROSSOVERS)
    selection: str | SurvivorSelection = setting(BY_BUDGET, choices=SELECTIONS)
    hill_climber: str | Climber = setting(BY_BUDGET, choices=HILL_CLIMBERS)

    survey: ClassVar = GENETIC_LOCAL_SEARCH

    @override
    def start(self, state: GenerationState, rng: Rng) -> GenerationState:
        """Return the state in which uniform draws begin to climb."""
        rows, no_costs = moves.draw_uniform(state.problem.space, self.population, rng), np.empty(0)
        return _start_climbing(state, ClimbingGeneration(rows[:0], no_costs, rows, no_costs))

    @override
    def move(self, state: GenerationState, rng: Rng) -> GenerationState:
        """Climb on; when every child has reached a local minimum, breed the next generation."""
        memory = state.memory
        climber = choose("hill_climber", self.hill_climber, HILL_CLIMBERS)
        climbing: list[Scan] = []
        minima, minima_costs = memory.minima.copy(), memory.minima_costs.copy()
        for scan in state.scans:
            following = state.climb(climber, scan, rng) if scan.settled else scan
            if following is not None:
                climbing.append(following)
            else:
                minima[scan.member], minima_costs[scan.member] = scan.base, scan.threshold
        memory = replace(memory, minima=minima, minima_costs=minima_costs)
        state = replace(state, memory=memory, scans=tuple(climbing))
        return state if climbing else self._breed_generation(state, rng)

    @override
    def draw_start(self, space: Space, memory: ClimbingGeneration, rng: Rng) -> Array:
        """Return a child of two parents; a uniform draw in the first generation."""
        if not len(memory.rows):
            return super().draw_start(space, memory, rng)
        return self._breed(space, memory.rows, memory.costs, 1, rng).reshape(-1)

    def _breed_generation(self, state: GenerationState, rng: Rng) -> GenerationState:
        """Return the state in which the next generation begins to climb."""
        old, space = state.memory, state.problem.space
        stagnant = old.stagnant + 1 if state.observations == old.observations else 0
        if stagnant >= _STAGNANT:
            return self.start(state, rng)
        rows, costs = old.minima, old.minima_costs
        if len(old.rows):
            select = choose("selection", self.selection, SELECTIONS)
            rows, costs = select(space, old.rows, old.costs, rows, costs, rng)
        if state.surprise is not None:
            rows, costs, _ = moves.replace_worst(rows, costs, *state.surprise)
        children = self._breed(space, rows, costs, len(rows), rng)
        memory = ClimbingGeneration(rows, costs, children, costs, stagnant=stagnant)
        return _start_climbing(replace(state, surprise=None), memory)

    def _breed(self, space: Space, rows: Codes, costs: Array, n: int, rng: Rng) -> Codes:
        """Return n feasible children of random pairs, ``(n, w)``."""
        crossover = choose("crossover", self.crossover, moves.CROSSOVERS)
        pairs = moves.Tournament().mates(costs, -(-n // 2), rng)
        children = moves.cross_pairs(space, rows, pairs, crossover, rng)
        return moves.repair_by_neighbour(space, children[:n], rng)


def _start_climbing(state: GenerationState, memory: ClimbingGeneration) -> GenerationState:
    """Return the state in which the rows in ``minima`` begin to climb."""
    no_costs = np.full(len(memory.minima), np.nan)
    memory = replace(memory, minima_costs=no_costs, observations=state.observations)
    scans = tuple(Scan.start(row, state.observed, i) for i, row in enumerate(memory.minima))
    return replace(state, memory=memory, scans=scans)
