"""Neighbours that differ from a row in one parameter (Schoonhoven et al. 2022, section III-B), for many rows at once.

Every function returns feasible rows and, for each, the index of the row that it is a neighbour of (its owner),
increasing. A row is never its own neighbour. The given rows may violate constraints; their neighbours are feasible,
so the same functions repair rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.spaces.feasible.factor import Factor
from baco_like.spaces.feasible.free import Box
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.feasible.ragged import replace_columns, sort_by_owner
from baco_like.spaces.neighbourhoods import proposals
from baco_like.spaces.neighbourhoods.proposals import Neighbours, ParameterLocation, join_neighbours
from baco_like.spaces.neighbourhoods.switching import change_and_switch, nearest_values
from baco_like.spaces.space import Space

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
        propose = partial(proposals.propose_values, limit=limit)
        return change_and_switch(space, codes, rng, propose)
    groups = proposals.group_by_factor(space)
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
        locations = proposals.locate_parameters(space)
        used = [location.used_codes() for location in locations]
        self._locations, self._activity = locations, space.activity
        self._listed = np.array([codes is not None for codes in used])
        tables = [np.empty(0) if codes is None else codes for codes in used]
        self._sizes = np.array([len(table) for table in tables])
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._codes = np.concatenate([np.empty(0), *tables])
        self._columns = np.array([location.columns.start for location in locations])
        unlisted = {
            loc.factor for loc, known in zip(locations, self._listed, strict=True) if not known
        }
        self._checked = [
            factor
            for factor in space.feasible.factors
            if not isinstance(factor, Box) or factor in unlisted
        ]

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
        values, own = proposals.propose_values(location, rows[place], rng, 1)
        rows[place[own, None], np.arange(rows.shape[1])[location.columns]] = values


def _change_factor(
    factor: Factor, members: list[ParameterLocation], codes: Codes, rng: Rng, limit: int | None
) -> tuple[Codes, Ints, Mask]:
    """Return a factor's rows with one change, their owners, and which of the given rows it allows."""
    own = codes[:, factor.columns]
    if (
        isinstance(factor, TreeGroup) and factor.chooses_values and len(factor.domains) > 1
    ):  # walked once for all
        return factor.one_changes(own, rng, limit)
    changed = [
        _keep_feasible(p, codes, *proposals.propose_values(p, codes, rng, limit)) for p in members
    ]
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
    locations = proposals.locate_parameters(space)
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
            proposed, owner = proposals.propose_unordered_steps(location, codes[block], rng)
            rows, owner = _keep_feasible(location, codes, proposed, block[owner])
            unordered.append((replace_columns(codes, owner, factor.columns, rows), owner))
    return sort_by_owner(*join_neighbours([*unordered, *ordered], space.width))


def _propose_adjacent(location: ParameterLocation, codes: Codes, rng: Rng) -> Neighbours:
    """Propose every value of an ordered parameter, of which the nearest are kept; else `propose_unordered_steps`."""
    if location.is_ordered and location.used_codes() is not None:
        return proposals.propose_values(location, codes, rng)
    if location.is_ordered:
        return proposals.propose_steps(location, codes, rng)
    return proposals.propose_unordered_steps(location, codes, rng)


def _keep_nearest_values(space: Space, codes: Codes, rows: Codes, owner: Ints) -> Neighbours:
    """Return the single changes in which an ordered parameter has the nearest value below or above its own.

    Changes of other parameters are kept. If there are few values it is faster than to search for the next ones,
    because a tree is walked once.
    """
    if not len(rows):
        return rows, owner
    ordered = np.zeros(space.width, dtype=np.bool_)
    ordered[[p.columns.start for p in proposals.locate_parameters(space) if p.is_ordered]] = True
    column = (rows != codes[owner]).argmax(axis=1)
    entry = np.arange(len(rows))
    value = rows[entry, column]
    step = value - codes[owner, column]
    # Each value of an unordered parameter is a separate group, so all of them are kept.
    side = np.where(~ordered[column], value, np.sign(step))
    order = np.lexsort((np.abs(step), side, column, ordered[column], owner))
    group = np.stack([owner, column, side], axis=1)[order]
    kept = order[np.append(True, (group[1:] != group[:-1]).any(axis=1))]
    return rows[kept], owner[kept]


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
