"""Random changes of a configuration whose size is a share of its bits.

Schoonhoven et al. 2022 encode a configuration in bits, one for each value of each parameter, and perturb it by as many
random changes of one parameter as the share says (their programs; the paper says only "perturbation size").
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.spaces.neighbourhoods import (
    DRAWS,
    ParameterLocation,
    list_used_codes,
    locate_parameters,
)
from baco_like.spaces.repair import nearest
from baco_like.spaces.space import Space
from baco_like.strategies.moves.mutation import inserted, swapped

_MOST_BITS = 64
"""Of a parameter: the paper's have at most half as many values."""

_TRIES = 16
"""Perturbed rows of which the first feasible one is taken; where there is none, one is repaired."""


def changes(space: Space, share: float) -> int:
    """Return how many random changes a share of the bits is, at least 1.

    A permutation counts a bit for each element, another parameter one for each value, but 64 at most; one that cannot
    be listed as many as it has neighbours.
    """
    return max(1, int(share * sum(_bits(space, place) for place in locate_parameters(space))))


def _bits(space: Space, place: ParameterLocation) -> int:
    if place.parameter.width > 1:
        return place.parameter.width
    listed = list_used_codes(space, place)
    return DRAWS if listed is None else min(len(listed), _MOST_BITS)


def perturbed(space: Space, row: Array, count: int, rng: Rng) -> Array:
    """Return a feasible row in which random parameters were changed so many times altogether, ``(w,)`` -> ``(w,)``.

    A changed parameter has any other value, and a permutation one swap or insertion a change. The first feasible of
    some such rows is returned, else the feasible row nearest to one of them. Where every parameter was to change, and
    every permutation as often as it has elements, the row is a uniform draw.

    Args:
        space: Where.
        row: Its codes.
        count: Changes in all.
        rng: Chance.
    """
    genes = locate_parameters(space)
    if not genes:
        return row
    times = rng.multinomial(count, np.full(len(genes), 1.0 / len(genes)))
    widths = np.array([place.parameter.width for place in genes], dtype=np.int64)
    if (times >= widths).all() and len(genes) > 1:
        return np.asarray(space.feasible.sample(1, rng)[0])
    rows = _changed(space, genes, np.tile(row, (_TRIES, 1)), times, rng)
    good = np.flatnonzero(space.feasible.contains(rows))
    return np.asarray(rows[good[0]] if len(good) else nearest(space, rows[:1], rng)[0])


def _changed(
    space: Space, genes: list[ParameterLocation], rows: Codes, times: Ints, rng: Rng
) -> Codes:
    """Return legal rows, perhaps infeasible, in which each parameter has changed so many times."""
    for place, count in zip(genes, times.tolist(), strict=True):
        if count:
            rows[:, place.columns] = _other(space, place, rows[:, place.columns], count, rng)
    return rows


def _other(space: Space, place: ParameterLocation, own: Codes, count: int, rng: Rng) -> Codes:
    """Return other values of one parameter, ``(n, width)`` -> ``(n, width)``."""
    if place.parameter.width > 1:
        for _ in range(min(count, place.parameter.width)):
            swap = rng.random((len(own), 1)) < 0.5
            own = np.where(swap, swapped(own, rng), inserted(own, rng))
        return own
    listed = list_used_codes(space, place)
    if listed is None:
        return place.parameter.sample(len(own), rng)
    if len(listed) == 1:
        return own
    drawn = rng.integers(0, len(listed) - 1, own.shape)
    return listed[drawn + (drawn >= np.searchsorted(listed, own))]
