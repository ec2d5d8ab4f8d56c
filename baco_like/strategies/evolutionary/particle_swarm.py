"""Particle swarm optimization (Kennedy and Eberhart 1995; Willemsen et al., section IV-C and Algorithm 2).

Particles fly through the scaled box of `geometry/continuous.py`. What is evaluated is the configuration nearest to a
particle, or a feasible neighbour of it; the particle itself is not moved there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.records.reading import finite_number
from baco_like.strategies.evolutionary.evolution import Evolution
from baco_like.strategies.evolutionary.population import Candidates
from baco_like.strategies.evolutionary.snapping import AWARE, Landing, placed
from baco_like.strategies.geometry.continuous import UnitBox
from baco_like.strategies.moves.constraint_handling import aware
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import given
from baco_like.strategies.survey_defaults import PARTICLE_SWARM
from baco_like.strategies.survey_defaults import settings_for_budget as table


@final
@dataclass(frozen=True, eq=False)
class Swarm:
    """The particles.

    Attributes:
        positions: In the scaled box, ``(n, k)``.
        velocities: Theirs, ``(n, k)``.
        best_positions: Where each has seen its lowest cost, ``(n, k)``.
        best_costs: That cost, ``(n,)``.
    """

    positions: Array
    velocities: Array
    best_positions: Array
    best_costs: Array


@final
@dataclass(frozen=True)
class ParticleSwarm:
    """Every particle is drawn to the best place it has seen and to the best one that its neighbours have seen.

    Attributes:
        particles: How many; fewer in a smaller space.
        neighbours: How many of the particles nearest to a particle, itself included, tell it of their best places;
            None means all.
        inertia: The share w of its velocity that a particle keeps.
        cognitive: The pull c1 of its own best place.
        social: The pull c2 of the best place of its neighbours.
        landing: Draws the first positions, and says which configurations stand for positions. The first velocities are
            uniform, up to the lengths of the axes.
    """

    particles: int = 30
    neighbours: int | None = None
    inertia: float = 0.5
    cognitive: float = 3.0
    social: float = 0.5
    landing: Landing = AWARE

    def __post_init__(self) -> None:
        for name in ("particles", "neighbours"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise ValueError(f"{name} {count} is too small; at least 1")
        for name in ("inertia", "cognitive", "social"):
            if finite_number(getattr(self, name)) is None:
                raise ValueError(f"{name} {getattr(self, name)} must be a finite number")

    def founders(self, problem: Problem, rng: Rng) -> Candidates:
        """Return the candidates of the first generation, with positions and velocities."""
        extents = UnitBox.of(problem.space).extents
        positions = self.landing.founders(problem.space, self.particles, rng)
        velocities = rng.uniform(-1.0, 1.0, positions.shape) * extents
        return self.landing.candidates(problem.space, positions, velocities, rng)

    def placed(self, problem: Problem, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates with particles at given configurations; velocities stay."""
        return placed(problem.space, candidates, codes)

    def gathered(self, problem: Problem, founders: Candidates, costs: Array) -> Swarm:
        """Return the first swarm."""
        positions, velocities = founders.moves
        return Swarm(positions, velocities, positions, costs)

    def bred(self, problem: Problem, population: Swarm, rng: Rng) -> Candidates:
        """Return every particle after one move; coordinates outside the box are moved to its ends."""
        box, now = UnitBox.of(problem.space), population.positions
        own, others = rng.random(now.shape), rng.random(now.shape)
        velocities = (
            self.inertia * population.velocities
            + self.cognitive * own * (population.best_positions - now)
            + self.social * others * (population.best_positions[self.leaders(population)] - now)
        )
        positions = np.clip(now + velocities, 0.0, box.extents)
        return self.landing.candidates(problem.space, positions, velocities, rng)

    def replaced(
        self, problem: Problem, population: Swarm, candidates: Candidates, costs: Array, rng: Rng
    ) -> Swarm:
        """Return the swarm where its particles have moved to."""
        positions, velocities = candidates.moves
        better = costs < population.best_costs
        return Swarm(
            positions,
            velocities,
            np.where(better[:, None], positions, population.best_positions),
            np.where(better, costs, population.best_costs),
        )

    def joined(self, problem: Problem, population: Swarm, code: Array, cost: float) -> Swarm:
        """Return the swarm in which the particle with the worst best place remembers a better one."""
        worst = population.best_costs.argmax()
        if cost >= population.best_costs[worst]:
            return population
        positions, costs = population.best_positions.copy(), population.best_costs.copy()
        positions[worst] = UnitBox.of(problem.space).scaled(code[None, :])[0]
        costs[worst] = cost
        return replace(population, best_positions=positions, best_costs=costs)

    def leaders(self, swarm: Swarm) -> Ints:
        """Return for each particle the one with the best place among its neighbours."""
        n = len(swarm.positions)
        if self.neighbours is None or self.neighbours >= n:
            return np.full(n, swarm.best_costs.argmin())
        from scipy.spatial.distance import cdist

        distances = cdist(swarm.positions, swarm.positions)
        np.fill_diagonal(distances, -1.0)  # a particle is the first of its own neighbours
        near = distances.argpartition(self.neighbours - 1, axis=1)[:, : self.neighbours]
        best = swarm.best_costs[near].argmin(axis=1)
        return np.asarray(near[np.arange(n), best], dtype=np.int64)


def particle_swarm(
    constraints: str = "aware",
    particles: int | None = None,
    neighbours: int | None = None,
    inertia: float = 0.5,
    cognitive: float = 3.0,
    social: float = 0.5,
) -> Evolution[Swarm]:
    """Particle swarm whose positions stand for feasible configurations; constraints='penalty' is the unaware one.

    What is left open is for constraints="aware" as in Willemsen et al., Table IV (30 particles that all know of each
    other), and for "penalty" by the budget as in Schoonhoven et al. 2022, Table III. Inertia and pulls are those of
    Table IV in any case, the survey naming none.

    Args:
        constraints: ``aware`` or ``penalty``.
        particles: How many.
        neighbours: How many of the nearest particles, itself included, a particle learns from.
        inertia: The share w of its velocity that a particle keeps.
        cognitive: The pull c1 of its own best place.
        social: The pull c2 of its neighbours' best place.

    Raises:
        ValueError: A setting is unknown or out of range.
    """
    handled = aware(constraints)
    landing = Landing.of(constraints)
    own = given(particles=particles, neighbours=neighbours)

    def by_budget(budget: int | None) -> ParticleSwarm:
        settings = (
            {"particles": 30, "neighbours": None} if handled else table(PARTICLE_SWARM, budget)
        )
        return ParticleSwarm(
            **{**settings, **own},
            inertia=inertia,
            cognitive=cognitive,
            social=social,
            landing=landing,
        )

    by_budget(None)  # wrong settings are refused here, not when the run begins
    return Evolution(by_budget)
