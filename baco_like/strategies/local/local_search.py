"""Multi-start and iterated local search.

Source: Schoonhoven et al. 2022, section III-C1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from typing_extensions import override

from baco_like._typing import Array, Rng
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
