"""The neighbours of one configuration at a time, with the parameter in which each differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.records.history import row_keys
from baco_like.spaces.moves import Neighbours, places, used
from baco_like.spaces.neighbourhood import adjacent, hamming
from baco_like.spaces.space import Space

_REMEMBERED = 4096

NEIGHBOURHOODS: Mapping[str, Callable[[Space, Codes, Rng], Neighbours]] = {
    "hamming": hamming,
    "adjacent": adjacent,
}
"""Names of neighbourhoods, for settings (Schoonhoven et al. 2022, sections III-B and III-C1)."""


@final
@dataclass(frozen=True, eq=False)
class Around:
    """The feasible neighbours of a configuration.

    Attributes:
        rows: Codes, ``(m, w)``.
        keys: Theirs, m of them.
        genes: In which parameter each differs, ``(m,)``, as a number among the parameters that are not constant.
    """

    rows: Codes
    keys: list[bytes]
    genes: Ints


@final
@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Finds neighbours, and remembers those that are always the same.

    Those of reals and of integers too wide to list are drawn anew every time.

    Attributes:
        space: Where.
        name: Which, of `NEIGHBOURHOODS`.
    """

    space: Space
    name: str
    _owner: Ints
    _always_the_same: bool
    _known: dict[bytes, Around] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, space: Space, name: str) -> Neighbourhoods:
        """Return the neighbourhoods of this name."""
        owner = np.zeros(space.width, dtype=np.int64)
        for gene, parameter in enumerate(space.active):
            owner[space.columns[parameter]] = gene
        listed = all(
            place.parameter.width > 1 or used(space, place) is not None for place in places(space)
        )
        return cls(space, name, owner, listed)

    def around(self, row: Array, rng: Rng) -> Around:
        """Return the neighbours of a feasible row of codes, ``(w,)``, in no particular order."""
        (key,) = row_keys(row[None, :])
        known = self._known.get(key)
        if known is not None:
            return known
        rows, _ = NEIGHBOURHOODS[self.name](self.space, row[None, :], rng)
        genes = self._owner[(rows != row).argmax(axis=1)] if len(rows) else self._owner[:0]
        found = Around(rows, row_keys(rows), genes)
        if self._always_the_same:
            if len(self._known) == _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found
