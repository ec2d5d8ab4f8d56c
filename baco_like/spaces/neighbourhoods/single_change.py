"""Neighbours that differ from a row in one parameter (Schoonhoven et al. 2022, section III-B), for many rows at once.

Every function returns feasible rows and, for each, the index of the row that it is a neighbour of (its owner),
increasing. A row is never its own neighbour. The given rows may violate constraints; their neighbours are feasible,
so the same functions repair rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation import all_swaps
from baco_like.parameters.protocol import Parameter, ParameterKind, is_permutation, is_sequence
from baco_like.spaces.feasible.feasible_set import Box, Factor, FeasibleSet
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.rows import find_first_rows, replace_columns, sort_by_owner, thin
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


FAR = 2**12
"""Values of an integer too wide to list that are searched for its next feasible value."""

_FEW = 1024
"""Values of all parameters up to which all single changes are computed to find the nearest ones."""

_CANDIDATES = 2**18
"""Rows tested at a time."""


def hamming(space: Space, codes: Codes, rng: Rng, limit: int | None = None) -> Neighbours:
    """Return the neighbours that differ in one parameter, by any value.

    Permutations differ by one swap of two elements. Reals, and integers too wide to list, are tried at eight random
    values, half of them near the row's own.

    Args:
        space: The space.
        codes: Rows of codes, ``(n, w)``.
        rng: Random numbers.
        limit: Most random values (or swaps) of one parameter that are tried for a row; None means all.
    """
    if space.conditions:
        propose = partial(propose_values, limit=limit)
        return change_and_switch(space, codes, rng, propose)
    groups = group_by_factor(space)
    tried = sum(location.most_proposals() for _, members in groups for location in members)
    step = max(1, _CANDIDATES // max(1, tried))
    blocks = []
    for begin in range(0, len(codes), step):
        block = codes[begin : begin + step]
        parts = [_change_factor(factor, members, block, rng, limit) for factor, members in groups]
        rows, owner = _complete_rows(space.feasible.factors, block, parts)
        blocks.append((rows, owner + begin))
    return join_neighbours(blocks, space.width)


class RandomChanges:
    """Draws a few changes of one parameter for each row, in the time of a few array operations.

    With hundreds of parameters `hamming` returns thousands of neighbours for a row.

    Args:
        space: The space.
    """

    def __init__(self, space: Space) -> None:
        locations = locate_parameters(space)
        used = [location.used_codes() for location in locations]
        self._locations, self._activity = locations, space.activity
        self._listed = np.array([codes is not None for codes in used], dtype=np.bool_)
        tables = [np.empty(0) if codes is None else codes for codes in used]
        self._sizes = np.array([len(table) for table in tables], dtype=np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._codes = np.concatenate([np.empty(0), *tables])
        self._columns = np.array([loc.columns.start for loc in locations], dtype=np.int64)
        unlisted = {
            loc.factor for loc, known in zip(locations, self._listed, strict=True) if not known
        }
        self._checked = [
            factor
            for factor in space.feasible.factors
            if not isinstance(factor, Box) or factor in unlisted
        ]

    @classmethod
    def of(cls, space: Space) -> RandomChanges:
        """Return the changes in a space; they are kept as long as the space."""
        if space.feasible not in _CHANGES:
            _CHANGES[space.feasible] = cls(space)
        return _CHANGES[space.feasible]

    def draw(self, codes: Codes, rng: Rng, count: int) -> Neighbours:
        """Return one random other value for each of ``count`` random parameters of each row, if that is feasible.

        Args:
            codes: Feasible rows of codes, ``(n, w)``.
            rng: Random numbers.
            count: Number of parameters.
        """
        n, total = len(codes), len(self._locations)
        count = min(count, total)
        if count == 1:  # permutations would take most of the time
            parameter = rng.integers(total, size=n)
        else:
            parameter = rng.permuted(np.tile(np.arange(total), (n, 1)), axis=1)[:, :count].ravel()
        owner = np.repeat(np.arange(n), count)
        rows = codes[owner]
        place = np.flatnonzero(self._listed[parameter])
        which = parameter[place]
        size, column = self._sizes[which], self._columns[which]
        index = (rng.random(len(place)) * size).astype(np.int64)
        start = self._starts[which]
        own = self._codes[start + index] == rows[place, column]
        index = np.where(own, (index + 1) % size, index)
        rows[place, column] = self._codes[start + index]
        for i in np.flatnonzero(~self._listed):
            self._change_unlisted(rows, np.flatnonzero(parameter == i), self._locations[i], rng)
        rows = self._activity.at_rest(rows)
        changed = (rows != codes[owner]).any(axis=1)
        for factor in self._checked:
            changed &= factor.contains(rows[:, factor.columns])
        return rows[changed], owner[changed]

    @staticmethod
    def _change_unlisted(rows: Codes, place: Ints, location: ParameterLocation, rng: Rng) -> None:
        """Change a parameter without a list of values, such as a permutation, in some of the rows."""
        values, own = propose_values(location, rows[place], rng, 1)
        rows[place[own, None], np.arange(rows.shape[1])[location.columns]] = values


_CHANGES: WeakKeyDictionary[FeasibleSet, RandomChanges] = WeakKeyDictionary()


def _change_factor(
    factor: Factor, members: list[ParameterLocation], codes: Codes, rng: Rng, limit: int | None
) -> tuple[Codes, Ints, Mask]:
    """Return a factor's rows with one change, their owners, and which of the given rows it allows."""
    own = codes[:, factor.columns]
    if (
        isinstance(factor, TreeGroup) and factor.chooses_values and len(factor.domains) > 1
    ):  # walked once for all
        return factor.one_changes(own, rng, limit)
    changed = [_keep_feasible(p, codes, *propose_values(p, codes, rng, limit)) for p in members]
    return *join_neighbours(changed, own.shape[1]), factor.contains(own)


def _keep_feasible(
    location: ParameterLocation, codes: Codes, proposed: Codes, owner: Ints
) -> Neighbours:
    """Return the feasible rows of the factor in which the parameter has a proposed value that is not the row's own."""
    new = (proposed != codes[owner, location.columns]).any(axis=1)
    factor, owner = location.factor, owner[new]
    rows = replace_columns(codes[:, factor.columns], owner, location.inside, proposed[new])
    good = factor.contains(rows)
    return rows[good], owner[good]


def _complete_rows(
    factors: Sequence[Factor], codes: Codes, parts: list[tuple[Codes, Ints, Mask]]
) -> Neighbours:
    """Return whole rows of the parts that `_change_factor` returned, if all other factors are feasible."""
    infeasible = np.sum([~good for _, _, good in parts], axis=0)
    if infeasible.any():
        for i, (part, owner, good) in enumerate(parts):
            fit = (infeasible == ~good)[owner]
            parts[i] = (part[fit], owner[fit], good)
    owner = np.concatenate([owner for _, owner, _ in parts])
    rows = codes[owner]
    begin = 0
    for factor, (part, _, _) in zip(factors, parts, strict=True):
        rows[begin : begin + len(part), factor.columns] = part
        begin += len(part)
    return sort_by_owner(rows, owner)


def adjacent(space: Space, codes: Codes, rng: Rng) -> Neighbours:
    """Return the neighbours in which one parameter has the nearest value before or after its own that is feasible.

    Without constraints these are the adjacent neighbours of Schoonhoven et al.; values that would violate a
    constraint are skipped. An unordered parameter may take any other value; permutations change by one swap of
    elements at consecutive positions; reals as in `hamming`.
    """
    if space.conditions:
        return change_and_switch(space, codes, rng, _propose_adjacent, nearest_values)
    locations = locate_parameters(space)
    listed = [location.used_codes() for location in locations]
    if sum(math.inf if values is None else len(values) for values in listed) <= _FEW:
        return _keep_nearest_values(space, codes, *hamming(space, codes, rng))
    factors = space.feasible.factors
    infeasible = {factor: ~factor.contains(codes[:, factor.columns]) for factor in factors}
    total = np.sum(list(infeasible.values()), axis=0)
    unordered, ordered = [], []
    for location in locations:
        factor = location.factor
        # The rows that a change of this factor alone can make feasible.
        changeable = np.flatnonzero(total == infeasible[factor])
        if location.is_ordered:
            found = [_find_next_value(location, codes, changeable, sign) for sign in (-1, 1)]
            ordered += [(replace_columns(codes, o, factor.columns, r), o) for r, o in found]
            continue
        step = max(1, _CANDIDATES // location.most_proposals())
        for begin in range(0, len(changeable), step):
            block = changeable[begin : begin + step]
            proposed, owner = propose_unordered_steps(location, codes[block], rng)
            rows, owner = _keep_feasible(location, codes, proposed, block[owner])
            unordered.append((replace_columns(codes, owner, factor.columns, rows), owner))
    return sort_by_owner(*join_neighbours([*unordered, *ordered], space.width))


def _propose_adjacent(location: ParameterLocation, codes: Codes, rng: Rng) -> Neighbours:
    """Propose every value of an ordered parameter, of which the nearest are kept; else `propose_unordered_steps`."""
    if location.is_ordered and location.used_codes() is not None:
        return propose_values(location, codes, rng)
    if location.is_ordered:
        return propose_steps(location, codes, rng)
    return propose_unordered_steps(location, codes, rng)


def _keep_nearest_values(space: Space, codes: Codes, rows: Codes, owner: Ints) -> Neighbours:
    """Return the single changes in which an ordered parameter has the nearest value below or above its own.

    Changes of other parameters are kept. If there are few values it is faster than to search for the next ones,
    because a tree is walked once.
    """
    if not len(rows):
        return rows, owner
    ordered = np.zeros(space.width, dtype=np.bool_)
    ordered[[p.columns.start for p in locate_parameters(space) if p.is_ordered]] = True
    column = (rows != codes[owner]).argmax(axis=1)
    entry = np.arange(len(rows))
    value = rows[entry, column]
    step = value - codes[owner, column]
    # Each value of an unordered parameter is a separate group, so all of them are kept.
    side = np.where(~ordered[column], value, np.sign(step))
    kept = _keep_nearest(step, side, column, ordered[column], owner)
    return rows[kept], owner[kept]


def _keep_nearest(step: Array, *groups: Array | Ints | Mask) -> Ints:
    """Return the entries with the smallest step of each group, by groups: the last ones are the most significant."""
    order = np.lexsort((np.abs(step), *groups))
    group = np.stack(groups, axis=1)[order]
    first = np.append(True, (group[1:] != group[:-1]).any(axis=1))
    return np.asarray(order[first])


def _find_next_value(
    location: ParameterLocation, codes: Codes, changeable: Ints, sign: int
) -> Neighbours:
    """Return for each row the factor's row with the first feasible value in one direction.

    Blocks of growing length are searched.
    """
    factor = location.factor
    listed = location.used_codes()
    count = int(location.parameter.cardinality) if listed is None else len(listed)
    own = codes[changeable, location.columns.start]
    if listed is None:
        first = np.floor(own) + (sign > 0)
    else:
        first = np.searchsorted(listed, own, side="left" if sign < 0 else "right")
    position = first.astype(np.int64) - (sign < 0)
    parts = []
    length, reached = 4, 0
    while len(changeable) and reached < (FAR if listed is None else count):
        index = position[:, None] + sign * np.arange(length)
        row, column = np.nonzero((index >= 0) & (index < count))
        index = index[row, column]
        value = (index.astype(np.float64) if listed is None else listed[index])[:, None]
        tried = replace_columns(codes[:, factor.columns], changeable[row], location.inside, value)
        good = factor.contains(tried)
        hit, first_hit = np.unique(row[good], return_index=True)
        parts.append((tried[good][first_hit], changeable[hit]))
        reached += length
        position = np.delete(position, hit) + sign * length
        changeable = np.delete(changeable, hit)
        length = min(4 * length, max(4, _CANDIDATES // max(1, len(changeable))))
    return join_neighbours(parts, len(factor.columns))


# Conditional parameters ---------------------------------------------------------------------------------------------
#
# Single changes in spaces with conditional parameters: a change of one parameter may switch others on or off.
#
# A parameter that is switched off gets its resting value, as all inactive ones have. One that is switched on keeps this
# value, its default or the middle of its scale; if no constraint allows that, random values are tried.


Select = Callable[[ParameterLocation, Codes, Codes, Ints], Mask]
"""Returns which feasible rows with another value of a parameter are neighbours; takes the given rows, the changed ones
and their owners."""


def change_and_switch(
    space: Space, codes: Codes, rng: Rng, propose: Propose, select: Select | None = None
) -> Neighbours:
    """Return the feasible rows in which one active parameter has another value, and those that it switches follow.

    Args:
        space: The space.
        codes: Rows of legal codes, ``(n, w)``; they may be infeasible.
        rng: Random numbers.
        propose: Returns values of one parameter.
        select: Which of the feasible changes of one parameter are returned; None means all.
    """
    resting = space.activity.at_rest(codes)
    activity = space.activity.masks(resting)
    parts = []
    for location in locate_parameters(space):
        proposed, owner = propose(location, resting, rng)
        new = (proposed != resting[owner, location.columns]).any(axis=1)
        if location.name in activity:
            new &= activity[location.name][owner]
        owner = owner[new]
        columns = np.arange(space.width)[location.columns]
        changed = replace_columns(resting, owner, columns, proposed[new])
        rows = _switch(space, activity, owner, changed, rng)
        kept = space.feasible.contains(rows)
        rows, owner = rows[kept], owner[kept]
        if select is not None and len(rows):
            chosen = select(location, resting, rows, owner)
            rows, owner = rows[chosen], owner[chosen]
        parts.append((rows, owner))
    rows, owner = join_neighbours(parts, space.width)
    first = find_first_rows(np.column_stack([owner, rows])) if len(rows) else owner
    return sort_by_owner(rows[first], owner[first])


def _switch(space: Space, before: dict[str, Mask], owner: Ints, changed: Codes, rng: Rng) -> Codes:
    """Return changed rows, ``(m, w)``, with the inactive parameters at rest and the new ones at a feasible value."""
    rows = space.activity.at_rest(changed)
    now = space.activity.masks(rows)
    switched = {name: now[name] & ~before[name][owner] for name in now}
    on = np.logical_or.reduce(list(switched.values()))
    wrong = np.flatnonzero(on)
    for _ in range(DRAWS):
        wrong = wrong[~space.feasible.contains(rows[wrong])]
        if not len(wrong):
            break
        drawn = rows[wrong]
        for name, mask in switched.items():
            new = np.flatnonzero(mask[wrong])
            values = space.parameters[name].sample_uniform(len(new), rng)
            drawn[new, space.columns[name]] = values
        rows[wrong] = space.activity.at_rest(drawn)
    return rows


def nearest_values(location: ParameterLocation, codes: Codes, rows: Codes, owner: Ints) -> Mask:
    """Return which changes of an ordered parameter are the nearest feasible ones below or above its own value."""
    if not location.is_ordered:
        return np.ones(len(rows), dtype=np.bool_)
    column = location.columns.start
    step = rows[:, column] - codes[owner, column]
    kept = np.zeros(len(rows), dtype=np.bool_)
    kept[_keep_nearest(step, step > 0, owner)] = True
    return kept
