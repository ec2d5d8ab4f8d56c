"""Particle swarm optimization and the firefly algorithm: members with positions in the scaled box.

Members move through the scaled box of `geometry.UnitBox` (Willemsen et al., section IV-C). The configuration nearest to
a member, or a feasible neighbour of it, is evaluated; the member itself does not move there.

Particle swarm: Kennedy and Eberhart 1995; Willemsen et al., Algorithm 2.

Fireflies: Yang 2009. One firefly at a time is compared with all others. It moves towards every brighter one and is
evaluated after each move. Then the fireflies are sorted by brightness, and the comparisons start again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.spaces import FeasibleSet, Space
from baco_like.spaces.feasible.single_rows import Row
from baco_like.spaces.neighbourhoods import cascade, nearest
from baco_like.strategies.evolutionary.base import Candidates, M, PopulationStrategy
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves import draw_uniform, replace_worst
from baco_like.strategies.settings import BY_BUDGET, PARTICLE_SWARM, setting

_NEIGHBOURS = 256
"""Number of neighbours that are compared where single rows cannot be walked."""


@dataclass(frozen=True)
class PositionedStrategy(PopulationStrategy[M], Generic[M]):
    """Base of population algorithms whose members have positions in the scaled box (`UnitBox.extents`)."""

    def draw_positions(self, space: Space, n: int, rng: Rng) -> Array:
        """Return the positions of the first population, at most n, ``(<= n, k)``."""
        box = UnitBox.of(space)
        if self.is_aware:
            return box.scaled(draw_uniform(space, n, rng))
        return rng.random((n, box.axes)) * box.extents

    def candidates_at(
        self, space: Space, positions: Array, other: Array | Ints, rng: Rng
    ) -> Candidates:
        """Return the candidates at positions, ``(n, k)``, with one more array that belongs to them."""
        if not self.is_aware:
            return Candidates(UnitBox.of(space).from_scaled(positions), (positions, other))
        return Candidates(snap_to_feasible(space, positions, rng), (positions, other))

    @override
    def place(self, space: Space, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates with their positions at given configurations, ``(n, w)``."""
        return Candidates(codes, (UnitBox.of(space).scaled(codes), candidates.moves[1]))


def snap_to_feasible(space: Space, points: Array, rng: Rng) -> Codes:
    """Return the nearest configuration of each point of the scaled box, or its feasible neighbour nearest to the point.

    The neighbours are those of `moves.repair_by_neighbour`; the distance is Euclidean in the scaled box
    (Algorithm 2). With permutations, reals or parameters of many values (see `SingleRows`) it is the nearest of at most
    256 random neighbours or, if there are more, the nearest row by index-distance.
    """
    codes = UnitBox.of(space).from_scaled(points)
    infeasible = np.flatnonzero(~space.feasible.contains_few(codes))
    if not len(infeasible):
        return codes
    single_rows = space.feasible.single_rows
    if single_rows is None:
        codes[infeasible] = _nearest_of_some(space, points[infeasible], codes[infeasible], rng)
        return codes
    grid = _grid(space)
    rows, targets = codes[infeasible].tolist(), points[infeasible].tolist()
    for i, row, point in zip(infeasible, rows, targets, strict=True):
        neighbour = partial(single_rows.nearest_neighbour, row, _distances(grid, point))
        codes[i] = single_rows.repair(row, neighbour)
    return codes


def _nearest_of_some(space: Space, points: Array, codes: Codes, rng: Rng) -> Codes:
    """Return the neighbour of each infeasible row that is nearest to its point."""
    near, owner = cascade(space, codes, rng, _NEIGHBOURS)
    cut = np.flatnonzero(np.bincount(owner, minlength=len(codes)) == _NEIGHBOURS)
    near = np.concatenate([near, nearest(space, codes[cut], rng)])
    owner = np.concatenate([owner, cut])
    distances = ((UnitBox.of(space).scaled(near) - points[owner]) ** 2).sum(axis=1)
    order = np.lexsort([distances, owner])
    _, first = np.unique(owner[order], return_index=True)
    return near[order[first]]


_Grid = list[tuple[int, list[float]]]
"""Axis of each code column and the coordinates of its codes in the scaled box; axis -1 for a constant."""

_GRIDS: WeakKeyDictionary[FeasibleSet, _Grid] = WeakKeyDictionary()


def _grid(space: Space) -> _Grid:
    """Return the grid of a space with scalar parameters only; it is cached."""
    if space.feasible not in _GRIDS:
        box, grid = UnitBox.of(space), [(-1, [0.0])] * space.width
        for axis, name in enumerate(space.active):
            column, count = space.columns[name].start, int(space.parameters[name].cardinality)
            rows = np.tile(box.fixed, (count, 1))
            rows[:, column] = np.arange(count)
            grid[column] = axis, box.scaled(rows)[:, axis].tolist()
        _GRIDS[space.feasible] = grid
    return _GRIDS[space.feasible]


def _distances(grid: _Grid, point: Row) -> Callable[[int, float], float]:
    """Return a function of a column and a code: squared distance from a point; infinite for codes without a value."""

    def squared(column: int, code: float) -> float:
        axis, centres = grid[column]
        if axis < 0:
            return 0.0  # a constant
        return (centres[int(code)] - point[axis]) ** 2 if 0 <= code < len(centres) else math.inf

    return squared


class Swarm(NamedTuple):
    """The particles.

    Attributes:
        positions: Positions in the scaled box, ``(n, k)``.
        velocities: Velocities, ``(n, k)``.
        best_positions: Position of the lowest cost of each particle, ``(n, k)``.
        best_costs: The lowest cost of each particle, ``(n,)``.
    """

    positions: Array
    velocities: Array
    best_positions: Array
    best_costs: Array


@final
@dataclass(frozen=True)
class ParticleSwarm(PositionedStrategy[Swarm]):
    """Particle swarm whose positions represent feasible configurations; constraints='penalty' is the unaware one.

    Every particle is drawn to the best position that it has visited and to the best one of its neighbours. Use it for
    cheap evaluations and mostly numerical parameters.

    Open settings (None) are chosen for ``aware`` as in Willemsen et al., Table IV (30 particles that are all
    neighbours), and for ``penalty`` by the budget as in Schoonhoven et al. 2022, Table III. Inertia and weights are
    those of Table IV in both cases, because the survey does not name them.

    Attributes:
        constraints: ``aware`` (only feasible configurations are evaluated) or ``penalty``.
        particles: Number of particles, 1 or more; fewer in a smaller space.
        neighbours: Number of the nearest particles, itself included, from which a particle learns; None with ``aware``:
            all.
        inertia: Share w of its velocity that a particle keeps.
        cognitive: Weight c1 of the best position that the particle has visited.
        social: Weight c2 of the best position of its neighbours.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    particles: int = setting(BY_BUDGET, within="[1, inf)")
    neighbours: int | None = setting(None, within="[1, inf)")
    inertia: float = setting(0.5, within="(-inf, inf)")
    cognitive: float = setting(3.0, within="(-inf, inf)")
    social: float = setting(0.5, within="(-inf, inf)")

    survey: ClassVar = PARTICLE_SWARM

    @override
    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the settings of the papers for a budget."""
        return {"particles": 30} if self.is_aware else super().default_settings(budget)

    @override
    def draw_founders(self, space: Space, rng: Rng) -> Candidates:
        """Return candidates with positions and uniform velocities up to the lengths of the axes."""
        positions = self.draw_positions(space, self.particles, rng)
        velocities = rng.uniform(-1.0, 1.0, positions.shape) * UnitBox.of(space).extents
        return self.candidates_at(space, positions, velocities, rng)

    @override
    def form_population(self, founders: Candidates, costs: Array) -> Swarm:
        """Return the first swarm."""
        positions, velocities = founders.moves
        return Swarm(positions, velocities, positions, costs)

    @override
    def breed(self, space: Space, population: Swarm, rng: Rng) -> Candidates:
        """Return every particle after one move; coordinates outside the box are clipped."""
        now = population.positions
        own, others = rng.random(now.shape), rng.random(now.shape)
        leaders = population.best_positions[self.leaders(population)]
        velocities = (
            self.inertia * population.velocities
            + self.cognitive * own * (population.best_positions - now)
            + self.social * others * (leaders - now)
        )
        positions = np.clip(now + velocities, 0.0, UnitBox.of(space).extents)
        return self.candidates_at(space, positions, velocities, rng)

    @override
    def select_members(
        self, population: Swarm, candidates: Candidates, costs: Array, rng: Rng
    ) -> Swarm:
        """Return the swarm after the move."""
        positions, velocities = candidates.moves
        better = costs < population.best_costs
        return Swarm(
            positions,
            velocities,
            np.where(better[:, None], positions, population.best_positions),
            np.where(better, costs, population.best_costs),
        )

    @override
    def add_outsider(self, space: Space, population: Swarm, code: Array, cost: float) -> Swarm:
        """Return the swarm in which the particle with the worst best position remembers a better outsider."""
        position = UnitBox.of(space).scaled(code[None, :])[0]
        positions, costs, _ = replace_worst(
            population.best_positions, population.best_costs, position, cost
        )
        return population._replace(best_positions=positions, best_costs=costs)

    def leaders(self, swarm: Swarm) -> Ints:
        """Return for each particle the index of the neighbour with the best position, ``(n,)``."""
        n = len(swarm.positions)
        if self.neighbours is None or self.neighbours >= n:
            return np.full(n, swarm.best_costs.argmin())
        from scipy.spatial.distance import cdist

        distances = cdist(swarm.positions, swarm.positions)
        np.fill_diagonal(distances, -1.0)  # each particle is its nearest neighbour
        near = distances.argpartition(self.neighbours - 1, axis=1)[:, : self.neighbours]
        best = swarm.best_costs[near].argmin(axis=1)
        return np.asarray(near[np.arange(n), best], dtype=np.int64)


class Fireflies(NamedTuple):
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
        return _compare(founders.moves[0], costs, 0)

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
            return _compare(positions, brightness, 0)
        pair = population.mover * len(positions) + population.towards
        return _compare(positions, brightness, pair + 1)

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
        start = (population.mover or 0) * len(positions) + population.towards
        return _compare(positions, costs, start)


def _compare(positions: Array, costs: Array, start: int) -> Fireflies:
    """Return the fireflies with the next pair whose second is brighter; after the last pair they are sorted.

    Pairs are compared row by row; the pair (i, j) of n fireflies has the number i n + j.

    Args:
        positions: Positions, ``(n, k)``.
        costs: Their costs, ``(n,)``.
        start: Number of the first pair to compare.
    """
    pairs = np.flatnonzero(costs < costs[:, None])
    following = pairs[pairs >= start]
    if not len(following):
        order = np.argsort(costs, kind="stable")
        positions, costs = positions[order], costs[order]
        following = np.flatnonzero(costs < costs[:, None])
    if not len(following):
        return Fireflies(positions, costs)
    return Fireflies(positions, costs, *divmod(int(following[0]), len(costs)))
