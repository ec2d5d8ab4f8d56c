"""Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983; Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from baco_like._typing import Array, Rng
from baco_like.strategies.local.climbing import Climber
from baco_like.strategies.local.local_search import check_share, uniform_row
from baco_like.strategies.local.neighbourhoods import NEIGHBOURHOODS, Neighbourhoods
from baco_like.strategies.local.perturbation import changes, perturbed
from baco_like.strategies.local.walk import Point, Walk, Walking
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import given, named
from baco_like.strategies.survey_defaults import (
    SIMULATED_ANNEALING,
    UNKNOWN_BUDGET,
    resolved,
)

HILL_CLIMBERS: dict[str, Climber | None] = {
    "none": None,
    "random_first": Climber(first=True, restart=True),
    "best": Climber(first=False),
}
"""Names of what improves a candidate before it is judged."""


@final
@dataclass(frozen=True, eq=False)
class Annealing:
    """Where the annealing stands: a configuration, ``(w,)``, with its cost; None before the first."""

    current: Point | None = None


@final
@dataclass(frozen=True)
class SimulatedAnnealing:
    """Moves to perturbations of the current configuration, to worse ones with a probability that falls.

    The papers leave temperature and schedule open. Here a temperature means a relative change of the cost, and it
    falls geometrically with the evaluations of the budget; beyond the budget it does so again from the start.

    Attributes:
        exploration: Size of a perturbation as a share of the bits (see `local/perturbation.py`).
        hill_climber: Improves a candidate before it is judged, or None.
        neighbourhood: The hill climber's, of `NEIGHBOURHOODS`.
        temperature: At first.
        final_temperature: After the budget.
        cooling: Evaluations from the first to the final temperature.
    """

    exploration: float
    hill_climber: Climber | None
    neighbourhood: str
    temperature: float
    final_temperature: float
    cooling: int

    def __post_init__(self) -> None:
        check_share("exploration", self.exploration)
        if not 0.0 < self.final_temperature <= self.temperature < math.inf:
            raise ValueError(
                f"temperature {self.temperature} and final_temperature {self.final_temperature} do not fit; the "
                "first must be finite and at least the second, and both positive"
            )

    def begun(self, problem: Problem, near: Neighbourhoods, rng: Rng) -> Walk[Annealing]:
        """Return the walk that looks at the first start."""
        return Walk(self, near, Annealing()).starting(problem, rng)

    def moved(self, problem: Problem, walk: Walk[Annealing], rng: Rng) -> Walk[Annealing]:
        """Climb on; at the top accept or reject the candidate, and perturb the current configuration."""
        scan = walk.scans[0]
        if self.hill_climber is None:
            candidate = scan.rows[0], float(scan.costs[0])
        else:
            following = self.hill_climber.next(scan, walk.near, walk.memo, rng)
            if following is not None:
                return replace(walk, scans=(following,))
            assert scan.base is not None
            candidate = scan.base, scan.mark
        current = walk.memory.current
        heat = self.heat(walk.observed)
        if current is None or rng.random() < acceptance(current[1], candidate[1], heat):
            walk = replace(walk, memory=Annealing(candidate), spares=())
        return walk.starting(problem, rng)

    def draw(self, problem: Problem, memory: Annealing, rng: Rng) -> Array:
        """Return a perturbation of the current configuration; a uniform draw while there is none."""
        if memory.current is None:
            return uniform_row(problem, rng)
        count = changes(problem.space, self.exploration)
        return perturbed(problem.space, memory.current[0], count, rng)

    def heat(self, evaluations: int) -> float:
        """Return the temperature after so many evaluations."""
        done = evaluations % self.cooling / self.cooling
        return float(self.temperature * (self.final_temperature / self.temperature) ** done)


def acceptance(current: float, candidate: float, temperature: float) -> float:
    """Return the probability of a move, by Metropolis: ``exp(-change / temperature)``, 1 where nothing is lost.

    The change is the difference of the costs, relative to the larger of their magnitudes. A failed candidate (infinite
    cost) is accepted only in exchange for another.
    """
    if candidate <= current:
        return 1.0
    if math.isinf(candidate):
        return 0.0
    scale = max(abs(current), abs(candidate))
    return math.exp(-(candidate / scale - current / scale) / temperature)


def simulated_annealing(
    exploration: float | None = None,
    hill_climber: str | None = None,
    neighbourhood: str | None = None,
    temperature: float = 0.1,
    final_temperature: float = 1e-4,
) -> Walking[Annealing]:
    """Simulated annealing, where every candidate may be improved by hill climbing first.

    What is left open is chosen by the budget (Schoonhoven et al. 2022, Table III); the temperatures are Kernel Tuner's.

    Args:
        exploration: Size of a perturbation as a share of the bits, of which every value of a parameter is one.
        hill_climber: ``none``, ``random_first`` or ``best``.
        neighbourhood: The hill climber's: ``hamming`` or ``adjacent``.
        temperature: At first: the relative loss that is accepted with probability 1/e.
        final_temperature: After the budget.

    Raises:
        ValueError: A setting is unknown or out of range.
    """
    if neighbourhood is not None:
        named("neighbourhood", neighbourhood, NEIGHBOURHOODS)
    if hill_climber is not None:
        named("hill_climber", hill_climber, HILL_CLIMBERS)
    own = given(exploration=exploration, hill_climber=hill_climber, neighbourhood=neighbourhood)

    def by_budget(budget: int | None) -> SimulatedAnnealing:
        settings = resolved(SIMULATED_ANNEALING, budget, own)
        return SimulatedAnnealing(
            settings["exploration"],
            HILL_CLIMBERS[settings["hill_climber"]],
            settings["neighbourhood"],
            temperature,
            final_temperature,
            cooling=UNKNOWN_BUDGET if budget is None else budget,
        )

    by_budget(None)  # wrong settings are refused here, not when the run begins
    return Walking(by_budget)
