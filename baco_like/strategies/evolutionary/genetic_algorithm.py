"""Genetic algorithm (Willemsen et al., section IV-D and Algorithm 3; Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.spaces.rows import distinct
from baco_like.strategies.evolutionary.evolution import Evolution
from baco_like.strategies.evolutionary.population import Candidates
from baco_like.strategies.moves.constraint_handling import (
    Founders,
    Repair,
    any_founders,
    aware,
    cascade_neighbour,
    uniform_founders,
    unrepaired,
)
from baco_like.strategies.moves.crossover import CROSSOVERS, Crossover, one_point
from baco_like.strategies.moves.mutation import (
    Mutation,
    OneIn,
    PerGene,
    Step,
    any_steps,
    feasible_steps,
)
from baco_like.strategies.moves.selection import BetaRank, Selection, Tournament
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import given, named
from baco_like.strategies.survey_defaults import GENETIC_ALGORITHM, resolved

_SURPLUS = 4
"""So many generations of further children are bred to replace those that came twice; then they may come twice."""


@final
@dataclass(frozen=True, eq=False)
class Parents:
    """Those who breed.

    Attributes:
        codes: Rows, ``(n, w)``.
        costs: Theirs, ``(n,)``.
    """

    codes: Codes
    costs: Array


@final
@dataclass(frozen=True)
class GeneticAlgorithm:
    """Pairs are crossed, their children repaired and then mutated, until they are as many as their parents.

    Attributes:
        population: How many are in a generation; fewer in a smaller space.
        crossover: Makes two children of two parents.
        selection: Who mates, and who survives.
        mutation: Which genes of a child change.
        step: Changes them.
        first: Draws the first generation.
        repair: Makes children feasible, or leaves them.
    """

    population: int = 20
    crossover: Crossover = one_point
    selection: Selection = field(default_factory=BetaRank)
    mutation: Mutation = field(default_factory=OneIn)
    step: Step = feasible_steps
    first: Founders = uniform_founders
    repair: Repair = cascade_neighbour

    def __post_init__(self) -> None:
        if self.population < 2:
            raise ValueError(f"population {self.population} is too small; at least 2 must mate")

    def founders(self, problem: Problem, rng: Rng) -> Candidates:
        """Return the candidates of the first generation."""
        return Candidates(self.first(problem.space, self.population, rng))

    def placed(self, problem: Problem, candidates: Candidates, codes: Codes) -> Candidates:
        """Return given configurations as candidates."""
        return Candidates(codes)

    def gathered(self, problem: Problem, founders: Candidates, costs: Array) -> Parents:
        """Return the first generation."""
        return Parents(founders.codes, costs)

    def bred(self, problem: Problem, population: Parents, rng: Rng) -> Candidates:
        """Return as many children as there are parents, distinct ones as far as possible."""
        n = len(population.codes)
        kept = distinct(self._children(problem, population, n, rng))
        if len(kept) < n:
            more = self._children(problem, population, _SURPLUS * n, rng)
            both = distinct(np.concatenate([kept, more]))
            kept = np.concatenate([both, more])[:n] if len(both) < n else both[:n]
        return Candidates(kept)

    def replaced(
        self,
        problem: Problem,
        population: Parents,
        candidates: Candidates,
        costs: Array,
        rng: Rng,
    ) -> Parents:
        """Return the survivors among parents and children."""
        chosen = self.selection.survivors(population.costs, costs, rng)
        return Parents(
            np.concatenate([population.codes, candidates.codes])[chosen],
            np.concatenate([population.costs, costs])[chosen],
        )

    def joined(self, problem: Problem, population: Parents, code: Array, cost: float) -> Parents:
        """Return the parents with the worst one replaced by something better that is not among them."""
        worst = int(population.costs.argmax())
        among = (population.codes == code).all(axis=1).any()
        if among or cost >= population.costs[worst]:
            return population
        codes, costs = population.codes.copy(), population.costs.copy()
        codes[worst], costs[worst] = code, cost
        return Parents(codes, costs)

    def _children(self, problem: Problem, parents: Parents, n: int, rng: Rng) -> Codes:
        """Return n children."""
        space = problem.space
        mothers, fathers = self.selection.mates(parents.costs, -(-n // 2), rng)
        pairs = self.crossover(space, parents.codes[mothers], parents.codes[fathers], rng)
        children = np.stack(pairs, axis=1).reshape(-1, space.width)[:n]
        children = self.repair(space, children, rng)
        genes = self.mutation.genes(n, len(space.active), rng)
        return self.step(space, children, genes, rng)


def genetic_algorithm(
    constraints: str = "aware",
    population: int | None = None,
    crossover: str | None = None,
    selection: str | None = None,
    tournament: int | None = None,
    mutation_chance: int | None = None,
    mutation: float | None = None,
) -> Evolution[Parents]:
    """Genetic algorithm that repairs infeasible children; constraints='penalty' is the unaware one.

    What is left open is for constraints="aware" as in Willemsen et al., Table IV (population 20, one_point, beta_rank,
    mutation_chance 5), and for "penalty" by the budget as in Schoonhoven et al. 2022, Table III.

    Args:
        constraints: ``aware`` or ``penalty``.
        population: How many are in a generation.
        crossover: ``one_point``, ``two_point``, ``uniform`` or ``disruptive_uniform``.
        selection: ``beta_rank`` (the young replace all of the old) or ``tournament`` (among old and young).
        tournament: How many compete in a tournament.
        mutation_chance: One child in so many changes in one parameter.
        mutation: Or: the probability with which every parameter of every child changes.

    Raises:
        ValueError: A setting is unknown or out of range, or both kinds of mutation are given.
    """
    handled = aware(constraints)
    if mutation_chance is not None and mutation is not None:
        raise ValueError(
            f"mutation_chance {mutation_chance} and mutation {mutation} exclude each other; give one"
        )
    if handled and mutation is None and mutation_chance is None:
        mutation_chance = 5
    own = given(
        population=population,
        crossover=crossover,
        selection=selection,
        tournament=tournament,
        mutation=mutation,
        mutation_chance=mutation_chance,
    )
    if handled:
        own = {**_PAPER, **own}

    def by_budget(budget: int | None) -> GeneticAlgorithm:
        return _made(handled, **resolved(GENETIC_ALGORITHM, budget, own))

    by_budget(None)  # wrong settings are refused here, not when the run begins
    return Evolution(by_budget)


_PAPER = {"population": 20, "crossover": "one_point", "selection": "beta_rank"}
"""Table IV of Willemsen et al., but for the mutation."""


def _made(
    handled: bool,
    population: int,
    crossover: str,
    selection: str,
    tournament: int,
    mutation: float,
    mutation_chance: int | None = None,
) -> GeneticAlgorithm:
    selections: dict[str, Selection] = {
        "beta_rank": BetaRank(),
        "tournament": Tournament(tournament),
    }
    return GeneticAlgorithm(
        population=population,
        crossover=named("crossover", crossover, CROSSOVERS),
        selection=named("selection", selection, selections),
        mutation=PerGene(mutation) if mutation_chance is None else OneIn(mutation_chance),
        step=feasible_steps if handled else any_steps,
        first=uniform_founders if handled else any_founders,
        repair=cascade_neighbour if handled else unrepaired,
    )
