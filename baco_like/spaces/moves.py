"""Changes of one parameter of many rows at once, kept where the result is feasible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.parameters.swaps import adjacent_swaps, all_swaps
from baco_like.spaces.feasible.factor import Factor
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.feasible.ragged import by_owner, replaced, thinned
from baco_like.spaces.space import Space

Neighbours = tuple[Codes, Ints]
"""Rows, ``(m, w)``, and the index of the row that each belongs to, ``(m,)``, increasing."""

LOCAL_STEP = 0.03
"""Standard deviation of a local draw on a parameter's unit scale (that of BaCO's local search)."""

DRAWS = 8
"""Values tried of a parameter that cannot be listed, half of them local and half anywhere, unless a limit says less."""

FAR = 2**12
"""An integer too wide to list is searched so far for its next feasible value."""

_FEW = 1024

_CANDIDATES = 2**18
"""Rows tested at a time."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a parameter stands.

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
    def ordered(self) -> bool:
        """Whether neighbouring codes are similar values."""
        return self.parameter.kind is ParameterKind.ORDERED


Propose = Callable[[Place, Codes], Neighbours]
"""Values of one parameter, ``(m, width)``, to try in each of some rows, ``(n, w)``, with increasing owners."""


def places(space: Space) -> list[Place]:
    """Return where each parameter that is not constant stands."""
    factor = np.empty(space.width, dtype=np.int64)
    inside = np.empty(space.width, dtype=np.int64)
    for number, one in enumerate(space.feasible.factors):
        factor[one.columns] = number
        inside[one.columns] = np.arange(len(one.columns))
    return [
        Place(space.parameters[name], at, int(factor[at.start]), inside[at])
        for name, at in ((name, space.columns[name]) for name in space.active)
    ]


def one_changes(space: Space, codes: Codes, propose: Propose) -> Neighbours:
    """Return the feasible rows that differ in one parameter, which takes one of the proposed values."""
    rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
    for place, mine in _changeable(space, codes):
        factor = space.feasible.factors[place.factor]
        step = max(1, _CANDIDATES // options(space, place))
        for begin in range(0, len(mine), step):
            block = mine[begin : begin + step]
            proposed, owner = propose(place, codes[block])
            kept, owner = _feasible(factor, place, codes, proposed, block[owner])
            at = np.arange(place.columns.start, place.columns.stop)
            rows.append(replaced(codes, owner, at, kept))
            owners.append(owner)
    return by_owner(np.concatenate(rows), np.concatenate(owners))


def single_changes(space: Space, codes: Codes, rng: Rng, limit: int | None) -> Neighbours:
    """Return the feasible rows that differ in one parameter: in any value, or at most ``limit`` random ones of each.

    As `one_changes` of `values`, but a tree is walked once for all of its parameters.
    """
    factors = space.feasible.factors
    by_factor: list[list[Place]] = [[] for _ in factors]
    for place in places(space):
        by_factor[place.factor].append(place)
    tried = sum(options(space, place) for mine in by_factor for place in mine)
    step = max(1, _CANDIDATES // max(1, tried))
    rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
    for begin in range(0, len(codes), step):
        block = codes[begin : begin + step]
        found = [
            _within(space, factor, mine, block, rng, limit)
            for factor, mine in zip(factors, by_factor, strict=True)
        ]
        near, owner = _completed(factors, block, found)
        rows.append(near)
        owners.append(owner + begin)
    return np.concatenate(rows), np.concatenate(owners)


def _completed(
    factors: Sequence[Factor], codes: Codes, found: Sequence[tuple[Codes, Ints, Mask]]
) -> Neighbours:
    """Return whole rows from what `_within` found, where a row's other factors are feasible, sorted by owner."""
    bad = [~good for _, _, good in found]
    total = np.sum(bad, axis=0)
    if total.any():
        kept = [(total == mine)[owner] for (_, owner, _), mine in zip(found, bad, strict=True)]
        found = [
            (part[fit], owner[fit], good)
            for (part, owner, good), fit in zip(found, kept, strict=True)
        ]
    owner = np.concatenate([owner for _, owner, _ in found])
    order = np.argsort(owner, kind="stable")
    rows = codes[owner]
    begin = 0
    for factor, (part, mine, _) in zip(factors, found, strict=True):
        rows[begin : begin + len(mine), factor.columns] = part
        begin += len(mine)
    return rows[order], owner[order]


def _within(
    space: Space,
    factor: Factor,
    mine: Sequence[Place],
    codes: Codes,
    rng: Rng,
    limit: int | None,
) -> tuple[Codes, Ints, Mask]:
    """Return a factor's rows with one change, their owners, and which of the given rows it allows."""
    own = codes[:, factor.columns]
    if isinstance(factor, TreeGroup):
        return factor.one_changes(own, rng, limit)
    rows, owners = [own[:0]], [np.empty(0, dtype=np.int64)]
    for place in mine:
        proposed, owner = values(space, place, codes, rng, limit)
        kept, owner = _feasible(factor, place, codes, proposed, owner)
        rows.append(replaced(own, owner, place.inside, kept))
        owners.append(owner)
    return np.concatenate(rows), np.concatenate(owners), factor.contains(own)


def next_values(space: Space, codes: Codes) -> Neighbours:
    """Return the rows in which one ordered parameter has the nearest value below or above that is feasible."""
    rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
    for place, mine in _changeable(space, codes):
        if place.ordered:
            for sign in (-1, 1):
                found, owner = _next_value(space, place, codes, mine, sign)
                rows.append(replaced(codes, owner, np.array([place.columns.start]), found))
                owners.append(owner)
    return by_owner(np.concatenate(rows), np.concatenate(owners))


def few_values(space: Space) -> bool:
    """Whether the values of every parameter are listed, and are few altogether; permutations are not listed."""
    listed = [used(space, place) if place.parameter.width == 1 else None for place in places(space)]
    total = 0
    for codes in listed:
        if codes is None:
            return False
        total += len(codes)
    return total <= _FEW


def nearest_values(space: Space, codes: Codes, rows: Codes, owner: Ints) -> Neighbours:
    """Return those of all single changes in which an ordered parameter has the nearest value below or above its own.

    Those of other parameters stay. With `few_values` it is faster than `next_values`, since a tree is walked once.
    """
    if not len(rows):
        return rows, owner
    ordered = np.zeros(space.width, dtype=np.bool_)
    ordered[[place.columns.start for place in places(space) if place.ordered]] = True
    column = (rows != codes[owner]).argmax(axis=1)
    entry = np.arange(len(rows))
    value = rows[entry, column]
    step = value - codes[owner, column]
    free = ~ordered[column]
    side = np.where(
        free, value, np.sign(step)
    )  # each value of an unordered one is a case of its own
    order = np.lexsort((np.abs(step), side, column, ordered[column], owner))
    case = np.stack([owner, column, side], axis=1)[order]
    kept = order[np.append(True, (case[1:] != case[:-1]).any(axis=1))]
    return rows[kept], owner[kept]


def _changeable(space: Space, codes: Codes) -> list[tuple[Place, Ints]]:
    """Return each parameter with the rows that a change of its factor alone can make feasible."""
    factors = space.feasible.factors
    bad = [~factor.contains(codes[:, factor.columns]) for factor in factors]
    total = np.sum(bad, axis=0)
    return [(place, np.flatnonzero(total == bad[place.factor])) for place in places(space)]


def _feasible(
    factor: Factor, place: Place, codes: Codes, proposed: Codes, owner: Ints
) -> Neighbours:
    """Return the proposed values that differ from the row's own and make its factor feasible."""
    new = (proposed != codes[owner, place.columns]).any(axis=1)
    proposed, owner = proposed[new], owner[new]
    rows = replaced(codes[:, factor.columns], owner, place.inside, proposed)
    good = factor.contains(rows)
    return proposed[good], owner[good]


def used(space: Space, place: Place) -> Array | None:
    """Return the codes of a scalar parameter that are ever feasible, or None where they are not listed."""
    return space.feasible.factors[place.factor].used(int(place.inside[0]))


def options(space: Space, place: Place) -> int:
    """Return how many values of a parameter may be proposed for a row."""
    if place.parameter.width > 1:
        return place.parameter.width**2
    codes = used(space, place)
    return DRAWS if codes is None else max(1, len(codes))


def values(space: Space, place: Place, rows: Codes, rng: Rng, limit: int | None) -> Neighbours:
    """Propose all values of a parameter, or at most ``limit`` random ones; all swaps of a permutation."""
    own = rows[:, place.columns]
    if place.parameter.width > 1:
        swapped, owner = all_swaps(own)
        kept = thinned(owner, rng, limit)
        return swapped[kept], owner[kept]
    codes = used(space, place)
    if codes is None:
        return _draws(place.parameter, own, rng, DRAWS if limit is None else min(DRAWS, limit))
    n, count = len(rows), len(codes)
    if limit is None or count - 1 <= limit:
        return np.tile(codes, n)[:, None], np.repeat(np.arange(n), count)
    drawn = np.sort(rng.integers(0, count, (n, limit)), axis=1)
    fresh = np.diff(drawn, axis=1, prepend=-1) > 0
    return codes[drawn[fresh]][:, None], np.nonzero(fresh)[0]


def unordered_steps(space: Space, place: Place, rows: Codes, rng: Rng) -> Neighbours:
    """Propose all values of a categorical parameter, adjacent swaps of a permutation, draws of a real."""
    if place.ordered:
        return np.empty((0, 1)), np.empty(0, dtype=np.int64)
    if place.parameter.width > 1:
        return adjacent_swaps(rows[:, place.columns])
    return values(space, place, rows, rng, None)


def steps(space: Space, place: Place, rows: Codes, rng: Rng) -> Neighbours:
    """Propose a parameter's own value and the ones before and after; for unordered ones, as `unordered_steps`."""
    own = rows[:, place.columns]
    if not place.ordered:
        return _with_own(own, *unordered_steps(space, place, rows, rng))
    return (own + np.array([-1.0, 0.0, 1.0])).reshape(-1, 1), np.repeat(np.arange(len(own)), 3)


def supported_steps(space: Space, place: Place, rows: Codes, rng: Rng) -> Neighbours:
    """Propose a parameter's own value and the nearest before and after that are ever feasible."""
    codes = used(space, place) if place.ordered else None
    if codes is None:
        return steps(space, place, rows, rng)
    own = rows[:, place.columns]
    below = np.searchsorted(codes, own, side="left") - 1
    above = np.searchsorted(codes, own, side="right")
    around = np.concatenate(
        [codes[np.maximum(below, 0)], own, codes[np.minimum(above, len(codes) - 1)]], axis=1
    )
    legal = np.concatenate(
        [below >= 0, np.ones_like(below, dtype=np.bool_), above < len(codes)], axis=1
    )
    return around[legal][:, None], np.nonzero(legal)[0]


def _with_own(own: Codes, proposed: Codes, owner: Ints) -> Neighbours:
    """Return the proposals that change something, and each row's own value."""
    new = (proposed != own[owner]).any(axis=1)
    return by_owner(
        np.concatenate([own, proposed[new]]), np.concatenate([np.arange(len(own)), owner[new]])
    )


def _next_value(space: Space, place: Place, codes: Codes, mine: Ints, sign: int) -> Neighbours:
    """Return for each row the first feasible value in one direction, searched in blocks of growing length."""
    factor = space.feasible.factors[place.factor]
    listed = used(space, place)
    count = int(place.parameter.cardinality) if listed is None else len(listed)
    own = codes[mine, place.columns.start]
    side: Literal["left", "right"] = "left" if sign < 0 else "right"
    first = (
        np.floor(own) + (sign > 0) if listed is None else np.searchsorted(listed, own, side=side)
    )
    position = first.astype(np.int64) - (sign < 0)
    found, owners = [np.empty((0, 1))], [np.empty(0, dtype=np.int64)]
    length, reached = 4, 0
    while len(mine) and reached < (FAR if listed is None else count):
        index = position[:, None] + sign * np.arange(length)
        row, column = np.nonzero((index >= 0) & (index < count))
        index = index[row, column]
        value = (index.astype(np.float64) if listed is None else listed[index])[:, None]
        value, entry = _labelled(factor, place, codes, value, mine[row], row)
        hit, at = np.unique(entry, return_index=True)
        found.append(value[at])
        owners.append(mine[hit])
        left = np.ones(len(mine), dtype=np.bool_)
        left[hit] = False
        reached += length
        position = position[left] + sign * length
        mine = mine[left]
        length = min(4 * length, max(4, _CANDIDATES // max(1, len(mine))))
    return np.concatenate(found), np.concatenate(owners)


def _labelled(
    factor: Factor, place: Place, codes: Codes, proposed: Codes, owner: Ints, label: Ints
) -> Neighbours:
    """Return the proposed values that make the factor feasible, with their labels."""
    rows = replaced(codes[:, factor.columns], owner, place.inside, proposed)
    good = factor.contains(rows)
    return proposed[good], label[good]


def _draws(parameter: Parameter, own: Codes, rng: Rng, count: int) -> Neighbours:
    """Propose random values of a real or a wide integer: every other one near the row's own."""
    n = len(own)
    owner = np.repeat(np.arange(n), count)
    anywhere = parameter.from_unit(rng.random((n * count, 1)))
    near = parameter.from_unit(_truncated_normal(parameter.to_unit(own[owner]), rng))
    local = (np.arange(n * count) % count % 2 == 0)[:, None]
    return np.where(local, near, anywhere), owner


def _truncated_normal(centres: Array, rng: Rng) -> Array:
    """Return normal draws of standard deviation `LOCAL_STEP` around centres in [0, 1], cut off at its ends."""
    from scipy.special import ndtr, ndtri

    low, high = ndtr((0.0 - centres) / LOCAL_STEP), ndtr((1.0 - centres) / LOCAL_STEP)
    drawn = centres + LOCAL_STEP * ndtri(low + (high - low) * rng.random(centres.shape))
    return np.clip(drawn, 0.0, 1.0)
