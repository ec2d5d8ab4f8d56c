"""Feasible rows in which one parameter has another value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.spaces.feasible.feasible_set import Factor
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.feasible.ragged import replace_columns, sort_by_owner
from baco_like.spaces.neighbourhoods.proposals import (
    Neighbours,
    ParameterLocation,
    Propose,
    count_proposals,
    list_used_codes,
    locate_parameters,
    propose_values,
)
from baco_like.spaces.space import Space

FAR = 2**12
"""Values of an integer too wide to list that are searched for its next feasible value."""

_FEW = 1024
"""Values of all parameters up to which all single changes are computed to find the nearest ones."""

_CANDIDATES = 2**18
"""Rows tested at a time."""


def change_by_proposals(space: Space, codes: Codes, propose: Propose) -> Neighbours:
    """Return the feasible rows that differ in one parameter, which takes one of the proposed values."""
    rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
    for location, changeable in _changeable_rows(space, codes):
        factor = space.feasible.factors[location.factor]
        step = max(1, _CANDIDATES // count_proposals(space, location))
        for begin in range(0, len(changeable), step):
            block = changeable[begin : begin + step]
            proposed, owner = propose(location, codes[block])
            kept, owner = _keep_feasible(factor, location, codes, proposed, block[owner])
            columns = np.arange(location.columns.start, location.columns.stop)
            rows.append(replace_columns(codes, owner, columns, kept))
            owners.append(owner)
    return sort_by_owner(np.concatenate(rows), np.concatenate(owners))


def change_to_any_value(space: Space, codes: Codes, rng: Rng, limit: int | None) -> Neighbours:
    """Return the feasible rows that differ in one parameter, at most ``limit`` random values of each.

    The same as `change_by_proposals` with `propose_values`, but a tree is walked once for all of its parameters.
    """
    factors = space.feasible.factors
    by_factor: list[list[ParameterLocation]] = [[] for _ in factors]
    for location in locate_parameters(space):
        by_factor[location.factor].append(location)
    tried = sum(count_proposals(space, one) for members in by_factor for one in members)
    step = max(1, _CANDIDATES // max(1, tried))
    rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
    for begin in range(0, len(codes), step):
        block = codes[begin : begin + step]
        parts = [
            _change_factor(space, factor, members, block, rng, limit)
            for factor, members in zip(factors, by_factor, strict=True)
        ]
        near, owner = _complete_rows(factors, block, parts)
        rows.append(near)
        owners.append(owner + begin)
    return np.concatenate(rows), np.concatenate(owners)


def _complete_rows(
    factors: Sequence[Factor], codes: Codes, parts: Sequence[tuple[Codes, Ints, Mask]]
) -> Neighbours:
    """Return whole rows of the parts that `_change_factor` returned, if all other factors are feasible."""
    infeasible = [~good for _, _, good in parts]
    total = np.sum(infeasible, axis=0)
    if total.any():
        kept = [(total == own)[owner] for (_, owner, _), own in zip(parts, infeasible, strict=True)]
        parts = [
            (part[fit], owner[fit], good)
            for (part, owner, good), fit in zip(parts, kept, strict=True)
        ]
    owner = np.concatenate([owner for _, owner, _ in parts])
    order = np.argsort(owner, kind="stable")
    rows = codes[owner]
    begin = 0
    for factor, (part, own, _) in zip(factors, parts, strict=True):
        rows[begin : begin + len(own), factor.columns] = part
        begin += len(own)
    return rows[order], owner[order]


def _change_factor(
    space: Space,
    factor: Factor,
    members: Sequence[ParameterLocation],
    codes: Codes,
    rng: Rng,
    limit: int | None,
) -> tuple[Codes, Ints, Mask]:
    """Return a factor's rows with one change, their owners, and which of the given rows it allows."""
    own = codes[:, factor.columns]
    if isinstance(factor, TreeGroup) and len(factor.domains) > 1:
        return factor.one_changes(own, rng, limit)
    rows, owners = [own[:0]], [np.empty(0, dtype=np.int64)]
    for location in members:
        proposed, owner = propose_values(space, location, codes, rng, limit)
        kept, owner = _keep_feasible(factor, location, codes, proposed, owner)
        rows.append(replace_columns(own, owner, location.inside, kept))
        owners.append(owner)
    return np.concatenate(rows), np.concatenate(owners), factor.contains(own)


def change_to_next_values(space: Space, codes: Codes) -> Neighbours:
    """Return the rows in which one ordered parameter has the nearest value below or above that is feasible."""
    rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
    for location, changeable in _changeable_rows(space, codes):
        if location.is_ordered:
            for sign in (-1, 1):
                value, owner = _find_next_value(space, location, codes, changeable, sign)
                rows.append(
                    replace_columns(codes, owner, np.array([location.columns.start]), value)
                )
                owners.append(owner)
    return sort_by_owner(np.concatenate(rows), np.concatenate(owners))


def has_few_values(space: Space) -> bool:
    """Whether the values of all parameters are listed and at most 1,024 altogether; permutations are not listed."""
    total = 0
    for location in locate_parameters(space):
        codes = list_used_codes(space, location) if location.parameter.width == 1 else None
        if codes is None:
            return False
        total += len(codes)
    return total <= _FEW


def keep_nearest_values(space: Space, codes: Codes, rows: Codes, owner: Ints) -> Neighbours:
    """Return the single changes in which an ordered parameter has the nearest value below or above its own.

    Changes of other parameters are kept. With `has_few_values` it is faster than `change_to_next_values`, because a
    tree is walked once.
    """
    if not len(rows):
        return rows, owner
    ordered = np.zeros(space.width, dtype=np.bool_)
    ordered[[one.columns.start for one in locate_parameters(space) if one.is_ordered]] = True
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


def _changeable_rows(space: Space, codes: Codes) -> list[tuple[ParameterLocation, Ints]]:
    """Return each parameter with the rows that a change of its factor alone can make feasible."""
    factors = space.feasible.factors
    infeasible = [~factor.contains(codes[:, factor.columns]) for factor in factors]
    total = np.sum(infeasible, axis=0)
    return [
        (one, np.flatnonzero(total == infeasible[one.factor])) for one in locate_parameters(space)
    ]


def _keep_feasible(
    factor: Factor, location: ParameterLocation, codes: Codes, proposed: Codes, owner: Ints
) -> Neighbours:
    """Return the proposed values that differ from the row's own and make its factor feasible."""
    new = (proposed != codes[owner, location.columns]).any(axis=1)
    proposed, owner = proposed[new], owner[new]
    good = factor.contains(
        replace_columns(codes[:, factor.columns], owner, location.inside, proposed)
    )
    return proposed[good], owner[good]


def _find_next_value(
    space: Space, location: ParameterLocation, codes: Codes, changeable: Ints, sign: int
) -> Neighbours:
    """Return for each row the first feasible value in one direction, searched in blocks of growing length."""
    factor = space.feasible.factors[location.factor]
    listed = list_used_codes(space, location)
    count = int(location.parameter.cardinality) if listed is None else len(listed)
    own = codes[changeable, location.columns.start]
    side: Literal["left", "right"] = "left" if sign < 0 else "right"
    first = (
        np.floor(own) + (sign > 0) if listed is None else np.searchsorted(listed, own, side=side)
    )
    position = first.astype(np.int64) - (sign < 0)
    values, owners = [np.empty((0, 1))], [np.empty(0, dtype=np.int64)]
    length, reached = 4, 0
    while len(changeable) and reached < (FAR if listed is None else count):
        index = position[:, None] + sign * np.arange(length)
        row, column = np.nonzero((index >= 0) & (index < count))
        index = index[row, column]
        value = (index.astype(np.float64) if listed is None else listed[index])[:, None]
        tried = replace_columns(codes[:, factor.columns], changeable[row], location.inside, value)
        good = factor.contains(tried)
        hit, first_hit = np.unique(row[good], return_index=True)
        values.append(value[good][first_hit])
        owners.append(changeable[hit])
        left = np.ones(len(changeable), dtype=np.bool_)
        left[hit] = False
        reached += length
        position = position[left] + sign * length
        changeable = changeable[left]
        length = min(4 * length, max(4, _CANDIDATES // max(1, len(changeable))))
    return np.concatenate(values), np.concatenate(owners)
