"""Firefly algorithm (Yang 2009) in the scaled box of `geometry/continuous.py`, as in Willemsen et al., section IV-C.

One firefly after the other is compared with all; it moves towards every one that is brighter, and is evaluated after
each move. Then all are sorted by brightness and it begins again. What is evaluated is the configuration nearest to a
firefly, or a feasible neighbour of it; the firefly itself is not moved there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.strategies.evolutionary.evolution import Evolution
from baco_like.strategies.evolutionary.population import Candidates
from baco_like.strategies.evolutionary.snapping import AWARE, Landing, placed
from baco_like.strategies.geometry.continuous import UnitBox
from baco_like.strategies.protocol import Problem


@final
@dataclass(frozen=True, eq=False)
class Fireflies:
    """The fireflies, and who moves next.

    Attributes:
        positions: In the scaled box, ``(n, k)``.
        costs: Theirs, ``(n,)``; the less, the brighter.
        mover: Who moves next, or None where all are equally bright.
        towards: Who is brighter.
    """

    positions: Array
    costs: Array
    mover: int | None = None
    towards: int = 0


@final
@dataclass(frozen=True)
class Firefly:
    """Fireflies move towards brighter ones; all wander at random while all are equally bright.

    Attributes:
        population: How many; fewer in a smaller space.
        attraction: The attractiveness B0 of a firefly at no distance.
        absorption: The light absorption gamma: attractiveness is ``B0 exp(-gamma r**2)`` at distance r.
        noise: The length alpha of a random move along every axis of the scaled box, whose longest axis has length 1.
        landing: Draws the first positions, and says which configurations stand for positions.
    """

    population: int = 20
    attraction: float = 1.0
    absorption: float = 1.0
    noise: float = 0.2
    landing: Landing = AWARE

    def __post_init__(self) -> None:
        if self.population < 1:
            raise ValueError(f"population {self.population} is too small; at least 1")
        for name in ("attraction", "absorption", "noise"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} {getattr(self, name)} must be a number of at least 0")

    def founders(self, problem: Problem, rng: Rng) -> Candidates:
        """Return the candidates of the first population, with positions and whose they are."""
        positions = self.landing.founders(problem.space, self.population, rng)
        whose = np.arange(len(positions))
        return self.landing.candidates(problem.space, positions, whose, rng)

    def placed(self, problem: Problem, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates with fireflies at given configurations."""
        return placed(problem.space, candidates, codes)

    def gathered(self, problem: Problem, founders: Candidates, costs: Array) -> Fireflies:
        """Return the first fireflies."""
        return _compared(founders.moves[0], costs, 0, 0)

    def bred(self, problem: Problem, population: Fireflies, rng: Rng) -> Candidates:
        """Return one move towards a brighter firefly, or a random one of each where there is none."""
        box, here = UnitBox.of(problem.space), population.positions
        if population.mover is None:
            movers, pull = np.arange(len(here)), np.zeros_like(here)
        else:
            movers = np.array([population.mover])
            apart = here[population.towards] - here[movers]
            pull = self.attraction * np.exp(-self.absorption * (apart**2).sum()) * apart
        wandering = self.noise * rng.uniform(-0.5, 0.5, pull.shape)
        positions = np.clip(here[movers] + pull + wandering, 0.0, box.extents)
        return self.landing.candidates(problem.space, positions, movers, rng)

    def replaced(
        self,
        problem: Problem,
        population: Fireflies,
        candidates: Candidates,
        costs: Array,
        rng: Rng,
    ) -> Fireflies:
        """Return the fireflies after the move, and who moves next."""
        moved, movers = candidates.moves
        positions, brightness = population.positions.copy(), population.costs.copy()
        positions[movers], brightness[movers] = moved, costs
        if population.mover is None:
            return _compared(positions, brightness, 0, 0)
        return _compared(positions, brightness, population.mover, population.towards + 1)

    def joined(
        self, problem: Problem, population: Fireflies, code: Array, cost: float
    ) -> Fireflies:
        """Return the fireflies with the darkest one at a brighter place."""
        darkest = population.costs.argmax()
        if cost >= population.costs[darkest]:
            return population
        positions, costs = population.positions.copy(), population.costs.copy()
        positions[darkest] = UnitBox.of(problem.space).scaled(code[None, :])[0]
        costs[darkest] = cost
        return _compared(positions, costs, population.mover or 0, population.towards)


def _compared(positions: Array, costs: Array, mover: int, towards: int) -> Fireflies:
    """Return the fireflies with the next pair of which the second is brighter; sorted anew where none is left."""
    found = _next_pair(costs, mover, towards)
    if found is None:
        order = np.argsort(costs, kind="stable")
        positions, costs = positions[order], costs[order]
        found = _next_pair(costs, 0, 0)
    return Fireflies(positions, costs, *(found or (None, 0)))


def _next_pair(costs: Array, mover: int, towards: int) -> tuple[int, int] | None:
    """Return the first pair from here on, row by row, of which the second has the lower cost."""
    for one in range(mover, len(costs)):
        begin = towards if one == mover else 0
        brighter = np.flatnonzero(costs[begin:] < costs[one])
        if len(brighter):
            return one, begin + int(brighter[0])
    return None


def firefly(
    constraints: str = "aware",
    population: int = 20,
    attraction: float = 1.0,
    absorption: float = 1.0,
    noise: float = 0.2,
) -> Evolution[Fireflies]:
    """Fireflies whose positions stand for feasible configurations; constraints='penalty' is the unaware one.

    The defaults are those of Willemsen et al., Table IV, and for the noise, which it does not name, of their program.

    Args:
        constraints: ``aware`` or ``penalty``.
        population: How many.
        attraction: The attractiveness B0 of a firefly at no distance.
        absorption: The light absorption gamma.
        noise: The length alpha of a random move along every axis of the scaled box, whose longest axis has length 1.

    Raises:
        ValueError: A setting is unknown or out of range.
    """
    algorithm = Firefly(
        population=population,
        attraction=attraction,
        absorption=absorption,
        noise=noise,
        landing=Landing.of(constraints),
    )
    return Evolution(lambda budget: algorithm)
