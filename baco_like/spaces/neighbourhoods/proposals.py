"""Other values of one parameter that are proposed for many rows at once; feasibility is checked by the callers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.parameters.permutation_codes import all_swaps
from baco_like.parameters.protocol import Parameter, ParameterKind, is_permutation, is_sequence
from baco_like.spaces.feasible.factor import Factor
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
        name: Name of the parameter.
        parameter: The parameter.
        columns: Its code columns in the space.
        factor: Its factor of the feasible set.
        inside: Its columns within the factor.
    """

    name: str
    parameter: Parameter
    columns: slice
    factor: Factor
    inside: Ints

    @property
    def is_ordered(self) -> bool:
        """Whether the values have one order, that of the code; of several columns `neighbours` knows it."""
        return self.parameter.kind is ParameterKind.ORDERED and self.parameter.width == 1

    def used_codes(self) -> Array | None:
        """Return the codes of a scalar that occur in feasible rows; None for several columns or if not listed."""
        return None if self.parameter.width > 1 else self.factor.used(int(self.inside[0]))

    def choices(self) -> Codes | None:
        """Return the codes of all listed values, ``(k, width)``; None for a permutation or if they are not listed."""
        if self.parameter.width > 1:
            values = self.parameter.values
            return None if values is None else self.parameter.encode(values)
        used = self.used_codes()
        return None if used is None else used[:, None]

    def most_proposals(self) -> int:
        """Return the greatest number of values that `propose_values` returns for a row."""
        if is_permutation(self.parameter):
            return self.parameter.width**2
        if is_sequence(self.parameter):
            return 2 * self.parameter.width * (self.parameter.width + len(self.parameter.elements))
        codes = self.choices()
        return DRAWS if codes is None else max(1, len(codes))


Propose = Callable[[ParameterLocation, Codes, Rng], Neighbours]
"""Returns values of one parameter, ``(m, width)``, to try in some rows, ``(n, w)``, with increasing owners."""


def locate_parameters(space: Space) -> list[ParameterLocation]:
    """Return the location of each parameter that is not constant."""
    inside = np.empty(space.width, dtype=np.int64)
    factors: dict[int, Factor] = {}
    for factor in space.feasible.factors:
        inside[factor.columns] = np.arange(len(factor.columns))
        factors |= dict.fromkeys(factor.columns.tolist(), factor)
    columns = {name: space.columns[name] for name in space.active}
    return [
        ParameterLocation(name, space.parameters[name], at, factors[at.start], inside[at])
        for name, at in columns.items()
    ]


def group_by_factor(space: Space) -> list[tuple[Factor, list[ParameterLocation]]]:
    """Return each factor with the locations of its parameters."""
    groups: dict[Factor, list[ParameterLocation]] = {f: [] for f in space.feasible.factors}
    for location in locate_parameters(space):
        groups[location.factor].append(location)
    return list(groups.items())


def join_neighbours(parts: Iterable[Neighbours], width: int) -> Neighbours:
    """Return the concatenated rows, ``(m, width)``, and owners of all parts."""
    rows, owners = [np.empty((0, width))], [np.empty(0, dtype=np.int64)]
    for part, owner in parts:
        rows.append(part)
        owners.append(owner)
    return np.concatenate(rows), np.concatenate(owners)


def propose_values(
    location: ParameterLocation, rows: Codes, rng: Rng, limit: int | None = None
) -> Neighbours:
    """Propose all values of a parameter, or at most ``limit`` random ones; swaps of a permutation, moves of a sequence.

    Without a limit these are all moves of a sequence, with a limit its random ones (`SequenceParameter.change`).
    """
    own = rows[:, location.columns]
    if is_permutation(location.parameter):
        swapped, owner = all_swaps(own)
        kept = thin(owner, rng, limit)
        return swapped[kept], owner[kept]
    if is_sequence(location.parameter):
        if limit is None:
            return location.parameter.neighbours(own)
        owner = np.repeat(np.arange(len(own)), limit)
        return location.parameter.change(own[owner], rng), owner
    codes = location.choices()
    if codes is None:
        count = DRAWS if limit is None else min(DRAWS, limit)
        return _draw_values(location.parameter, own, rng, count)
    n, count = len(rows), len(codes)
    if limit is None or count - 1 <= limit:
        return np.tile(codes, (n, 1)), np.repeat(np.arange(n), count)
    drawn = np.sort(rng.integers(0, count, (n, limit)), axis=1)
    fresh = np.diff(drawn, axis=1, prepend=-1) > 0
    return codes[drawn[fresh]], np.nonzero(fresh)[0]


def propose_unordered_steps(location: ParameterLocation, rows: Codes, rng: Rng) -> Neighbours:
    """Propose all values of an unordered parameter, draws of a real number, else the parameter's `neighbours`."""
    parameter = location.parameter
    if parameter.width > 1 and parameter.kind is not ParameterKind.CONTINUOUS:
        return parameter.neighbours(rows[:, location.columns])
    return propose_values(location, rows, rng)


def propose_steps(location: ParameterLocation, rows: Codes, rng: Rng) -> Neighbours:
    """Propose a row's own value, the one before and the one after; of unordered ones `propose_unordered_steps`."""
    own, owner = rows[:, location.columns], np.arange(len(rows))
    if location.is_ordered:
        return (own + np.array([-1.0, 0.0, 1.0])).reshape(-1, 1), np.repeat(owner, 3)
    proposed, proposed_owner = propose_unordered_steps(location, rows, rng)
    new = (proposed != own[proposed_owner]).any(axis=1)
    parts = [(own, owner), (proposed[new], proposed_owner[new])]
    return sort_by_owner(*join_neighbours(parts, own.shape[1]))


def propose_used_steps(location: ParameterLocation, rows: Codes, rng: Rng) -> Neighbours:
    """Propose a row's own value and the nearest ones before and after it that occur in feasible rows."""
    codes = location.used_codes() if location.is_ordered else None
    if codes is None:
        return propose_steps(location, rows, rng)
    own = rows[:, location.columns]
    below = np.searchsorted(codes, own, side="left") - 1
    above = np.searchsorted(codes, own, side="right")
    last = len(codes) - 1
    around = np.hstack([codes[np.maximum(below, 0)], own, codes[np.minimum(above, last)]])
    legal = np.hstack([below >= 0, np.ones_like(below, dtype=np.bool_), above <= last])
    return around[legal][:, None], np.nonzero(legal)[0]


def _draw_values(parameter: Parameter, own: Codes, rng: Rng, count: int) -> Neighbours:
    """Propose random values of a real or a wide integer: every second one is near the row's own value."""
    n = len(own)
    owner = np.repeat(np.arange(n), count)
    anywhere = parameter.from_unit(rng.random((n * count, own.shape[1])))
    near = parameter.from_unit(_draw_truncated_normal(parameter.to_unit(own[owner]), rng))
    local = (np.arange(n * count) % count % 2 == 0)[:, None]
    return np.where(local, near, anywhere), owner


def _draw_truncated_normal(centres: Array, rng: Rng) -> Array:
    """Return normal draws of standard deviation `LOCAL_STEP` around centres, truncated to [0, 1]."""
    from scipy.special import ndtr, ndtri

    low, high = ndtr((0.0 - centres) / LOCAL_STEP), ndtr((1.0 - centres) / LOCAL_STEP)
    drawn = centres + LOCAL_STEP * ndtri(low + (high - low) * rng.random(centres.shape))
    return np.clip(drawn, 0.0, 1.0)
