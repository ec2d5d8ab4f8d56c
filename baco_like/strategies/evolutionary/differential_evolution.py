"""Differential evolution (Storn and Price 1997) on value indices (Willemsen et al., section IV-B, Algorithm 1).

Members are configurations. Their points in the unit box are the middles of their values' intervals; mapping a mutant
back to a configuration therefore rounds it to the nearest index and clips it. Reals are not rounded, and permutations
have one random key per element (see `geometry.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.records.rows import row_keys
from baco_like.spaces import Space
from baco_like.strategies import moves
from baco_like.strategies.evolutionary.base import Candidates, PopulationStrategy
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.settings import BY_BUDGET, DIFFERENTIAL_EVOLUTION, setting

Mutant = Callable[[Array, Array, Sequence[Array], float], Array]
"""Returns mutants, ``(n, k)``, from the members, ``(n, k)``, the best point, ``(k,)``, random other members, ``(n, k)``
each, and the weight F."""


class Donor(NamedTuple):
    """A formula for mutants.

    Attributes:
        others: Number of random other members in the formula.
        mutant: The formula.
    """

    others: int
    mutant: Mutant


DONORS: Mapping[str, Donor] = {
    "best1": Donor(2, lambda own, best, r, f: best + f * (r[0] - r[1])),
    "best2": Donor(4, lambda own, best, r, f: best + f * (r[0] + r[1] - r[2] - r[3])),
    "rand1": Donor(3, lambda own, best, r, f: r[0] + f * (r[1] - r[2])),
    "rand2": Donor(5, lambda own, best, r, f: r[0] + f * (r[1] + r[2] - r[3] - r[4])),
    "currenttobest1": Donor(2, lambda own, best, r, f: own + f * (best - own + r[0] - r[1])),
    "randtobest1": Donor(3, lambda own, best, r, f: r[0] + f * (best - r[0] + r[1] - r[2])),
}
"""Formulas by the names that scipy and Kernel Tuner use."""

Cross = Callable[[int, int, float, Rng], Mask]
"""Returns which of the k coordinates of n mutants replace the member's, ``(n, k)``, at least one each, at a rate."""


def cross_binomial(n: int, k: int, rate: float, rng: Rng) -> Mask:
    """Take each coordinate with a probability, and one random coordinate in any case."""
    taken = rng.random((n, k)) < rate
    return np.asarray(taken | (np.arange(k) == rng.integers(0, max(1, k), (n, 1))))


def cross_exponential(n: int, k: int, rate: float, rng: Rng) -> Mask:
    """Take consecutive coordinates from a random one on, wrapping around, each next one with a probability."""
    begin = rng.integers(0, max(1, k), (n, 1))
    continues = np.cumprod(rng.random((n, max(0, k - 1))) < rate, axis=1)
    length = 1 + continues.sum(axis=1, keepdims=True)
    return np.asarray((np.arange(k) - begin) % max(1, k) < length)


CROSSES: Mapping[str, Cross] = {"bin": cross_binomial, "exp": cross_exponential}
"""Crossovers by name."""

METHODS: Mapping[str, tuple[Donor, Cross]] = {
    donor + cross: (DONORS[donor], CROSSES[cross]) for donor in DONORS for cross in CROSSES
}
"""Formula and crossover by names such as ``best1bin``."""


def draw_others(n: int, count: int, rng: Rng) -> Ints:
    """Return different random other members for each of n members, ``(n, count)``; repeated ones if n is too small."""
    if n <= count:
        return rng.integers(0, n, (n, count))
    keys = rng.random((n, n))
    np.fill_diagonal(keys, 2.0)
    return np.argsort(keys, axis=1)[:, :count]


_STAGNANT = 2
"""Number of generations without a change after which the members are drawn again (Algorithm 1)."""

_PAPER = dict(method="best1bin", population_per_parameter=16, weight=(0.7, 0.7), recombination=0.6)
"""Table IV of Willemsen et al."""


@dataclass(frozen=True, eq=False)
class Members:
    """The population.

    Attributes:
        codes: Rows, ``(n, w)``.
        costs: Their costs, ``(n,)``.
        best: The best row of the run, ``(w,)``; it is kept when the members are drawn again.
        best_cost: Its cost.
        stagnant: Number of consecutive generations that have changed nothing.
    """

    codes: Codes
    costs: Array
    best: Array
    best_cost: float
    stagnant: int = 0

    def update_best(self, member: int) -> Members:
        """Return the members with one of them as the best row, if it is at least as good."""
        cost = float(self.costs[member])
        if cost > self.best_cost:
            return self
        return replace(self, best=self.codes[member].copy(), best_cost=cost)


@final
@dataclass(frozen=True)
class DifferentialEvolution(PopulationStrategy[Members]):
    """Differential evolution with repaired trial vectors; constraints='penalty' is the unaware one.

    Every member competes with a trial vector made of the differences of other members; the better one stays. Use it for
    cheap evaluations, budgets of hundreds of evaluations and mostly numerical parameters.

    Open settings (None) are chosen for ``aware`` as in Willemsen et al., Table IV (best1bin, 16, 0.7, 0.6), and for
    ``penalty`` by the budget as in Schoonhoven et al. 2022, Table III.

    Attributes:
        constraints: ``aware`` (infeasible trial vectors are repaired) or ``penalty`` (they cost infinity).
        method: A mutant (best1, best2, rand1, rand2, currenttobest1, randtobest1) and a crossover (bin, exp) as one
            word, such as ``best1bin``.
        population_per_parameter: Number of members per parameter that is not constant, 1 or more.
        weight: The scale F of the differences from 0 to 2, or two numbers between which it is drawn for every
            generation (dither).
        recombination: The crossover rate CR, from 0 to 1.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    method: str = setting(BY_BUDGET, choices=METHODS)
    population_per_parameter: int = setting(BY_BUDGET, within="[1, inf)")
    weight: float | Sequence[float] = BY_BUDGET
    recombination: float = setting(BY_BUDGET, within="[0, 1]")

    survey: ClassVar = DIFFERENTIAL_EVOLUTION

    @override
    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the settings of the papers for a budget."""
        return _PAPER if self.is_aware else super().default_settings(budget)

    @override
    def check_settings(self) -> None:
        """Check the settings; ``weight`` is a number or two."""
        super().check_settings()
        low, high = self.weight_range
        if not 0.0 <= low <= high <= 2.0:
            raise ValueError(
                f"weight {self.weight} is out of range; give a number, or two increasing ones, from 0 to 2"
            )

    @property
    def weight_range(self) -> tuple[float, float]:
        """The two numbers between which the scale F is drawn."""
        ends = tuple(self.weight) if isinstance(self.weight, Sequence) else (self.weight,) * 2
        if len(ends) != 2:
            raise ValueError(f"weight {self.weight} must be one number or two")
        return ends

    def size(self, space: Space) -> int:
        """Return the number of members, large enough for the differences."""
        donor, _ = METHODS[self.method]
        return max(5, donor.others + 1, self.population_per_parameter * len(space.active))

    @override
    def draw_founders(self, space: Space, rng: Rng) -> Candidates:
        """Return a Latin hypercube, or uniform points of the unit box."""
        draw = moves.draw_latin_hypercube if self.is_aware else moves.draw_anywhere
        return Candidates(draw(space, self.size(space), rng))

    @override
    def form_population(self, founders: Candidates, costs: Array) -> Members:
        """Return the first population."""
        best = int(costs.argmin())
        return Members(founders.codes, costs, founders.codes[best], float(costs[best]))

    @override
    def breed(self, space: Space, population: Members, rng: Rng) -> Candidates:
        """Return a trial vector for every member, or new random members if nothing changes any more."""
        n = len(population.codes)
        if population.stagnant >= _STAGNANT:
            draw = moves.draw_uniform if self.is_aware else moves.draw_anywhere
            fresh = draw(space, n, rng)
            return Candidates(fresh[np.arange(n) % len(fresh)])
        box = UnitBox.of(space)
        points, best = box.to_unit(population.codes), box.to_unit(population.best[None, :])[0]
        donor, cross = METHODS[self.method]
        others = draw_others(n, donor.others, rng)
        weight = rng.uniform(*self.weight_range)
        mutants = donor.mutant(points, best, [points[other] for other in others.T], weight)
        crossed = cross(n, box.axes, self.recombination, rng)
        trials = box.from_unit(np.where(crossed, mutants, points))
        return Candidates(moves.repair_by_nearest(space, trials, rng) if self.is_aware else trials)

    @override
    def select_members(
        self, population: Members, candidates: Candidates, costs: Array, rng: Rng
    ) -> Members:
        """Return the members, each replaced by its trial vector if that is as good and not a member already."""
        if population.stagnant >= _STAGNANT:
            fresh = Members(candidates.codes, costs, population.best, population.best_cost)
            return fresh.update_best(int(costs.argmin()))
        codes, own = population.codes.copy(), population.costs.copy()
        keys, trials = row_keys(codes), row_keys(candidates.codes)
        members = replace(population, codes=codes, costs=own, stagnant=population.stagnant + 1)
        for i in np.flatnonzero(costs <= own):
            if trials[i] not in keys:
                codes[i], own[i], keys[i] = candidates.codes[i], costs[i], trials[i]
                members = replace(members, stagnant=0).update_best(int(i))
        return members

    @override
    def add_outsider(self, space: Space, population: Members, code: Array, cost: float) -> Members:
        """Return the members, the worst one replaced if the outsider is better and not a member already."""
        codes, costs, worst = moves.replace_worst(population.codes, population.costs, code, cost)
        if worst is None:
            return population
        return replace(population, codes=codes, costs=costs, stagnant=0).update_best(worst)
