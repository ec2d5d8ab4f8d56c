"""The genetic algorithm, and NSGA-II for several objectives.

Sources: Willemsen et al., section IV-D and Algorithm 3; Schoonhoven et al. 2022, section III-C1; Deb, Pratap, Agarwal
and Meyarivan, IEEE TEVC 2002.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.records.front import iterate_fronts
from baco_like.spaces import Space
from baco_like.spaces.rows import drop_duplicates, find_first_rows
from baco_like.strategies import moves
from baco_like.strategies.evolutionary.base import Candidates, PopulationStrategy
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import BY_BUDGET, GENETIC_ALGORITHM, choose, setting

_SURPLUS = 4
"""Generations of further children that are bred to replace duplicates; after that duplicates stay."""


class Parents(NamedTuple):
    """The members who breed.

    Attributes:
        codes: Rows, ``(n, w)``.
        costs: Their costs, ``(n,)``, or ``(n, m)`` of m objectives.
    """

    codes: Codes
    costs: Array


@dataclass(frozen=True)
class GeneticStrategy(PopulationStrategy[Parents]):
    """Base of genetic algorithms: pairs are crossed, and their children are repaired and then mutated.

    Attributes:
        population: Number of members, 2 or more; fewer in a smaller space.
        crossover: The name of a crossover, or a `Crossover` function.
    """

    population: int = setting(BY_BUDGET, within="[2, inf)")
    crossover: str | moves.Crossover = setting(BY_BUDGET, choices=moves.CROSSOVERS)

    survey: ClassVar = GENETIC_ALGORITHM

    @property
    @abstractmethod
    def selection_rule(self) -> moves.Selection:
        """Selects who mates and who survives."""

    @abstractmethod
    def select_genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return the genes of n children that change, ``(n, genes)``."""

    @override
    def draw_founders(self, space: Space, rng: Rng) -> Candidates:
        """Return uniform draws."""
        draw = moves.draw_uniform if self.is_aware else moves.draw_anywhere
        return Candidates(draw(space, self.population, rng))

    @override
    def form_population(self, founders: Candidates, costs: Array) -> Parents:
        """Return the first parents."""
        return Parents(founders.codes, costs)

    @override
    def breed(self, space: Space, population: Parents, rng: Rng) -> Candidates:
        """Return as many children as there are parents, distinct ones if possible."""
        n = len(population.codes)
        children = drop_duplicates(self._breed_children(space, population, n, rng))
        if len(children) < n:
            more = self._breed_children(space, population, _SURPLUS * n, rng)
            children = drop_duplicates(np.concatenate([children, more]))
            if len(children) < n:
                children = np.concatenate([children, more])
        return Candidates(children[:n])

    @override
    def select_members(
        self, population: Parents, candidates: Candidates, costs: Array, rng: Rng
    ) -> Parents:
        """Return the survivors among parents and children."""
        survivors = self.selection_rule.survivors(population.costs, costs, rng)
        return Parents(
            np.concatenate([population.codes, candidates.codes])[survivors],
            np.concatenate([population.costs, costs])[survivors],
        )

    def _breed_children(self, space: Space, parents: Parents, n: int, rng: Rng) -> Codes:
        pairs = self.selection_rule.mates(parents.costs, -(-n // 2), rng)
        crossover = choose("crossover", self.crossover, moves.CROSSOVERS)
        children = moves.cross_pairs(space, parents.codes, pairs, crossover, rng)[:n]
        if self.is_aware:
            children = moves.repair_by_neighbour(space, children, rng)
        genes = self.select_genes(n, len(space.active), rng)
        change = moves.step_to_neighbours if self.is_aware else moves.change_genes
        return change(space, children, genes, rng)


@final
@dataclass(frozen=True)
class GeneticAlgorithm(GeneticStrategy):
    """Genetic algorithm that repairs infeasible children; constraints='penalty' is the unaware one.

    Pairs are crossed, and their children are repaired and then mutated, until there are as many children as parents.
    Use it for cheap evaluations and budgets of hundreds of evaluations; it handles every type of parameter.

    Open settings (None) are chosen for ``aware`` as in Willemsen et al., Table IV (population 20, one_point, beta_rank,
    mutation_chance 5), and for ``penalty`` by the budget as in Schoonhoven et al. 2022, Table III.

    Attributes:
        constraints: ``aware`` (infeasible children are repaired) or ``penalty`` (they cost infinity).
        population: Number of members, 2 or more; fewer in a smaller space.
        crossover: ``one_point``, ``two_point``, ``uniform``, ``disruptive_uniform``, or a `Crossover` function.
        selection: ``beta_rank`` (the children replace all parents), ``tournament`` (parents and children compete), or a
            `Selection` object.
        tournament: Number of competitors in a tournament, 1 or more.
        mutation_chance: One child in this number changes in one parameter.
        mutation: Alternatively: the probability, from 0 to 1, that a parameter of a child changes.

    Raises:
        ValueError: A setting is unknown or out of range, or both kinds of mutation are given.
    """

    selection: str | moves.Selection = setting(BY_BUDGET, choices=moves.SELECTIONS)
    tournament: int = setting(BY_BUDGET, within="[1, inf)")
    mutation_chance: int = setting(BY_BUDGET, within="[1, inf)")
    mutation: float = setting(BY_BUDGET, within="[0, 1]")

    @override
    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the settings of the papers for a budget."""
        settings = dict(super().default_settings(budget))
        mutation, tournament = settings.pop("mutation"), settings.pop("tournament")
        if self.is_aware:
            settings |= {"population": 20, "crossover": "one_point", "selection": "beta_rank"}
        if (self.selection or settings["selection"]) == "tournament":
            settings["tournament"] = tournament
        if self.mutation is None and self.mutation_chance is None:
            settings |= {"mutation_chance": 5} if self.is_aware else {"mutation": mutation}
        return settings

    @override
    def check_settings(self) -> None:
        """Check the settings; the two kinds of mutation exclude each other."""
        super().check_settings()
        if self.mutation_chance is not None and self.mutation is not None:
            raise ValueError(
                f"mutation_chance {self.mutation_chance} and mutation {self.mutation} exclude each other; give one"
            )

    @property
    @override
    def selection_rule(self) -> moves.Selection:
        """Selects who mates and who survives."""
        if self.selection == "tournament":
            return moves.Tournament(self.tournament)
        return choose("selection", self.selection, moves.SELECTIONS)

    @override
    def select_genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return the genes of n children that change, ``(n, genes)``."""
        if self.mutation is not None:
            return rng.random((n, genes)) < self.mutation
        changes = rng.integers(0, self.mutation_chance, n) == 0
        gene = rng.integers(0, max(1, genes), n)
        return np.asarray(changes[:, None] & (np.arange(genes) == gene[:, None]))

    @override
    def add_outsider(self, space: Space, population: Parents, code: Array, cost: float) -> Parents:
        """Return the parents, the worst one replaced if the outsider is better and not among them."""
        codes, costs, _ = moves.replace_worst(*population, code, cost)
        return Parents(codes, costs)


@dataclass(frozen=True)
class NonDominatedSorting:
    """Selects by the front that a member belongs to, and within a front by the crowding distance.

    Attributes:
        limited: Whether the last column of the costs is the total violation of the limits.
    """

    limited: bool = False

    def mates(self, costs: Array, pairs: int, rng: Rng) -> tuple[Ints, Ints]:
        """Return the winners of binary tournaments, ``(pairs,)`` each; different ones if there are two members."""
        n = len(costs)
        places = np.empty(n, dtype=np.int64)
        places[self.order(costs)] = np.arange(n)
        first, second = (_win_tournaments(places, pairs, rng) for _ in range(2))
        same = np.flatnonzero(first == second)
        if n > 1 and len(same):
            second[same] = (first[same] + rng.integers(1, n, len(same))) % n
        return first, second

    def survivors(self, parents: Array, children: Array, rng: Rng) -> Ints:
        """Return the best of parents and children."""
        return self.order(np.concatenate([parents, children]))[: len(children)]

    def order(self, costs: Array) -> Ints:
        """Return the order of the members, the best first."""
        return best_first(costs, limited=self.limited)


def best_first(costs: Array, *, limited: bool = False) -> Ints:
    """Return the order of the members, ``(n,)`` costs or ``(n, m)``: by front, then by falling crowding distance.

    With limits, the fronts are those of constrained domination (Deb et al. 2002, section VI). Member i dominates
    member j if i is feasible and j is not, if both are infeasible and the total violation of i is smaller, or if both
    are feasible and i dominates j in the objectives. Infeasible members have infinite costs and feasible ones no
    violation, so this is domination in all columns together.

    Args:
        costs: The costs; infinite for failures and outcomes beyond a limit.
        limited: Whether the last column is the total violation of the limits: 0 for successes, infinite for failures
            without values. The crowding distance ignores it.
    """
    costs = costs.reshape(len(costs), -1)
    objectives = costs[:, :-1] if limited else costs
    return np.concatenate([np.arange(0), *iterate_fronts(costs, objectives)])


def _win_tournaments(places: Ints, count: int, rng: Rng) -> Ints:
    """Return the winners of tournaments of two random members each, ``(count,)``; a lower place wins."""
    rivals = rng.integers(0, len(places), (count, 2))
    winners = places[rivals].argmin(axis=1)
    return np.asarray(rivals[np.arange(count), winners], dtype=np.int64)


@final
@dataclass(frozen=True)
class NSGA2(GeneticStrategy):
    """NSGA-II, a genetic algorithm for several objectives; constraints='penalty' is the unaware one.

    The best of parents and children survive: those of the first fronts, and in the last front those with the largest
    crowding distance. Mates win binary tournaments. Use it for cheap evaluations and budgets of hundreds of them; it
    handles every type of parameter. With one objective it is a genetic algorithm in which the best members survive.

    With limits on metrics, it selects by constrained domination (Deb et al. 2002, section VI): a feasible member
    dominates an infeasible one, and of two infeasible ones the one with the smaller total violation dominates. The
    total violation (`Limits.violation`) is the sum of the relative excesses. Failures without values are last.

    The open setting ``population`` is chosen by the budget as for the genetic algorithm (Schoonhoven et al. 2022, Table
    III). Crossover and mutation are those of that algorithm, because simulated binary crossover needs real numbers.

    Attributes:
        constraints: ``aware`` (infeasible children are repaired) or ``penalty`` (they cost infinity).
        population: Number of members, 2 or more; fewer in a smaller space.
        crossover: ``uniform``, ``one_point``, ``two_point``, ``disruptive_uniform``, or a `Crossover` function.
        mutation: Probability, from 0 to 1, that a parameter of a child changes; None: 1 / number of parameters, as in
            the paper.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    crossover: str | moves.Crossover = setting("uniform", choices=moves.CROSSOVERS)
    mutation: float = setting(BY_BUDGET, within="[0, 1]")

    limited: bool = field(default=False, init=False, repr=False)
    """Whether the run has limits."""

    several_objectives: ClassVar[bool] = True
    uses_violations: ClassVar[bool] = True

    @override
    def for_problem(self, problem: Problem) -> NSGA2:
        """Return the strategy with all its settings for a run."""
        algorithm = copy(super().for_problem(problem))
        object.__setattr__(algorithm, "limited", problem.limits is not None)
        return algorithm

    @override
    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the population for a budget."""
        return {"population": super().default_settings(budget)["population"]}

    @property
    @override
    def selection_rule(self) -> NonDominatedSorting:
        """Selects who mates and who survives."""
        return NonDominatedSorting(self.limited)

    @override
    def select_genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return the genes of n children that change, ``(n, genes)``."""
        share = 1.0 / max(1, genes) if self.mutation is None else self.mutation
        return rng.random((n, genes)) < share

    @override
    def select_members(
        self, population: Parents, candidates: Candidates, costs: Array, rng: Rng
    ) -> Parents:
        """Return the best distinct members among parents and children; copies survive if there are no others."""
        codes = np.concatenate([population.codes, candidates.codes])
        every = np.concatenate([population.costs, costs])
        distinct = find_first_rows(codes)
        survivors = distinct[self.selection_rule.order(every[distinct])]
        copies = np.setdiff1d(np.arange(len(codes)), distinct)
        kept = np.concatenate([survivors, copies])[: len(candidates)]
        return Parents(codes[kept], every[kept])

    @override
    def add_outsider(self, space: Space, population: Parents, code: Array, cost: Any) -> Parents:
        """Return the parents, the worst one replaced if the outsider is better and not among them."""
        if (population.codes == code).all(axis=1).any():
            return population
        codes = np.concatenate([population.codes, code[None]])
        costs = np.concatenate([population.costs, np.asarray(cost)[None]])
        kept = np.sort(self.selection_rule.order(costs)[: len(population.codes)])
        return Parents(codes[kept], costs[kept])
