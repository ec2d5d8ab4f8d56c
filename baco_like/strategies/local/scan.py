"""Neighbours of a configuration, and scans: configurations whose costs are looked at in order.

A parameter with more than 64 other values (or swaps) has up to 64 random ones as Hamming neighbours, drawn anew every
time. Reals, and integers with too many values to list, also have random neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.records import row_keys
from baco_like.spaces import Space, neighbourhoods
from baco_like.strategies.observed_costs import ObservedCosts

_CACHE_SIZE = 4096
_VALUES = 64
_NO_GENES = np.empty(0, dtype=np.int64)

NEIGHBOURHOODS: Mapping[str, Callable[[Space, Codes, Rng], neighbourhoods.Neighbours]] = {
    "hamming": partial(neighbourhoods.hamming, limit=_VALUES),
    "adjacent": neighbourhoods.adjacent,
}
"""Neighbourhoods by name, for settings (Schoonhoven et al. 2022, sections III-B and III-C1)."""


class RowNeighbours(NamedTuple):
    """The feasible neighbours of a configuration.

    Attributes:
        rows: Codes, ``(m, w)``.
        keys: Their hash keys, m of them.
        genes: Index of the parameter in which each row differs, among the parameters that are not constant, ``(m,)``.
    """

    rows: Codes
    keys: list[bytes]
    genes: Ints


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Finds neighbours; caches them if they contain no random ones.

    Attributes:
        space: The space.
        name: A key of `NEIGHBOURHOODS`.
    """

    space: Space
    name: str
    _cache: dict[bytes, RowNeighbours] = field(default_factory=dict, repr=False)

    def around(self, row: Array, rng: Rng) -> RowNeighbours:
        """Return the neighbours of a feasible row of codes, ``(w,)``, in no particular order."""
        (key,) = row_keys(row[None, :])
        if key in self._cache:
            return self._cache[key]
        rows, _ = NEIGHBOURHOODS[self.name](self.space, row[None, :], rng)
        genes = self._owner[(rows != row).argmax(axis=1)] if len(rows) else _NO_GENES
        neighbours = RowNeighbours(rows, row_keys(rows), genes)
        if self._deterministic:
            if len(self._cache) == _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = neighbours
        return neighbours

    @cached_property
    def _owner(self) -> Ints:
        """Index of the parameter of each code column, among the parameters that are not constant."""
        owner = np.zeros(self.space.width, dtype=np.int64)
        for gene, parameter in enumerate(self.space.active):
            owner[self.space.columns[parameter]] = gene
        return owner

    @cached_property
    def _deterministic(self) -> bool:
        """Whether all changes of every parameter are neighbours, so that none are drawn at random."""
        for place in neighbourhoods.locate_parameters(self.space):
            width = place.parameter.width
            if width > 1:
                count = width * (width - 1) / 2
            else:
                values = neighbourhoods.list_used_codes(self.space, place)
                count = math.inf if values is None else len(values)
            if count > _VALUES:
                return False
        return True


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
        rows, keys = row[None, :], row_keys(row[None, :])
        return _settle(cls(rows, keys, observed.costs(keys), member=member))

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

    @property
    def unknown(self) -> Ints:
        """Indices of the rows whose costs are needed, in order; empty if the scan is settled."""
        return _NO_GENES if self.settled else np.flatnonzero(np.isnan(self.costs))


def scan_neighbours(
    base: Array,
    cost: float,
    near: Neighbourhoods,
    observed: ObservedCosts,
    rng: Rng,
    *,
    first: bool,
    member: int = 0,
    resume_at: tuple[Ints, int] | None = None,
    tabu: Set[bytes] = frozenset(),
) -> Scan:
    """Return the scan of a configuration's neighbours: parameters in random order, and their values in random order.

    Args:
        base: The configuration, ``(w,)``.
        cost: Its cost, which becomes the threshold.
        near: Finds its neighbours.
        observed: The known costs.
        rng: Random generator for the order.
        first: See `Scan`.
        member: See `Scan`.
        resume_at: To continue a pass: the ranks of all parameters, and the first rank that is left.
        tabu: Keys of neighbours that are left out.
    """
    rows, keys, genes = near.around(base, rng)
    ranks = rng.permutation(len(near.space.active)) if resume_at is None else resume_at[0]
    order = np.lexsort((rng.random(len(genes)), ranks[genes]))
    if resume_at is not None:
        order = order[ranks[genes[order]] >= resume_at[1]]
    if tabu:
        order = order[[keys[i] not in tabu for i in order]]
    keys = [keys[i] for i in order]
    costs, moved = observed.costs(keys), resume_at is not None
    scan = Scan(
        rows[order], keys, costs, first, cost, base, genes[order], ranks, moved, member=member
    )
    return _settle(scan)


def _settle(scan: Scan) -> Scan:
    """Return the scan, settled if its costs in order decide the next move."""
    unknown = np.flatnonzero(np.isnan(scan.costs))
    if scan.first:
        known = scan.costs[: unknown[0]] if len(unknown) else scan.costs
        improvements = np.flatnonzero(known < scan.threshold)
        if len(improvements):
            return replace(scan, better=int(improvements[0]), settled=True)
    if len(unknown):
        return scan
    improved = len(scan.costs) > 0 and scan.costs.min() < scan.threshold
    return replace(scan, better=int(scan.costs.argmin()) if improved else None, settled=True)
