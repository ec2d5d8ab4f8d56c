"""What was observed so far, looked up by configuration: a state that grows in constant time.

Algorithms that walk over configurations meet known ones again; a memo answers these without a new evaluation. Memos
share one append-only store, so an older one stays what it was when a newer one grows from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Codes
from baco_like.records.history import row_keys
from baco_like.records.trial import Trial
from baco_like.strategies.protocol import Problem


@final
@dataclass(frozen=True)
class Memo:
    """Costs of observed configurations; a failed one costs infinity. Start from ``Memo()``."""

    _told: list[tuple[bytes, float]] = field(default_factory=list, repr=False)
    _places: dict[bytes, list[int]] = field(default_factory=dict, repr=False)
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def grown(self, problem: Problem, trial: Trial) -> Memo:
        """Return the memo that knows of one more observation; one outside the space adds nothing."""
        code = problem.code(trial)
        if code is None:
            return self
        cost = problem.cost(trial)
        fresh = self if len(self._told) == self._length else self._copy()
        (key,) = row_keys(code[None, :])
        fresh._places.setdefault(key, []).append(fresh._length)
        fresh._told.append((key, cost))
        return replace(fresh, _length=fresh._length + 1)

    def _copy(self) -> Memo:
        told = self._told[: self._length]
        places: dict[bytes, list[int]] = {}
        for place, (key, _) in enumerate(told):
            places.setdefault(key, []).append(place)
        return Memo(told, places, len(told))

    def cost(self, key: bytes) -> float | None:
        """Return the cost of a configuration by its key (see `row_keys`), or None where it is not observed.

        Of several observations it is the mean of the successes; infinity where there is none.
        """
        places = [i for i in self._places.get(key, ()) if i < self._length]
        if not places:
            return None
        costs = [self._told[i][1] for i in places]
        good = [cost for cost in costs if math.isfinite(cost)]
        return math.fsum(cost / len(good) for cost in good) if good else math.inf

    def costs(self, codes: Codes) -> Array:
        """Return the costs of rows of codes, ``(n, w)`` -> ``(n,)``; NaN where a row is not observed."""
        found = (self.cost(key) for key in row_keys(codes))
        return np.fromiter((np.nan if c is None else c for c in found), float, len(codes))
