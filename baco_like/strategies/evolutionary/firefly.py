"""Firefly algorithm (Yang 2009) in the scaled box of `geometry.py` (Willemsen et al., section IV-C).

One firefly at a time is compared with all others. It moves towards every brighter one and is evaluated after each move.
Then the fireflies are sorted by brightness, and the comparisons start again. The configuration nearest to a firefly, or
a feasible neighbour of it, is evaluated; the firefly itself does not move there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.spaces import Space
from baco_like.strategies.evolutionary.base import Candidates
from baco_like.strategies.evolutionary.snapping import PositionedStrategy
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves.selection import replace_worst
from baco_like.strategies.settings import setting


@final
@dataclass(frozen=True, eq=False)
class Fireflies:
    """The fireflies, and which of them moves next.

    Attributes:
        positions: Positions in the scaled box, ``(n, k)``.
        costs: Their costs, ``(n,)``; a lower cost is brighter.
        mover: Index of the firefly that moves next, or None if all are equally bright.
        towards: Index of the brighter firefly.
    """

    positions: Array
    costs: Array
    mover: int | None = None
    towards: int = 0


@final
@dataclass(frozen=True)
class Firefly(PositionedStrategy[Fireflies]):
    """Fireflies whose positions represent feasible configurations; constraints='penalty' is the unaware one.

    Fireflies move towards brighter ones; all move at random while all are equally bright. Use it for cheap evaluations
    and mostly numerical parameters. The defaults are those of Willemsen et al., Table IV; the noise, which the table
    does not name, is from their program.

    Attributes:
        constraints: ``aware`` (only feasible configurations are evaluated) or ``penalty``.
        population: Number of fireflies, 1 or more; fewer in a smaller space.
        attraction: Attractiveness B0 of a firefly at distance 0.
        absorption: Light absorption gamma: the attractiveness is ``B0 exp(-gamma r**2)`` at distance r.
        noise: Length alpha of a random move along every axis of the scaled box, whose longest axis has length 1.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    population: int = setting(20, within="[1, inf)")
    attraction: float = setting(1.0, within="[0, inf)")
    absorption: float = setting(1.0, within="[0, inf)")
    noise: float = setting(0.2, within="[0, inf)")

    @override
    def draw_founders(self, space: Space, rng: Rng) -> Candidates:
        """Return candidates with positions and their indices."""
        positions = self.draw_positions(space, self.population, rng)
        return self.candidates_at(space, positions, np.arange(len(positions)), rng)

    @override
    def form_population(self, founders: Candidates, costs: Array) -> Fireflies:
        """Return the first fireflies."""
        return _compare(founders.moves[0], costs, 0, 0)

    @override
    def breed(self, space: Space, population: Fireflies, rng: Rng) -> Candidates:
        """Return one move towards a brighter firefly, or a random move of each if all are equally bright."""
        here = population.positions
        if population.mover is None:
            movers, pull = np.arange(len(here)), np.zeros_like(here)
        else:
            movers = np.array([population.mover])
            apart = here[population.towards] - here[movers]
            pull = self.attraction * np.exp(-self.absorption * (apart**2).sum()) * apart
        noise = self.noise * rng.uniform(-0.5, 0.5, pull.shape)
        positions = np.clip(here[movers] + pull + noise, 0.0, UnitBox.of(space).extents)
        return self.candidates_at(space, positions, movers, rng)

    @override
    def select_members(
        self, population: Fireflies, candidates: Candidates, costs: Array, rng: Rng
    ) -> Fireflies:
        """Return the fireflies after the move, and which of them moves next."""
        moved, movers = candidates.moves
        positions, brightness = population.positions.copy(), population.costs.copy()
        positions[movers], brightness[movers] = moved, costs
        if population.mover is None:
            return _compare(positions, brightness, 0, 0)
        return _compare(positions, brightness, population.mover, population.towards + 1)

    @override
    def add_outsider(
        self, space: Space, population: Fireflies, code: Array, cost: float
    ) -> Fireflies:
        """Return the fireflies with the darkest one moved to a brighter outsider."""
        position = UnitBox.of(space).scaled(code[None, :])[0]
        positions, costs, darkest = replace_worst(
            population.positions, population.costs, position, cost
        )
        if darkest is None:
            return population
        return _compare(positions, costs, population.mover or 0, population.towards)


def _compare(positions: Array, costs: Array, mover: int, towards: int) -> Fireflies:
    """Return the fireflies with the next pair whose second is brighter; after the last pair they are sorted."""
    pair = _next_pair(costs, mover, towards)
    if pair is None:
        order = np.argsort(costs, kind="stable")
        positions, costs = positions[order], costs[order]
        pair = _next_pair(costs, 0, 0)
    return Fireflies(positions, costs, *(pair or (None, 0)))


def _next_pair(costs: Array, mover: int, towards: int) -> tuple[int, int] | None:
    """Return the first pair from here on, row by row, whose second has the lower cost."""
    for first in range(mover, len(costs)):
        begin = towards if first == mover else 0
        brighter = np.flatnonzero(costs[begin:] < costs[first])
        if len(brighter):
            return first, begin + int(brighter[0])
    return None
