"""Differential evolution (Storn and Price 1997) on value indices, as in Willemsen et al., section IV-B, Algorithm 1.

Members are configurations. Their points are the middles of their values' intervals in the unit box, so that rounding
a mutant to the nearest index and clipping it is the box's way back to configurations; reals are not rounded, and
permutations have a random key for each element (see `geometry/continuous.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.records.history import row_keys
from baco_like.strategies.evolutionary.differential_mutation import METHODS, random_others
from baco_like.strategies.evolutionary.evolution import Evolution
from baco_like.strategies.evolutionary.population import Candidates
from baco_like.strategies.geometry.continuous import UnitBox
from baco_like.strategies.moves.constraint_handling import (
    Founders,
    Repair,
    any_founders,
    aware,
    latin_founders,
    nearest_row,
    uniform_founders,
    unrepaired,
)
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import given, named
from baco_like.strategies.survey_defaults import DIFFERENTIAL_EVOLUTION, resolved

_STILL = 2
"""Generations without a change after which the members are drawn anew."""


@final
@dataclass(frozen=True, eq=False)
class Members:
    """The population.

    Attributes:
        codes: Rows, ``(n, w)``.
        costs: Theirs, ``(n,)``.
        best: The best row so far, ``(w,)``; it outlives its population.
        best_cost: Its cost.
        still: How many generations in a row have changed nothing.
    """

    codes: Codes
    costs: Array
    best: Array
    best_cost: float
    still: int = 0


@final
@dataclass(frozen=True)
class DifferentialEvolution:
    """Every member competes with a trial vector made of the differences of others; the better one stays.

    Attributes:
        method: A name of `differential_mutation.METHODS`.
        population_per_parameter: Members for each parameter that is not constant.
        weight: The scale F of the differences: drawn anew for every generation between its two ends (dither).
        recombination: The crossover rate CR.
        first: Draws the first members.
        anew: Draws members when the population is stuck.
        repair: Makes trial vectors feasible, or leaves them.
    """

    method: str = "best1bin"
    population_per_parameter: int = 16
    weight: tuple[float, float] = (0.7, 0.7)
    recombination: float = 0.6
    first: Founders = latin_founders
    anew: Founders = uniform_founders
    repair: Repair = nearest_row

    def __post_init__(self) -> None:
        named("method", self.method, METHODS)
        if self.population_per_parameter < 1:
            raise ValueError(
                f"population_per_parameter {self.population_per_parameter} is too small; at least 1"
            )
        if not 0.0 <= self.weight[0] <= self.weight[1] <= 2.0:
            raise ValueError(
                f"weight {self.weight} is out of range; give a number, or two increasing ones, from 0 to 2"
            )
        if not 0.0 <= self.recombination <= 1.0:
            raise ValueError(f"recombination {self.recombination} is no probability")

    def size(self, problem: Problem) -> int:
        """Return the number of members: so many for each parameter, and enough for the differences."""
        donor, _ = METHODS[self.method]
        return max(5, donor.others + 1, self.population_per_parameter * len(problem.space.active))

    def founders(self, problem: Problem, rng: Rng) -> Candidates:
        """Return the candidates of the first generation."""
        return Candidates(self.first(problem.space, self.size(problem), rng))

    def placed(self, problem: Problem, candidates: Candidates, codes: Codes) -> Candidates:
        """Return given configurations as candidates."""
        return Candidates(codes)

    def gathered(self, problem: Problem, founders: Candidates, costs: Array) -> Members:
        """Return the first population."""
        best = int(costs.argmin())
        return Members(founders.codes, costs, founders.codes[best], float(costs[best]))

    def bred(self, problem: Problem, population: Members, rng: Rng) -> Candidates:
        """Return a trial vector for every member, or new random members where nothing changes any more."""
        space, n = problem.space, len(population.codes)
        if population.still >= _STILL:
            fresh = self.anew(space, n, rng)
            return Candidates(fresh[np.arange(n) % len(fresh)])
        box = UnitBox.of(space)
        points, best = box.to_unit(population.codes), box.to_unit(population.best[None, :])[0]
        donor, cross = METHODS[self.method]
        others = random_others(n, donor.others, rng)
        mutants = donor.mutant(
            points, best, [points[other] for other in others.T], rng.uniform(*self.weight)
        )
        taken = cross(n, box.axes, self.recombination, rng)
        trials = box.from_unit(np.where(taken, mutants, points))
        return Candidates(self.repair(space, trials, rng))

    def replaced(
        self,
        problem: Problem,
        population: Members,
        candidates: Candidates,
        costs: Array,
        rng: Rng,
    ) -> Members:
        """Return the members, each replaced by its trial vector if that is as good and not a member already."""
        if population.still >= _STILL:
            fresh = Members(candidates.codes, costs, population.best, population.best_cost)
            return _with_best(fresh, costs.argmin())
        codes, own = population.codes.copy(), population.costs.copy()
        keys, trials = row_keys(codes), row_keys(candidates.codes)
        members = replace(population, codes=codes, costs=own, still=population.still + 1)
        for i in np.flatnonzero(costs <= own):
            if trials[i] not in keys:
                codes[i], own[i], keys[i] = candidates.codes[i], costs[i], trials[i]
                members = _with_best(replace(members, still=0), i)
        return members

    def joined(self, problem: Problem, population: Members, code: Array, cost: float) -> Members:
        """Return the members with the worst one replaced by something better that is no member already."""
        worst = population.costs.argmax()
        among = (population.codes == code).all(axis=1).any()
        if among or cost >= population.costs[worst]:
            return population
        codes, costs = population.codes.copy(), population.costs.copy()
        codes[worst], costs[worst] = code, cost
        return _with_best(replace(population, codes=codes, costs=costs, still=0), worst)


def _with_best(members: Members, place: np.intp) -> Members:
    """Return the members with one of them as the best so far, if it is as good as that."""
    cost = float(members.costs[place])
    if cost > members.best_cost:
        return members
    return replace(members, best=members.codes[place].copy(), best_cost=cost)


def differential_evolution(
    constraints: str = "aware",
    method: str | None = None,
    population_per_parameter: int | None = None,
    weight: float | Sequence[float] | None = None,
    recombination: float | None = None,
) -> Evolution[Members]:
    """Differential evolution with repaired trial vectors; constraints='penalty' is the unaware one.

    What is left open is for constraints="aware" as in Willemsen et al., Table IV (best1bin, 16, 0.7, 0.6), and for
    "penalty" by the budget as in Schoonhoven et al. 2022, Table III.

    Args:
        constraints: ``aware`` or ``penalty``.
        method: A mutant (best1, best2, rand1, rand2, currenttobest1, randtobest1) and a crossover (bin, exp) as one
            word, such as ``best1bin``.
        population_per_parameter: Members for each parameter that is not constant.
        weight: The scale of the differences, or two numbers between which it is drawn for every generation (dither).
        recombination: The crossover rate.

    Raises:
        ValueError: A setting is unknown or out of range.
    """
    handled = aware(constraints)
    own = given(
        mutation_strategy=method,
        population_per_parameter=population_per_parameter,
        dither=None if weight is None else _ends(weight),
        recombination=recombination,
    )
    if handled:
        own = {**_PAPER, **own}

    def by_budget(budget: int | None) -> DifferentialEvolution:
        settings = resolved(DIFFERENTIAL_EVOLUTION, budget, own)
        return DifferentialEvolution(
            method=settings["mutation_strategy"],
            population_per_parameter=settings["population_per_parameter"],
            weight=settings["dither"],
            recombination=settings["recombination"],
            first=latin_founders if handled else any_founders,
            anew=uniform_founders if handled else any_founders,
            repair=nearest_row if handled else unrepaired,
        )

    by_budget(None)  # wrong settings are refused here, not when the run begins
    return Evolution(by_budget)


_PAPER = {
    "mutation_strategy": "best1bin",
    "population_per_parameter": 16,
    "dither": (0.7, 0.7),
    "recombination": 0.6,
}
"""Table IV of Willemsen et al."""


def _ends(weight: float | Sequence[float]) -> tuple[float, float]:
    ends = tuple(weight) if isinstance(weight, Sequence) else (weight, weight)
    if len(ends) != 2:
        raise ValueError(f"weight {weight} must be one number or two")
    return ends
