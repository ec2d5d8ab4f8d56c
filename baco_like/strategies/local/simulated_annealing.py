"""Simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983; Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.spaces import Space
from baco_like.strategies import moves, settings
from baco_like.strategies.local import base
from baco_like.strategies.local.base import LocalSearchStrategy, SearchState
from baco_like.strategies.settings import BY_BUDGET, setting

OPTIONAL_HILL_CLIMBERS: Mapping[str, base.Climber | None] = {"none": None, **base.HILL_CLIMBERS}
"""Values of the setting ``hill_climber``."""


@final
@dataclass(frozen=True)
class SimulatedAnnealing(LocalSearchStrategy[base.CostedRow | None]):
    """Simulated annealing, where every candidate may be improved by hill climbing first.

    It moves to perturbations of the current configuration; a worse one is accepted with a probability that falls during
    the run. Use it for cheap evaluations and rugged landscapes. Source: Kirkpatrick, Gelatt and Vecchi 1983;
    Schoonhoven et al. 2022, section III-C1; open settings (None) follow its Table III by the budget.

    The papers leave the temperatures open; the defaults are Kernel Tuner's. Here a temperature is a relative change of
    the cost. It falls geometrically with the evaluations of the budget, and beyond the budget it starts again.

    Attributes:
        exploration: Size of a perturbation as a share of the bits, in (0, 1]; every value of a parameter is one bit.
        hill_climber: Improves each candidate: ``none``, ``random_first`` or ``best``.
        temperature: First temperature: the relative loss that is accepted with probability 1/e.
        final_temperature: Temperature at the end of the budget; positive and at most ``temperature``.
        neighbourhood: Neighbourhood of the hill climber: ``hamming`` or ``adjacent``.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    exploration: float = setting(BY_BUDGET, within="(0, 1]")
    hill_climber: str = setting(BY_BUDGET, choices=OPTIONAL_HILL_CLIMBERS)
    temperature: float = 0.1
    final_temperature: float = 1e-4

    survey: ClassVar = settings.SIMULATED_ANNEALING

    @override
    def check_settings(self) -> None:
        """Check the settings; see the class."""
        super().check_settings()
        if not 0.0 < self.final_temperature <= self.temperature < math.inf:
            raise ValueError(
                f"temperature {self.temperature} and final_temperature {self.final_temperature} do not fit; the "
                "first must be finite and at least the second, and both positive"
            )

    @override
    def move(
        self, state: SearchState[base.CostedRow | None], rng: Rng
    ) -> SearchState[base.CostedRow | None]:
        """Climb on; at the top accept or reject the candidate, and perturb the current configuration."""
        scan = state.scans[0]
        climber = OPTIONAL_HILL_CLIMBERS[self.hill_climber]
        if climber is None:
            candidate = scan.rows[0], float(scan.costs[0])
        else:
            following = state.climb(climber, scan, rng)
            if following is not None:
                return replace(state, scans=(following,))
            assert scan.base is not None
            candidate = scan.base, scan.threshold
        current = state.memory
        temperature = self.temperature_at(state.observations, state.problem.budget)
        if current is None or rng.random() < accept_probability(
            current[1], candidate[1], temperature
        ):
            # The spares are perturbations of the previous configuration.
            state = replace(state, memory=candidate, spares=())
        return state.scan_next_start(rng)

    @override
    def draw_start(self, space: Space, memory: base.CostedRow | None, rng: Rng) -> Array:
        """Return a perturbation of the current configuration; a uniform draw before there is one."""
        if memory is None:
            return super().draw_start(space, memory, rng)
        return moves.perturb(
            space, memory[0], moves.number_of_changes(space, self.exploration), rng
        )

    def temperature_at(self, evaluations: int, budget: int | None) -> float:
        """Return the temperature after a number of evaluations."""
        period = settings.UNKNOWN_BUDGET if budget is None else budget
        progress = evaluations % period / period
        return float(self.temperature * (self.final_temperature / self.temperature) ** progress)


def accept_probability(current: float, candidate: float, temperature: float) -> float:
    """Return the Metropolis probability of a move: ``exp(-change / temperature)``, or 1 if the cost does not rise.

    The change is the difference of the costs relative to the larger of their magnitudes. A failed candidate (infinite
    cost) is accepted only if the current configuration has failed too.
    """
    if candidate <= current:
        return 1.0
    if math.isinf(candidate):
        return 0.0
    scale = max(abs(current), abs(candidate))
    return math.exp(-(candidate / scale - current / scale) / temperature)
