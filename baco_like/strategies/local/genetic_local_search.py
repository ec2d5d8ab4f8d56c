"""Genetic local search, or memetic algorithm (Schoonhoven et al. 2022, section III-C1).

Every child is climbed to a local minimum before it competes, as the authors' program does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.spaces.space import Space
from baco_like.strategies.local.climbing import Climber
from baco_like.strategies.local.local_search import uniform_row
from baco_like.strategies.local.neighbourhoods import NEIGHBOURHOODS, Neighbourhoods
from baco_like.strategies.local.scan import Scan
from baco_like.strategies.local.walk import Walk, Walking
from baco_like.strategies.moves.constraint_handling import cascade_neighbour, uniform_founders
from baco_like.strategies.moves.crossover import CROSSOVERS, Crossover
from baco_like.strategies.moves.selection import Tournament
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import given, named
from baco_like.strategies.survey_defaults import GENETIC_LOCAL_SEARCH, resolved

_SILENT = 5
"""Generations that have met only known configurations after which a population begins anew."""

_WINDOW = 150
"""Members among which a child's rival is the most similar one (the authors' program)."""

HILL_CLIMBERS = {"random_first": Climber(first=True, restart=True), "best": Climber(first=False)}
"""Names of what improves the members."""


@final
@dataclass(frozen=True, eq=False)
class Generation:
    """Parents, and the local minima that their children have reached.

    Attributes:
        rows: The parents, ``(n, w)``; none in the first generation.
        costs: Theirs, ``(n,)``.
        minima: The children's local minima, ``(n, w)``.
        reached: Their costs, ``(n,)``; NaN for those that are still climbing.
        observed: How many observations there were when it began.
        silent: How many generations in a row before it have met only known configurations.
    """

    rows: Codes
    costs: Array
    minima: Codes
    reached: Array
    observed: int = 0
    silent: int = 0


Select = Callable[[Space, Codes, Array, Codes, Array, Rng], tuple[Codes, Array]]
"""Returns the next parents with their costs, from parents and children."""


@final
@dataclass(frozen=True)
class GeneticLocalSearch:
    """Pairs are crossed, infeasible children repaired, every child climbed, and then it competes with the parents.

    Attributes:
        population: How many are in a generation; fewer in a smaller space.
        crossover: Makes two children of two parents.
        hill_climber: Improves every member.
        select: Decides who is in the next generation.
        neighbourhood: Of `NEIGHBOURHOODS`.
    """

    population: int
    crossover: Crossover
    hill_climber: Climber
    select: Select
    neighbourhood: str

    def __post_init__(self) -> None:
        if self.population < 2:
            raise ValueError(f"population {self.population} is too small; at least 2 must mate")

    def begun(self, problem: Problem, near: Neighbourhoods, rng: Rng) -> Walk[Generation]:
        """Return the walk in which uniform draws begin to climb."""
        nobody = np.empty((0, problem.space.width))
        none = Generation(nobody, np.empty(0), nobody, np.empty(0))
        return self._founded(problem, Walk(self, near, none), rng)

    def moved(self, problem: Problem, walk: Walk[Generation], rng: Rng) -> Walk[Generation]:
        """Climb on; when every child has reached a local minimum, go to the next generation."""
        memory, left = walk.memory, []
        minima, reached = memory.minima.copy(), memory.reached.copy()
        for scan in walk.scans:
            following: Scan | None = scan
            if scan.settled:
                following = self.hill_climber.next(scan, walk.near, walk.memo, rng)
            if following is not None:
                left.append(following)
            else:
                minima[scan.place], reached[scan.place] = scan.base, scan.mark
        memory = replace(memory, minima=minima, reached=reached)
        walk = replace(walk, memory=memory, scans=tuple(left))
        return walk if left else self._next(problem, walk, rng)

    def draw(self, problem: Problem, memory: Generation, rng: Rng) -> Array:
        """Return a child of two parents; a uniform draw in the first generation."""
        if not len(memory.rows):
            return uniform_row(problem, rng)
        row: Array = self._children(problem, memory, 1, rng)[0]
        return row

    def _founded(self, problem: Problem, walk: Walk[Generation], rng: Rng) -> Walk[Generation]:
        rows = uniform_founders(problem.space, self.population, rng)
        nobody = rows[:0]
        return _climbing(replace(walk, memory=Generation(nobody, np.empty(0), rows, np.empty(0))))

    def _next(self, problem: Problem, walk: Walk[Generation], rng: Rng) -> Walk[Generation]:
        """Return the walk in which the next generation begins to climb."""
        old = walk.memory
        silent = old.silent + 1 if walk.observed == old.observed else 0
        if silent >= _SILENT:
            return self._founded(problem, walk, rng)
        rows, costs = old.minima, old.reached
        if len(old.rows):
            rows, costs = self.select(problem.space, old.rows, old.costs, rows, costs, rng)
        if walk.given is not None:
            rows, costs = _joined(rows, costs, *walk.given)
        parents = Generation(rows, costs, rows, costs, silent=silent)
        children = self._children(problem, parents, len(rows), rng)
        walk = replace(walk, memory=replace(parents, minima=children), given=None)
        return _climbing(walk)

    def _children(self, problem: Problem, parents: Generation, n: int, rng: Rng) -> Codes:
        """Return n feasible children of pairs in which all mate alike."""
        space = problem.space
        mothers, fathers = Tournament().mates(parents.costs, -(-n // 2), rng)
        pairs = self.crossover(space, parents.rows[mothers], parents.rows[fathers], rng)
        children = np.stack(pairs, axis=1).reshape(-1, space.width)[:n]
        return cascade_neighbour(space, children, rng)


def _climbing(walk: Walk[Generation]) -> Walk[Generation]:
    """Return the walk in which the rows among the minima begin to climb."""
    rows = walk.memory.minima
    memory = replace(walk.memory, reached=np.full(len(rows), np.nan), observed=walk.observed)
    scans = tuple(Scan.start(row, walk.memo, place) for place, row in enumerate(rows))
    return replace(walk, memory=memory, scans=scans)


def _joined(rows: Codes, costs: Array, row: Array, cost: float) -> tuple[Codes, Array]:
    """Return the members with the worst one replaced by something better that is not among them."""
    worst = int(costs.argmax())
    if cost >= costs[worst] or (rows == row).all(axis=1).any():
        return rows, costs
    rows, costs = rows.copy(), costs.copy()
    rows[worst], costs[worst] = row, cost
    return rows, costs


def restricted_tournament(
    space: Space, rows: Codes, costs: Array, children: Codes, reached: Array, rng: Rng
) -> tuple[Codes, Array]:
    """Return the members after each child has replaced the most similar one of some, if it is better (Harik 1995).

    The similarity is the number of parameters that are the same.

    Args:
        space: Where.
        rows: The members, ``(n, w)``.
        costs: Theirs, ``(n,)``.
        children: Rows, ``(m, w)``.
        reached: Their costs, ``(m,)``.
        rng: Chance: who is compared, and who of equally similar ones is the rival.
    """
    rows, costs = rows.copy(), costs.copy()
    starts = [space.columns[name].start for name in space.active] or [0]
    for child, cost in zip(children, reached, strict=True):
        window = rng.permutation(len(rows))[:_WINDOW]
        differ = np.logical_or.reduceat(rows[window] != child, starts, axis=1).sum(axis=1)
        rival = window[differ.argmin()]
        if cost < costs[rival]:
            rows[rival], costs[rival] = child, cost
    return rows, costs


def tournament(
    space: Space, rows: Codes, costs: Array, children: Codes, reached: Array, rng: Rng
) -> tuple[Codes, Array]:
    """Return the winners of tournaments between parents and children (see `Tournament`)."""
    chosen = Tournament().survivors(costs, reached, rng)
    return np.concatenate([rows, children])[chosen], np.concatenate([costs, reached])[chosen]


SELECTIONS: dict[str, Select] = {
    "restricted_tournament": restricted_tournament,
    "tournament": tournament,
}
"""Names of selections, for settings."""


def genetic_local_search(
    population: int | None = None,
    crossover: str | None = None,
    selection: str | None = None,
    hill_climber: str | None = None,
    neighbourhood: str | None = None,
) -> Walking[Generation]:
    """Genetic local search: crossover whose children are all climbed to local minima.

    What is left open is chosen by the budget (Schoonhoven et al. 2022, Table III).

    Args:
        population: How many are in a generation.
        crossover: ``one_point``, ``two_point``, ``uniform`` or ``disruptive_uniform``.
        selection: ``restricted_tournament`` or ``tournament``.
        hill_climber: ``random_first`` or ``best``.
        neighbourhood: ``hamming`` or ``adjacent``.

    Raises:
        ValueError: A setting is unknown or out of range.
    """
    if neighbourhood is not None:
        named("neighbourhood", neighbourhood, NEIGHBOURHOODS)
    own = given(
        population=population,
        crossover=crossover,
        selection=selection,
        hill_climber=hill_climber,
        neighbourhood=neighbourhood,
    )

    def by_budget(budget: int | None) -> GeneticLocalSearch:
        settings = resolved(GENETIC_LOCAL_SEARCH, budget, own)
        return GeneticLocalSearch(
            settings["population"],
            named("crossover", settings["crossover"], CROSSOVERS),
            named("hill_climber", settings["hill_climber"], HILL_CLIMBERS),
            named("selection", settings["selection"], SELECTIONS),
            settings["neighbourhood"],
        )

    by_budget(None)  # wrong settings are refused here, not when the run begins
    return Walking(by_budget)
