"""Single changes in spaces with conditional parameters: a change of one parameter may switch others on or off.

A parameter that is switched off gets its resting value, as all inactive ones have. One that is switched on keeps this
value, its default or the middle of its scale; if no constraint allows that, random values are tried.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.spaces.feasible.ragged import replace_columns, sort_by_owner
from baco_like.spaces.neighbourhoods.proposals import (
    DRAWS,
    Neighbours,
    ParameterLocation,
    join_neighbours,
    locate_parameters,
)
from baco_like.spaces.rows import find_first_rows
from baco_like.spaces.space import Space

Select = Callable[[ParameterLocation, Codes, Codes, Ints], Mask]
"""Returns which feasible rows with another value of a parameter are neighbours; takes the given rows, the changed ones
and their owners."""

Propose = Callable[[ParameterLocation, Codes, Rng], Neighbours]


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
    order = np.lexsort((np.abs(step), step > 0, owner))
    group = np.column_stack([owner, step > 0])[order]
    first = np.append(True, (group[1:] != group[:-1]).any(axis=1))
    kept = np.zeros(len(rows), dtype=np.bool_)
    kept[order[first]] = True
    return kept
