"""Multi-start and iterated local search, tabu search and simulated annealing.

Sources: Schoonhoven et al. 2022, section III-C1; Glover 1989; Kirkpatrick, Gelatt and Vecchi 1983.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.records.rows import row_keys
from baco_like.spaces import Space
from baco_like.strategies import moves, settings
from baco_like.strategies.local import base
from baco_like.strategies.local.base import LocalSearchStrategy, M, SearchState
from baco_like.strategies.settings import BY_BUDGET, setting


@dataclass(frozen=True)
class ImprovingStrategy(LocalSearchStrategy[M]):
    """Base of local searches that move to the first or to the best improvement."""

    improvement: str = setting("first", choices=base.IMPROVEMENTS)

    surveys: ClassVar[Mapping[str, settings.SurveyRow]]
    """The values of open settings by the setting ``improvement``."""

    @override
    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the survey's settings for a budget."""
        survey = settings.choose("improvement", self.improvement, self.surveys)
        return settings.settings_for_budget(survey, budget)


@dataclass(frozen=True)
class _ClimbingStrategy(ImprovingStrategy[M]):
    """Base of local searches that climb."""

    restart: bool = BY_BUDGET
    order: str = setting("mixed", choices=base.ORDERS)

    @override
    def check_settings(self) -> None:
        """Check the settings; ``restart`` needs first improvement."""
        super().check_settings()
        if self.restart is not None and not base.IMPROVEMENTS[self.improvement]:
            raise ValueError(
                f"restart {self.restart} has no effect with improvement 'best', which always restarts; leave it out"
            )

    @property
    def climber(self) -> base.Climber:
        """The hill climber."""
        first, mixed = base.IMPROVEMENTS[self.improvement], base.ORDERS[self.order]
        return base.Climber(first, self.restart is not False, first and mixed)


@final
@dataclass(frozen=True)
class MultiStartLocalSearch(_ClimbingStrategy[None]):
    """Multi-start local search: hill climbing from one random configuration after another.

    Use it for cheap evaluations and large budgets. Source: Schoonhoven et al. 2022, section III-C1; open settings
    (None) follow its Table III by the budget.

    Attributes:
        improvement: ``first`` or ``best``; see `Climber`.
        restart: With ``first``: whether a new pass starts after an improvement; see `Climber`.
        order: With ``first``: ``mixed`` looks at the neighbours of all parameters in one random order, ``by_parameter``
            at all values of one parameter before the next.
        neighbourhood: ``hamming`` (any other value of one parameter) or ``adjacent``.

    Raises:
        ValueError: A setting is unknown.
    """

    surveys: ClassVar = settings.MULTI_START

    @override
    def move(self, state: SearchState[None], rng: Rng) -> SearchState[None]:
        """Climb on; from a local minimum go to the next start."""
        scan = state.climb(self.climber, state.scans[0], rng)
        if scan is None:
            return state.scan_next_start(rng)
        return replace(state, scans=(scan,))


@dataclass(frozen=True, eq=False)
class BestMinimum:
    """The best local minimum so far.

    Attributes:
        row: Its codes, ``(w,)``; None before the first.
        cost: Its cost.
        idle: Number of climbs since then.
    """

    row: Array | None = None
    cost: float = math.inf
    idle: int = 0


@final
@dataclass(frozen=True)
class IteratedLocalSearch(_ClimbingStrategy[BestMinimum]):
    """Iterated local search: hill climbing from perturbations of the best local minimum.

    Use it for cheap evaluations and large budgets; among the local searches it is the usual first choice. Source:
    Lourenco, Martin and Stutzle 2003; Schoonhoven et al. 2022, section III-C1; open settings (None) follow its Table
    III by the budget.

    Attributes:
        improvement: ``first`` or ``best``; see `Climber`.
        restart: With ``first``: whether a new pass starts after an improvement; see `Climber`.
        order: With ``first``: ``mixed`` looks at the neighbours of all parameters in one random order, ``by_parameter``
            at all values of one parameter before the next.
        perturbation: Size of a perturbation as a share of the bits, in (0, 1]; every value of a parameter is one bit.
        patience: Number of climbs without a better local minimum, 1 or more, after which the next start is random.
        neighbourhood: ``hamming`` (any other value of one parameter) or ``adjacent``.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    perturbation: float = setting(BY_BUDGET, within="(0, 1]")
    patience: int = setting(BY_BUDGET, within="[1, inf)")

    surveys: ClassVar = settings.ITERATED
    first_memory: ClassVar[BestMinimum] = BestMinimum()

    @override
    def move(self, state: SearchState[BestMinimum], rng: Rng) -> SearchState[BestMinimum]:
        """Climb on; from a local minimum go to the next start."""
        scan = state.scans[0]
        following = state.climb(self.climber, scan, rng)
        if following is not None:
            return replace(state, scans=(following,))
        best = state.memory
        if best.row is None or scan.threshold < best.cost:
            # The spares are perturbations of the previous minimum.
            state = replace(state, memory=BestMinimum(scan.base, scan.threshold), spares=())
        else:
            state = replace(state, memory=replace(best, idle=best.idle + 1))
        if state.memory.idle < self.patience or state.surprise is not None:
            return state.scan_next_start(rng)
        state = replace(state, memory=replace(state.memory, idle=0))
        return state.scan_start(super().draw_start(state.problem.space, state.memory, rng))

    @override
    def draw_start(self, space: Space, memory: BestMinimum, rng: Rng) -> Array:
        """Return a perturbation of the best local minimum; a uniform draw before there is one."""
        if memory.row is None:
            return super().draw_start(space, memory, rng)
        count = moves.number_of_changes(space, self.perturbation)
        return moves.perturb(space, memory.row, count, rng)


Visited = tuple[bytes, ...]
"""Keys of the last visited configurations, oldest first."""


@final
@dataclass(frozen=True)
class TabuSearch(ImprovingStrategy[Visited]):
    """Tabu search: always moves to a neighbour that was not visited lately, better or not.

    Without such a neighbour it moves to a uniform draw. Use it for cheap evaluations and rugged landscapes in which
    climbers stop early. Source: Glover 1989; Schoonhoven et al. 2022, section III-C1; open settings (None) follow its
    Table III by the budget.

    Attributes:
        improvement: ``first``: move to the first better neighbour, or to the best one if no neighbour is better;
            ``best``: always move to the best one.
        tabu_size: Number of last visited configurations that are not visited again, 1 or more.
        neighbourhood: ``hamming`` (any other value of one parameter) or ``adjacent``.

    Raises:
        ValueError: A setting is unknown or out of range.
    """

    tabu_size: int = setting(BY_BUDGET, within="[1, inf)")

    surveys: ClassVar = settings.TABU
    first_memory: ClassVar[Visited] = ()

    @override
    def move(self, state: SearchState[Visited], rng: Rng) -> SearchState[Visited]:
        """Move to the selected neighbour, and scan its neighbours that are not tabu."""
        scan = state.scans[0]
        if state.surprise is not None:
            (row, cost), state = state.surprise, replace(state, surprise=None)
        elif not len(scan.rows):
            return state.scan_next_start(rng)
        else:
            to = int(scan.costs.argmin()) if scan.better is None else scan.better
            row, cost = scan.rows[to], float(scan.costs[to])
        visited = (*state.memory, *row_keys(row[None, :]))[-self.tabu_size :]
        first, tabu = base.IMPROVEMENTS[self.improvement], frozenset(visited)
        scan = state.scan_neighbours(row, cost, rng, first=first, tabu=tabu)
        return replace(state, memory=visited, scans=(scan,))


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
