"""Genetic algorithm (Willemsen et al., section IV-D and Algorithm 3; Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.spaces import Space
from baco_like.spaces.rows import drop_duplicates
from baco_like.strategies import moves
from baco_like.strategies.evolutionary.base import Candidates, PopulationStrategy
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
