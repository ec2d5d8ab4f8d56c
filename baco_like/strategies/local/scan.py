"""Scans: configurations whose costs are looked at in order, until they decide the next move."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.records.history import row_keys
from baco_like.strategies.local.neighbourhoods import Neighbourhoods
from baco_like.strategies.observed_costs import ObservedCosts

_NO_GENES = np.empty(0, dtype=np.int64)


@final
@dataclass(frozen=True, eq=False)
class Scan:
    """Configurations to look at in order: one start, or the neighbours of a configuration.

    Attributes:
        rows: Codes of the configurations, ``(m, w)``.
        keys: Their hash keys, m of them.
        costs: Their costs, ``(m,)``; NaN if unknown.
        first: True: the first cost below the threshold settles the scan. False: all costs must be known.
        threshold: The cost of the base; a neighbour below it is an improvement.
        base: The configuration whose neighbours are scanned, ``(w,)``; None for a start.
        genes: Index of the parameter in which each row differs from the base, ``(m,)``.
        ranks: Position of every parameter in the order of this pass.
        moved: Whether this pass has already found an improvement.
        member: Index of the population member that the scan belongs to; 0 if there is no population.
        better: Index of the improvement that settled the scan, or None.
        settled: Whether the known costs decide the next move.
    """

    rows: Codes
    keys: list[bytes]
    costs: Array
    first: bool = False
    threshold: float = math.inf
    base: Array | None = None
    genes: Ints = field(default_factory=_NO_GENES.copy)
    ranks: Ints = field(default_factory=_NO_GENES.copy)
    moved: bool = False
    member: int = 0
    better: int | None = None
    settled: bool = False

    @classmethod
    def start(cls, row: Array, observed: ObservedCosts, member: int = 0) -> Scan:
        """Return the scan of one configuration, ``(w,)``; it settles when the cost is known."""
        rows = row[None, :]
        return _settle(cls(rows, row_keys(rows), observed.costs(rows), member=member))

    def add_cost(self, key: bytes, cost: float) -> Scan:
        """Return the scan with one more cost; the scan itself if it does not wait for this configuration.

        With ``first``, an improvement settles the scan even if costs before it in the order are unknown.
        """
        if self.settled or key not in self.keys:
            return self
        index = self.keys.index(key)
        if not math.isnan(self.costs[index]):
            return self
        costs = self.costs.copy()
        costs[index] = cost
        if self.first and cost < self.threshold:
            return replace(self, costs=costs, better=index, settled=True)
        return _settle(replace(self, costs=costs))

    def give_up(self) -> Scan:
        """Return the scan in which unknown costs count as failures."""
        if self.settled:
            return self
        return _settle(replace(self, costs=np.where(np.isnan(self.costs), np.inf, self.costs)))

    def keep(self, kept: Mask) -> Scan:
        """Return the scan of the rows selected by a mask, ``(m,)``."""
        if kept.all():
            return self
        return _settle(
            replace(
                self,
                rows=self.rows[kept],
                keys=[key for key, keep in zip(self.keys, kept.tolist(), strict=True) if keep],
                costs=self.costs[kept],
                genes=self.genes[kept],
                better=None,
                settled=False,
            )
        )

    @property
    def unknown(self) -> Ints:
        """Indices of the rows whose costs are needed, in order; empty if the scan is settled."""
        return _NO_GENES if self.settled else np.flatnonzero(np.isnan(self.costs))


def scan_neighbours(
    base: Array,
    cost: float,
    neighbourhoods: Neighbourhoods,
    observed: ObservedCosts,
    rng: Rng,
    *,
    first: bool,
    member: int = 0,
    resume_at: tuple[Ints, int] | None = None,
) -> Scan:
    """Return the scan of a configuration's neighbours: parameters in random order, and their values in random order.

    Args:
        base: The configuration, ``(w,)``.
        cost: Its cost, which becomes the threshold.
        neighbourhoods: Finds its neighbours.
        observed: The known costs.
        rng: Random generator for the order.
        first: See `Scan`.
        member: See `Scan`.
        resume_at: To continue a pass: the ranks of all parameters, and the first rank that is left.
    """
    neighbours = neighbourhoods.around(base, rng)
    ranks = rng.permutation(len(neighbourhoods.space.active)) if resume_at is None else resume_at[0]
    order = np.lexsort((rng.random(len(neighbours.genes)), ranks[neighbours.genes]))
    if resume_at is not None:
        order = order[ranks[neighbours.genes[order]] >= resume_at[1]]
    keys = [neighbours.keys[i] for i in order]
    known = (observed.cost(key) for key in keys)
    return _settle(
        Scan(
            neighbours.rows[order],
            keys,
            np.array([math.nan if value is None else value for value in known]),
            first,
            cost,
            base,
            neighbours.genes[order],
            ranks,
            moved=resume_at is not None,
            member=member,
        )
    )


def _settle(scan: Scan) -> Scan:
    """Return the scan, settled if its costs in order decide the next move."""
    unknown = np.isnan(scan.costs)
    known = int(unknown.argmax()) if unknown.any() else len(scan.costs)
    if scan.first:
        improvements = np.flatnonzero(scan.costs[:known] < scan.threshold)
        if len(improvements):
            return replace(scan, better=int(improvements[0]), settled=True)
    if known < len(scan.costs):
        return scan
    best = int(scan.costs.argmin()) if known else None
    if best is not None and not scan.costs[best] < scan.threshold:
        best = None
    return replace(scan, better=best, settled=True)
