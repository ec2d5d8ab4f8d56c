"""Several improvements of a row at once."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Ints
from baco_like.spaces.moves import Neighbours
from baco_like.spaces.space import Space


def combined(space: Space, rows: Codes, better: Codes, owner: Ints, scores: Array) -> Neighbours:
    """Return the rows with the best change of two, three, ... parameters at once, where they are feasible.

    Parameters that hardly interact would be improved one in a step; here all of them are in one.

    Args:
        space: Where.
        rows: Feasible rows, ``(n, w)``.
        better: Rows that differ from one of them in one parameter and score higher, ``(m, w)``, at least one.
        owner: Which one that is, ``(m,)``.
        scores: ``(m,)``.

    Returns:
        Rows and the row that each belongs to, increasing. The best ``k`` changes are those that score highest alone.
    """
    change = better - rows[owner]
    parameter = _parameters(space)[np.argmax(change != 0, axis=1)]
    group = owner * len(space.columns) + parameter
    order = np.lexsort((-scores, group))
    best = order[_starts(group[order])]  # of every row and parameter
    best = best[np.lexsort((-scores[best], owner[best]))]
    change, owner = change[best], owner[best]
    start = _starts(owner)
    length = np.diff(start, append=len(owner))
    total = np.cumsum(change, axis=0)
    total -= np.repeat(total[start] - change[start], length, axis=0)
    several = np.ones(len(owner), dtype=np.bool_)
    several[start] = False
    joint, owner = rows[owner[several]] + total[several], owner[several]
    good = space.feasible.contains(joint)
    return joint[good], owner[good]


def _parameters(space: Space) -> Ints:
    """Return which parameter each code column belongs to."""
    widths = [at.stop - at.start for at in space.columns.values()]
    return np.repeat(np.arange(len(widths)), widths)


def _starts(increasing: Ints) -> Ints:
    """Return where each run of equal numbers begins."""
    new = np.ones(len(increasing), dtype=np.bool_)
    new[1:] = increasing[1:] != increasing[:-1]
    return np.flatnonzero(new)
