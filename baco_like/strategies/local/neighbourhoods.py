"""The neighbours of one configuration at a time, with the parameter in which each differs.

Where a parameter could take more than 64 other values (or make more swaps), up to that many random ones are Hamming
neighbours, drawn anew every time. So are some values of reals and of integers too wide to list.
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

_REMEMBERED = 4096
_VALUES = 64

NEIGHBOURHOODS: Mapping[str, Callable[[Space, Codes, Rng], Neighbours]] = {
    "hamming": partial(hamming, limit=_VALUES),
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
        return cls(
            space, name, owner, all(_all_tried(space, place) for place in locate_parameters(space))
        )

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


def _all_tried(space: Space, place: ParameterLocation) -> bool:
    """Whether a configuration's neighbours by changes of this parameter are always the same."""
    width = place.parameter.width
    if width > 1:
        return width * (width - 1) // 2 <= _VALUES
    listed = list_used_codes(space, place)
    return listed is not None and len(listed) <= _VALUES
