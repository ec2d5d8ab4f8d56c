"""Random changes of a configuration whose size is a share of its bits.

Schoonhoven et al. 2022 encode a configuration in bits, one for each value of each parameter. Their programs perturb it
by as many random changes of one parameter as the share of the bits says; the paper only says "perturbation size".
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.spaces import Space
from baco_like.spaces.neighbourhoods import (
    DRAWS,
    ParameterLocation,
    list_used_codes,
    locate_parameters,
)
from baco_like.spaces.repair import nearest
from baco_like.strategies.moves import move_elements

_MOST_BITS = 64
"""Most bits of a parameter; the paper's parameters have at most half as many values."""

_TRIES = 16
"""Number of perturbed rows from which the first feasible one is taken; if all are infeasible, one is repaired."""


def number_of_changes(space: Space, share: float) -> int:
    """Return the number of random changes for a share of the bits, at least 1.

    A permutation counts one bit per element, another parameter one per value but 64 at most. A parameter whose values
    cannot be listed counts as many bits as it has neighbours.
    """
    return max(1, int(share * sum(_bits(space, place) for place in locate_parameters(space))))


def _bits(space: Space, place: ParameterLocation) -> int:
    if place.parameter.width > 1:
        return place.parameter.width
    listed = list_used_codes(space, place)
    return DRAWS if listed is None else min(len(listed), _MOST_BITS)


def perturb(space: Space, row: Array, count: int, rng: Rng) -> Array:
    """Return a feasible row after a number of random changes in random parameters, ``(w,)`` -> ``(w,)``.

    A change gives a parameter any other value, or makes one swap or insertion in a permutation. The first feasible of
    16 such rows is returned, or the feasible row nearest to the first one. If every parameter would change, and every
    permutation as often as it has elements, the row is a uniform draw.

    Args:
        space: The space.
        row: Codes of the row.
        count: Number of changes.
        rng: Random generator.
    """
    genes = locate_parameters(space)
    if not genes:
        return row
    times = rng.multinomial(count, np.full(len(genes), 1.0 / len(genes)))
    widths = np.array([place.parameter.width for place in genes], dtype=np.int64)
    if (times >= widths).all() and len(genes) > 1:
        return np.asarray(space.feasible.sample(1, rng)[0])
    rows = np.tile(row, (_TRIES, 1))
    for place, changes in zip(genes, times.tolist(), strict=True):
        if changes:
            at = place.columns
            rows[:, at] = _draw_other_values(space, place, rows[:, at], changes, rng)
    feasible = np.flatnonzero(space.feasible.contains(rows))
    return np.asarray(rows[feasible[0]] if len(feasible) else nearest(space, rows[:1], rng)[0])


def _draw_other_values(
    space: Space, place: ParameterLocation, own: Codes, changes: int, rng: Rng
) -> Codes:
    """Return other values of one parameter, ``(n, width)`` -> ``(n, width)``."""
    if place.parameter.width > 1:
        for _ in range(min(changes, place.parameter.width)):
            own = move_elements(own, rng)
        return own
    listed = list_used_codes(space, place)
    if listed is None:
        return place.parameter.sample(len(own), rng)
    if len(listed) == 1:
        return own
    indices = rng.integers(0, len(listed) - 1, own.shape)
    # Skip the own value, so that every other value is equally likely.
    return listed[indices + (indices >= np.searchsorted(listed, own))]
