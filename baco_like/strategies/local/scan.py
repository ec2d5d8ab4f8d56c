"""Looking at configurations one after the other: which costs are known, and what they decide."""

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
    """Configurations to be looked at in order: a start, or the neighbours of a configuration. Make one with `Scan.of`.

    Attributes:
        rows: They, ``(m, w)``.
        keys: Theirs.
        costs: Theirs, ``(m,)``; NaN where not known.
        first: Whether the first that costs less than the mark settles the scan; else all have to be known.
        mark: The cost to be undercut.
        base: The configuration whose neighbours they are, ``(w,)``; None for a start.
        genes: In which parameter each differs from it, ``(m,)``.
        ranks: Place of every parameter in the order of this pass.
        moved: Whether this pass has found a better configuration before.
        place: Whose scan it is, where there are several at a time.
        better: Number of the row that is better than the mark and settles the scan, or None.
        settled: Whether nothing more needs to be known.
    """

    rows: Codes
    keys: list[bytes]
    costs: Array
    first: bool = False
    mark: float = math.inf
    base: Array | None = None
    genes: Ints = field(default_factory=_NO_GENES.copy)
    ranks: Ints = field(default_factory=_NO_GENES.copy)
    moved: bool = False
    place: int = 0
    better: int | None = None
    settled: bool = False

    @classmethod
    def start(cls, row: Array, memo: ObservedCosts, place: int = 0) -> Scan:
        """Return the scan of one configuration, ``(w,)``, that settles when its cost is known."""
        rows = row[None, :]
        return _judged(cls(rows, row_keys(rows), memo.costs(rows), place=place))

    def told(self, key: bytes, cost: float) -> Scan:
        """Return the scan that knows one cost more; itself where the key is not awaited.

        A better one that is told before those in front of it are known settles a scan for the first, too.
        """
        if self.settled or key not in self.keys:
            return self
        at = self.keys.index(key)
        if not math.isnan(self.costs[at]):
            return self
        costs = self.costs.copy()
        costs[at] = cost
        if self.first and cost < self.mark:
            return replace(self, costs=costs, better=at, settled=True)
        return _judged(replace(self, costs=costs))

    def given_up(self) -> Scan:
        """Return the scan in which what is not known counts as failed."""
        if self.settled:
            return self
        return _judged(replace(self, costs=np.where(np.isnan(self.costs), np.inf, self.costs)))

    def only(self, kept: Mask) -> Scan:
        """Return the scan of some of the rows, ``(m,)``."""
        if kept.all():
            return self
        return _judged(
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
    def awaited(self) -> Ints:
        """Numbers of the rows whose costs are not known, in order; none when it is settled."""
        return _NO_GENES if self.settled else np.flatnonzero(np.isnan(self.costs))


def neighbours_of(
    base: Array,
    cost: float,
    near: Neighbourhoods,
    memo: ObservedCosts,
    rng: Rng,
    *,
    first: bool,
    place: int = 0,
    after: tuple[Ints, int] | None = None,
) -> Scan:
    """Return the scan of a configuration's neighbours: the parameters in random order, the values of each likewise.

    Args:
        base: The configuration, ``(w,)``.
        cost: Its cost, which is the mark.
        near: Finds its neighbours.
        memo: What is known.
        rng: Chance.
        first: See `Scan`.
        place: See `Scan`.
        after: For a pass that goes on: the places of all parameters in its order, and the first place that is left.
    """
    around = near.around(base, rng)
    ranks = rng.permutation(len(near.space.active)) if after is None else after[0]
    order = np.lexsort((rng.random(len(around.genes)), ranks[around.genes]))
    if after is not None:
        order = order[ranks[around.genes[order]] >= after[1]]
    keys = [around.keys[i] for i in order]
    costs = np.array([_known(memo, key) for key in keys])
    return _judged(
        Scan(
            around.rows[order],
            keys,
            costs,
            first,
            cost,
            base,
            around.genes[order],
            ranks,
            moved=after is not None,
            place=place,
        )
    )


def _known(memo: ObservedCosts, key: bytes) -> float:
    cost = memo.cost(key)
    return math.nan if cost is None else cost


def _judged(scan: Scan) -> Scan:
    """Return the scan with what its costs decide, looked at in order."""
    unknown = np.isnan(scan.costs)
    known = int(unknown.argmax()) if unknown.any() else len(scan.costs)
    if scan.first:
        good = np.flatnonzero(scan.costs[:known] < scan.mark)
        if len(good):
            return replace(scan, better=int(good[0]), settled=True)
    if known < len(scan.costs):
        return scan
    best = int(scan.costs.argmin()) if known else None
    if best is not None and not scan.costs[best] < scan.mark:
        best = None
    return replace(scan, better=best, settled=True)
