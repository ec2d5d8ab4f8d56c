"""Hill climbing: moves to better neighbours until there are no more (Schoonhoven et al. 2022, section III-C1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from baco_like._typing import Rng
from baco_like.strategies.local.neighbourhoods import Neighbourhoods
from baco_like.strategies.local.scan import Scan, scan_neighbours
from baco_like.strategies.observed_costs import ObservedCosts

IMPROVEMENTS: Mapping[str, bool] = {"first": True, "best": False}
"""Values of the setting ``improvement``: move to the first better neighbour, or to the best of all."""


@final
@dataclass(frozen=True)
class Climber:
    """A hill climber.

    First improvement looks at the neighbours in random order, parameter by parameter, and moves to the first better
    one. Best improvement looks at all neighbours and moves to the best.

    Attributes:
        first: True: first improvement; False: best improvement.
        restart: Whether a new pass over the parameters starts after an improvement; if not, the pass continues with the
            parameters that are left (first improvement only).
    """

    first: bool = True
    restart: bool = True

    def advance(
        self, scan: Scan, neighbourhoods: Neighbourhoods, observed: ObservedCosts, rng: Rng
    ) -> Scan | None:
        """Return the scan after a settled one, or None if its base is a local minimum."""
        if scan.base is not None and scan.better is None:
            if not scan.moved:
                return None
            # This pass began at another configuration, so the base has not been compared with all its neighbours.
            return scan_neighbours(
                scan.base,
                scan.threshold,
                neighbourhoods,
                observed,
                rng,
                first=self.first,
                member=scan.member,
            )
        to = scan.better or 0  # a start has one row
        resumes = self.first and not self.restart and scan.base is not None
        return scan_neighbours(
            scan.rows[to],
            float(scan.costs[to]),
            neighbourhoods,
            observed,
            rng,
            first=self.first,
            member=scan.member,
            resume_at=(scan.ranks, int(scan.ranks[scan.genes[to]])) if resumes else None,
        )


HILL_CLIMBERS: Mapping[str, Climber] = {
    "random_first": Climber(first=True, restart=True),
    "best": Climber(first=False),
}
"""Hill climbers by name, for the setting ``hill_climber``."""
