"""Tabu search (Glover 1989; Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from typing_extensions import override

from baco_like._typing import Rng
from baco_like.records import row_keys
from baco_like.strategies import settings
from baco_like.strategies.local import base
from baco_like.strategies.local.base import SearchState
from baco_like.strategies.local.local_search import ImprovingStrategy
from baco_like.strategies.settings import BY_BUDGET, setting

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
