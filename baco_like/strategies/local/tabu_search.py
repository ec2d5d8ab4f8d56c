"""Tabu search (Glover 1989; Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.records.history import row_keys
from baco_like.strategies.local.climbing import IMPROVEMENTS
from baco_like.strategies.local.local_search import uniform_row
from baco_like.strategies.local.neighbourhoods import NEIGHBOURHOODS, Neighbourhoods
from baco_like.strategies.local.scan import neighbours_of
from baco_like.strategies.local.walk import Walk, Walking
from baco_like.strategies.protocol import Problem
from baco_like.strategies.settings import given, named
from baco_like.strategies.survey_defaults import BEST_TABU, FIRST_TABU, resolved

Visited = tuple[bytes, ...]
"""Keys of the configurations visited last, oldest first."""


@final
@dataclass(frozen=True)
class TabuSearch:
    """Always moves to a neighbour that was not visited lately, be it better or not; to a uniform draw if there is none.

    Attributes:
        first: Whether it moves to the first better neighbour; otherwise, and where none is better, to the best.
        neighbourhood: Of `NEIGHBOURHOODS`.
        tabu_size: How many visited configurations it may not return to.
    """

    first: bool
    neighbourhood: str
    tabu_size: int

    def __post_init__(self) -> None:
        if self.tabu_size < 1:
            raise ValueError(f"tabu_size {self.tabu_size} is too small; the present one is tabu")

    def begun(self, problem: Problem, near: Neighbourhoods, rng: Rng) -> Walk[Visited]:
        """Return the walk that looks at the first start."""
        return Walk(self, near, ()).starting(problem, rng)

    def moved(self, problem: Problem, walk: Walk[Visited], rng: Rng) -> Walk[Visited]:
        """Go to the neighbour that was chosen, and look at its neighbours that are not tabu."""
        scan = walk.scans[0]
        if walk.given is not None:
            (row, cost), walk = walk.given, replace(walk, given=None)
        elif not len(scan.rows):
            return walk.starting(problem, rng)
        else:
            to = int(scan.costs.argmin()) if scan.better is None else scan.better
            row, cost = scan.rows[to], float(scan.costs[to])
        (key,) = row_keys(row[None, :])
        visited = (*walk.memory, key)[-self.tabu_size :]
        near = neighbours_of(row, cost, walk.near, walk.memo, rng, first=self.first)
        tabu = frozenset(visited)
        free = np.array([one not in tabu for one in near.keys], dtype=np.bool_)
        return replace(walk, memory=visited, scans=(near.only(free),))

    def draw(self, problem: Problem, memory: Visited, rng: Rng) -> Array:
        """Return a uniform draw."""
        return uniform_row(problem, rng)


def tabu_search(
    improvement: str = "first",
    neighbourhood: str | None = None,
    tabu_size: int | None = None,
) -> Walking[Visited]:
    """Tabu search: always on to a neighbour that was not visited lately.

    What is left open is chosen by the budget (Schoonhoven et al. 2022, Table III).

    Args:
        improvement: ``first`` or ``best``.
        neighbourhood: ``hamming`` or ``adjacent``.
        tabu_size: How many visited configurations it may not return to.

    Raises:
        ValueError: A setting is unknown or out of range.
    """
    first = named("improvement", improvement, IMPROVEMENTS)
    if neighbourhood is not None:
        named("neighbourhood", neighbourhood, NEIGHBOURHOODS)
    own = given(neighbourhood=neighbourhood, tabu_size=tabu_size)
    row = FIRST_TABU if first else BEST_TABU

    def by_budget(budget: int | None) -> TabuSearch:
        return TabuSearch(first, **resolved(row, budget, own))

    by_budget(None)  # wrong settings are refused here, not when the run begins
    return Walking(by_budget)
