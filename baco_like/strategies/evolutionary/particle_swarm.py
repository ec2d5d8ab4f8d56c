"""Particle swarm optimization (Kennedy and Eberhart 1995; Willemsen et al., section IV-C and Algorithm 2).

Particles move through the scaled box of `geometry.py`. The configuration nearest to a particle, or a
feasible neighbour of it, is evaluated; the particle itself does not move there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Ints, Rng
from baco_like.spaces import Space
from baco_like.strategies.evolutionary.base import Candidates
from baco_like.strategies.evolutionary.snapping import PositionedStrategy
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves.selection import replace_worst
from baco_like.strategies.settings import BY_BUDGET, PARTICLE_SWARM, setting


@final
@dataclass(frozen=True, eq=False)
class Swarm:
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
        return replace(population, best_positions=positions, best_costs=costs)

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
