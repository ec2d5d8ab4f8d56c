"""Hill climbing: from neighbour to better neighbour until there is none (Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from baco_like._typing import Rng
from baco_like.strategies.local.neighbourhoods import Neighbourhoods
from baco_like.strategies.local.scan import Scan, neighbours_of
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.settings import named

IMPROVEMENTS = {"first": True, "best": False}
"""Names of what a climber moves to: the first better neighbour, or the best of all."""


@final
@dataclass(frozen=True)
class Climber:
    """How to climb.

    First improvement looks at the neighbours in random order, parameter by parameter, and moves to the first that is
    better; best improvement looks at all, and moves to the best.

    Attributes:
        first: Whether the first better neighbour is taken.
        restart: Whether a pass is begun anew after an improvement; if not, it goes on with the parameters that it
            has not looked at (first improvement only).
    """

    first: bool = True
    restart: bool = True

    @classmethod
    def named(cls, improvement: str, restart: bool = True) -> Climber:
        """Return the climber of a setting's word.

        Raises:
            ValueError: The word is unknown.
        """
        return cls(named("improvement", improvement, IMPROVEMENTS), restart)

    def next(self, scan: Scan, near: Neighbourhoods, memo: ObservedCosts, rng: Rng) -> Scan | None:
        """Return what to look at after a settled scan; None where its base is a local minimum.

        A settled start is climbed from.
        """
        if scan.base is None:
            return self._pass(scan, 0, near, memo, rng)
        if scan.better is not None:
            return self._pass(scan, scan.better, near, memo, rng)
        if scan.moved:  # this pass began elsewhere, so a whole one has to follow
            return neighbours_of(
                scan.base, scan.mark, near, memo, rng, first=self.first, place=scan.place
            )
        return None

    def _pass(
        self, scan: Scan, to: int, near: Neighbourhoods, memo: ObservedCosts, rng: Rng
    ) -> Scan:
        """Return the scan around one of the rows that were looked at."""
        goes_on = self.first and not self.restart and scan.base is not None
        return neighbours_of(
            scan.rows[to],
            float(scan.costs[to]),
            near,
            memo,
            rng,
            first=self.first,
            place=scan.place,
            after=(scan.ranks, int(scan.ranks[scan.genes[to]])) if goes_on else None,
        )
