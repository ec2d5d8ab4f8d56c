"""Costs of the observed configurations.

Algorithms that walk over configurations meet known ones again and look up their costs here instead of evaluating them a
second time. All versions share one append-only store, so adding an observation takes constant time and an older version
keeps its contents when a newer one grows from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from baco_like._typing import Array

_PATIENCE = 8
"""Least number of other outcomes after which one that has not arrived counts as lost."""


def is_lost(waited: int, expected: int) -> bool:
    """Whether an outcome counts as lost that has not arrived after ``waited`` others, of ``expected`` at a time."""
    return waited > max(_PATIENCE, 2 * expected)


def failure_cost(successes: Array, quantile: float) -> float:
    """Return the cost that is imputed for a failure: a quantile of the successful costs, itself one of them."""
    return float(np.quantile(successes, quantile, method="higher"))


@dataclass(frozen=True)
class ObservedCosts:
    """Costs by configuration; a failure costs infinity. Start from ``ObservedCosts()``."""

    _entries: list[tuple[bytes, float]] = field(default_factory=list, repr=False)
    _positions: dict[bytes, list[int]] = field(default_factory=dict, repr=False)
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def add(self, key: bytes, cost: float) -> ObservedCosts:
        """Return the costs with one more observation of a configuration, given by its key (see `records.row_keys`)."""
        # If another version has already appended to the shared store, this one continues in a copy.
        grown = self if len(self._entries) == self._length else self._copy()
        grown._positions.setdefault(key, []).append(grown._length)
        grown._entries.append((key, cost))
        return replace(grown, _length=grown._length + 1)

    def _copy(self) -> ObservedCosts:
        entries = self._entries[: self._length]
        positions: dict[bytes, list[int]] = {}
        for position, (key, _) in enumerate(entries):
            positions.setdefault(key, []).append(position)
        return ObservedCosts(entries, positions, len(entries))

    def cost(self, key: bytes) -> float | None:
        """Return the cost of a configuration by its key, or None if it was not observed.

        Several observations give the mean of the successful ones, or infinity if all of them failed.
        """
        positions = self._positions.get(key, ())
        costs = [self._entries[i][1] for i in positions if i < self._length]
        if not costs:
            return None
        finite = [cost for cost in costs if math.isfinite(cost)]
        # Dividing first avoids an overflow of the sum.
        return math.fsum(cost / len(finite) for cost in finite) if finite else math.inf

    def costs(self, keys: Sequence[bytes]) -> Array:
        """Return the costs of n configurations by their keys, ``(n,)``; NaN for those that were not observed."""
        known = (self.cost(key) for key in keys)
        return np.fromiter((np.nan if cost is None else cost for cost in known), float, len(keys))
