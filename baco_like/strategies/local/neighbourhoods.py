"""The neighbours of one configuration, with the parameter in which each differs.

A parameter with more than 64 other values (or swaps) has up to 64 random ones as Hamming neighbours, drawn anew every
time. Reals, and integers with too many values to list, also have random neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.records.history import row_keys
from baco_like.spaces.neighbourhoods import (
    Neighbours,
    ParameterLocation,
    adjacent,
    hamming,
    list_used_codes,
    locate_parameters,
)
from baco_like.spaces.space import Space

_CACHE_SIZE = 4096
_VALUES = 64

NEIGHBOURHOODS: Mapping[str, Callable[[Space, Codes, Rng], Neighbours]] = {
    "hamming": partial(hamming, limit=_VALUES),
    "adjacent": adjacent,
}
"""Neighbourhoods by name, for settings (Schoonhoven et al. 2022, sections III-B and III-C1)."""


@final
@dataclass(frozen=True, eq=False)
class RowNeighbours:
    """The feasible neighbours of a configuration.

    Attributes:
        rows: Codes, ``(m, w)``.
        keys: Their hash keys, m of them.
        genes: Index of the parameter in which each row differs, among the parameters that are not constant, ``(m,)``.
    """

    rows: Codes
    keys: list[bytes]
    genes: Ints


@final
@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Finds neighbours; caches them if they contain no random ones.

    Attributes:
        space: The space.
        name: A key of `NEIGHBOURHOODS`.
    """

    space: Space
    name: str
    _owner: Ints
    _deterministic: bool
    _cache: dict[bytes, RowNeighbours] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, space: Space, name: str) -> Neighbourhoods:
        """Return the neighbourhoods of this name in a space."""
        owner = np.zeros(space.width, dtype=np.int64)
        for gene, parameter in enumerate(space.active):
            owner[space.columns[parameter]] = gene
        return cls(
            space, name, owner, all(_is_listed(space, place) for place in locate_parameters(space))
        )

    def around(self, row: Array, rng: Rng) -> RowNeighbours:
        """Return the neighbours of a feasible row of codes, ``(w,)``, in no particular order."""
        (key,) = row_keys(row[None, :])
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        rows, _ = NEIGHBOURHOODS[self.name](self.space, row[None, :], rng)
        genes = self._owner[(rows != row).argmax(axis=1)] if len(rows) else self._owner[:0]
        neighbours = RowNeighbours(rows, row_keys(rows), genes)
        if self._deterministic:
            if len(self._cache) == _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = neighbours
        return neighbours


def _is_listed(space: Space, place: ParameterLocation) -> bool:
    """Whether all changes of a parameter are neighbours, so that none are drawn at random."""
    width = place.parameter.width
    if width > 1:
        return width * (width - 1) // 2 <= _VALUES
    listed = list_used_codes(space, place)
    return listed is not None and len(listed) <= _VALUES
