"""Other values of one parameter that are proposed for many rows at once; feasibility is checked by the callers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.parameters.permutation_codes import all_swaps
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.spaces.feasible.ragged import sort_by_owner, thin
from baco_like.spaces.space import Space

Neighbours = tuple[Codes, Ints]
"""Rows, ``(m, w)``, and the index of the row that each belongs to (its owner), ``(m,)``, increasing."""

LOCAL_STEP = 0.03
"""Standard deviation of a local draw on a parameter's unit scale (the value of BaCO's local search)."""

DRAWS = 8
"""Values tried of a parameter that cannot be listed, half of them local and half anywhere, unless a limit is lower."""


@dataclass(frozen=True, eq=False)
class ParameterLocation:
    """Where the codes of a parameter are.

    Attributes:
        parameter: The parameter.
        columns: Its code columns in the space.
        factor: Number of its factor of the feasible set.
        inside: Its columns within the factor.
    """

    parameter: Parameter
    columns: slice
    factor: int
    inside: Ints

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring codes are similar values."""
        return self.parameter.kind is ParameterKind.ORDERED


Propose = Callable[[ParameterLocation, Codes], Neighbours]
"""Returns values of one parameter, ``(m, width)``, to try in some rows, ``(n, w)``, with increasing owners."""


def locate_parameters(space: Space) -> list[ParameterLocation]:
    """Return the location of each parameter that is not constant."""
    factor = np.empty(space.width, dtype=np.int64)
    inside = np.empty(space.width, dtype=np.int64)
    for number, one in enumerate(space.feasible.factors):
        factor[one.columns] = number
        inside[one.columns] = np.arange(len(one.columns))
    return [
        ParameterLocation(space.parameters[name], at, int(factor[at.start]), inside[at])
        for name, at in ((name, space.columns[name]) for name in space.active)
    ]


def list_used_codes(space: Space, location: ParameterLocation) -> Array | None:
    """Return the codes of a scalar parameter that occur in feasible rows, or None if they are not listed."""
    return space.feasible.factors[location.factor].used(int(location.inside[0]))


def count_proposals(space: Space, location: ParameterLocation) -> int:
    """Return the greatest number of values of a parameter that are proposed for a row."""
    if location.parameter.width > 1:
        return location.parameter.width**2
    codes = list_used_codes(space, location)
    return DRAWS if codes is None else max(1, len(codes))


def propose_values(
    space: Space, location: ParameterLocation, rows: Codes, rng: Rng, limit: int | None
) -> Neighbours:
    """Propose all values of a parameter, or at most ``limit`` random ones; all swaps of a permutation."""
    own = rows[:, location.columns]
    if location.parameter.width > 1:
        swapped, owner = all_swaps(own)
        kept = thin(owner, rng, limit)
        return swapped[kept], owner[kept]
    codes = list_used_codes(space, location)
    if codes is None:
        count = DRAWS if limit is None else min(DRAWS, limit)
        return _draw_values(location.parameter, own, rng, count)
    n, count = len(rows), len(codes)
    if limit is None or count - 1 <= limit:
        return np.tile(codes, n)[:, None], np.repeat(np.arange(n), count)
    drawn = np.sort(rng.integers(0, count, (n, limit)), axis=1)
    fresh = np.diff(drawn, axis=1, prepend=-1) > 0
    return codes[drawn[fresh]][:, None], np.nonzero(fresh)[0]


def propose_unordered_steps(
    space: Space, location: ParameterLocation, rows: Codes, rng: Rng
) -> Neighbours:
    """Propose all values of an unordered parameter, adjacent swaps of a permutation, draws of a real number."""
    if location.is_ordered:
        return np.empty((0, 1)), np.empty(0, dtype=np.int64)
    if location.parameter.width > 1:
        return location.parameter.neighbours(rows[:, location.columns])
    return propose_values(space, location, rows, rng, None)


def propose_steps(space: Space, location: ParameterLocation, rows: Codes, rng: Rng) -> Neighbours:
    """Propose a row's own value, the one before and the one after; of unordered ones `propose_unordered_steps`."""
    own = rows[:, location.columns]
    if location.is_ordered:
        steps = (own + np.array([-1.0, 0.0, 1.0])).reshape(-1, 1)
        return steps, np.repeat(np.arange(len(own)), 3)
    proposed, owner = propose_unordered_steps(space, location, rows, rng)
    new = (proposed != own[owner]).any(axis=1)
    return sort_by_owner(
        np.concatenate([own, proposed[new]]), np.concatenate([np.arange(len(own)), owner[new]])
    )


def propose_used_steps(
    space: Space, location: ParameterLocation, rows: Codes, rng: Rng
) -> Neighbours:
    """Propose a row's own value and the nearest ones before and after it that occur in feasible rows."""
    codes = list_used_codes(space, location) if location.is_ordered else None
    if codes is None:
        return propose_steps(space, location, rows, rng)
    own = rows[:, location.columns]
    below = np.searchsorted(codes, own, side="left") - 1
    above = np.searchsorted(codes, own, side="right")
    around = np.concatenate(
        [codes[np.maximum(below, 0)], own, codes[np.minimum(above, len(codes) - 1)]], axis=1
    )
    legal = np.concatenate(
        [below >= 0, np.ones_like(below, dtype=np.bool_), above < len(codes)], axis=1
    )
    return around[legal][:, None], np.nonzero(legal)[0]


def _draw_values(parameter: Parameter, own: Codes, rng: Rng, count: int) -> Neighbours:
    """Propose random values of a real or a wide integer: every second one is near the row's own value."""
    n = len(own)
    owner = np.repeat(np.arange(n), count)
    anywhere = parameter.from_unit(rng.random((n * count, 1)))
    near = parameter.from_unit(_draw_truncated_normal(parameter.to_unit(own[owner]), rng))
    local = (np.arange(n * count) % count % 2 == 0)[:, None]
    return np.where(local, near, anywhere), owner


def _draw_truncated_normal(centres: Array, rng: Rng) -> Array:
    """Return normal draws of standard deviation `LOCAL_STEP` around centres, truncated to [0, 1]."""
    from scipy.special import ndtr, ndtri

    low, high = ndtr((0.0 - centres) / LOCAL_STEP), ndtr((1.0 - centres) / LOCAL_STEP)
    drawn = centres + LOCAL_STEP * ndtri(low + (high - low) * rng.random(centres.shape))
    return np.clip(drawn, 0.0, 1.0)
