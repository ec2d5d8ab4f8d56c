"""Multi-start and iterated local search (Schoonhoven et al. 2022, section III-C1; Lourenco, Martin, Stutzle 2003)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

from baco_like._typing import Array, Rng
from baco_like.strategies.local.climbing import IMPROVEMENTS, Climber
from baco_like.strategies.local.neighbourhoods import NEIGHBOURHOODS, Neighbourhoods
from baco_like.strategies.local.perturbation import changes, perturbed
from baco_like.strategies.local.scan import Scan
from baco_like.strategies.local.walk import Walk, Walking
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import given, named
from baco_like.strategies.survey_defaults import (
    BEST_ITERATED,
    BEST_MULTI_START,
    FIRST_ITERATED,
    FIRST_MULTI_START,
    resolved,
)


@final
@dataclass(frozen=True)
class MultiStart:
    """Climbs to a local minimum from one uniform draw after the other.

    Attributes:
        climber: How to climb.
        neighbourhood: Of `NEIGHBOURHOODS`.
    """

    climber: Climber
    neighbourhood: str

    def begun(self, problem: Problem, near: Neighbourhoods, rng: Rng) -> Walk[None]:
        """Return the walk that looks at the first start."""
        return Walk(self, near, None).starting(problem, rng)

    def moved(self, problem: Problem, walk: Walk[None], rng: Rng) -> Walk[None]:
        """Climb on; from a local minimum go to the next start."""
        following = self.climber.next(walk.scans[0], walk.near, walk.memo, rng)
        if following is None:
            return walk.starting(problem, rng)
        return replace(walk, scans=(following,))

    def draw(self, problem: Problem, memory: None, rng: Rng) -> Array:
        """Return a uniform draw."""
        return uniform_row(problem, rng)


@final
@dataclass(frozen=True, eq=False)
class Incumbent:
    """The best local minimum so far.

    Attributes:
        row: Its codes, ``(w,)``; None before the first.
        cost: Its cost.
        idle: Climbs in a row that have not found a better one.
    """

    row: Array | None = None
    cost: float = math.inf
    idle: int = 0


@final
@dataclass(frozen=True)
class Iterated:
    """Climbs from perturbations of the best local minimum, and now and then from a uniform draw.

    Attributes:
        climber: How to climb.
        neighbourhood: Of `NEIGHBOURHOODS`.
        perturbation: Size of a perturbation as a share of the bits (see `local/perturbation.py`).
        patience: After so many climbs without a better local minimum the next one starts from a uniform draw.
    """

    climber: Climber
    neighbourhood: str
    perturbation: float
    patience: int

    def __post_init__(self) -> None:
        check_share("perturbation", self.perturbation)
        if self.patience < 1:
            raise ValueError(f"patience {self.patience} is too small; give 1 climb or more")

    def begun(self, problem: Problem, near: Neighbourhoods, rng: Rng) -> Walk[Incumbent]:
        """Return the walk that looks at the first start."""
        return Walk(self, near, Incumbent()).starting(problem, rng)

    def moved(self, problem: Problem, walk: Walk[Incumbent], rng: Rng) -> Walk[Incumbent]:
        """Climb on; from a local minimum go to the next start."""
        scan = walk.scans[0]
        following = self.climber.next(scan, walk.near, walk.memo, rng)
        if following is not None:
            return replace(walk, scans=(following,))
        assert scan.base is not None
        old = walk.memory
        if old.row is None or scan.mark < old.cost:
            walk = replace(walk, memory=Incumbent(scan.base, scan.mark), spares=())
        else:
            walk = replace(walk, memory=replace(old, idle=old.idle + 1))
        if walk.memory.idle < self.patience or walk.given is not None:
            return walk.starting(problem, rng)
        row = uniform_row(problem, rng)
        memory = replace(walk.memory, idle=0)
        return replace(walk, memory=memory, scans=(Scan.start(row, walk.memo),))

    def draw(self, problem: Problem, memory: Incumbent, rng: Rng) -> Array:
        """Return a perturbation of the best local minimum; a uniform draw while there is none."""
        if memory.row is None:
            return uniform_row(problem, rng)
        count = changes(problem.space, self.perturbation)
        return perturbed(problem.space, memory.row, count, rng)


def uniform_row(problem: Problem, rng: Rng) -> Array:
    """Return a uniform draw, ``(w,)``."""
    row: Array = problem.space.feasible.sample(1, rng)[0]
    return row


def check_share(setting: str, share: float) -> None:
    """Refuse what is no share.

    Raises:
        ValueError: It is not in (0, 1].
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"{setting} {share} is no share; give one above 0 and at most 1")


def multi_start_local_search(
    improvement: str = "first",
    neighbourhood: str | None = None,
    restart: bool | None = None,
) -> Walking[None]:
    """Multi-start local search: hill climbing from one random configuration after the other.

    What is left open is chosen by the budget (Schoonhoven et al. 2022, Table III).

    Args:
        improvement: ``first`` or ``best``.
        neighbourhood: ``hamming`` or ``adjacent``.
        restart: With ``first``: whether a pass over the neighbours begins anew after an improvement.

    Raises:
        ValueError: A setting is unknown.
    """
    own = _checked(improvement, restart, neighbourhood=neighbourhood)
    row = FIRST_MULTI_START if IMPROVEMENTS[improvement] else BEST_MULTI_START

    def by_budget(budget: int | None) -> MultiStart:
        settings = resolved(row, budget, own)
        return MultiStart(_climber(improvement, settings), settings["neighbourhood"])

    return Walking(by_budget)


def iterated_local_search(
    improvement: str = "first",
    neighbourhood: str | None = None,
    restart: bool | None = None,
    perturbation: float | None = None,
    patience: int | None = None,
) -> Walking[Incumbent]:
    """Iterated local search: hill climbing from perturbations of the best local minimum.

    What is left open is chosen by the budget (Schoonhoven et al. 2022, Table III).

    Args:
        improvement: ``first`` or ``best``.
        neighbourhood: ``hamming`` or ``adjacent``.
        restart: With ``first``: whether a pass over the neighbours begins anew after an improvement.
        perturbation: Size of a perturbation as a share of the bits, of which every value of a parameter is one.
        patience: After so many climbs without a better local minimum the next start is random.

    Raises:
        ValueError: A setting is unknown or out of range.
    """
    own = _checked(
        improvement,
        restart,
        neighbourhood=neighbourhood,
        perturbation=perturbation,
        patience=patience,
    )
    row = FIRST_ITERATED if IMPROVEMENTS[improvement] else BEST_ITERATED

    def by_budget(budget: int | None) -> Iterated:
        settings = resolved(row, budget, own)
        return Iterated(
            _climber(improvement, settings),
            settings["neighbourhood"],
            settings["perturbation"],
            settings["patience"],
        )

    by_budget(None)  # wrong settings are refused here, not when the run begins
    return Walking(by_budget)


def _climber(improvement: str, settings: dict[str, Any]) -> Climber:
    return Climber.named(improvement, settings.get("restart", True))


def _checked(improvement: str, restart: bool | None, **settings: Any) -> dict[str, Any]:
    """Return the settings that were given, after a look at their words."""
    first = named("improvement", improvement, IMPROVEMENTS)
    if not first and restart is not None:
        raise ValueError(
            f"restart {restart} has no meaning with improvement 'best', which always begins anew; leave it out"
        )
    if settings["neighbourhood"] is not None:
        named("neighbourhood", settings["neighbourhood"], NEIGHBOURHOODS)
    return given(**settings, restart=restart)
