"""Initial designs: distinct feasible rows that are not excluded.

All functions have the form ``design(space, n, rng, taken) -> (<= n, w)``; they return fewer than n rows only if the
space has no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.parameters.protocol import ParameterKind, is_sequence
from baco_like.spaces.neighbourhoods import ParameterLocation, hamming, locate_parameters
from baco_like.spaces.rows import drop_duplicates
from baco_like.spaces.space import Space

Taken = Callable[[Codes], Mask]
"""Returns which rows are excluded: observed or pending."""


def exclude_nothing(codes: Codes) -> Mask:
    """Exclude no row, ``(n, w)`` -> ``(n,)``."""
    return np.zeros(len(codes), dtype=np.bool_)


Draw = Callable[[int, Rng], Codes]
"""Returns n random feasible rows, with repetition."""

_LISTED = 2**20
"""A feasible set of at most this size is listed when random draws find nothing new."""

_FRUITLESS = 20
"""Batches of draws without a new row after which the set is listed. A set that cannot be listed counts as exhausted
after 20 draws for each row met: 20 N draws miss one of N rows with a probability of 2e-9."""

_MOST_DRAWN = 2**22
"""Draws without a new row after which a set that cannot be listed counts as exhausted in any case."""

_POOL = 50
"""Candidates of a maximin design, or of a prior that few feasible rows follow, for each requested row."""

_DRAWN = 2**16
"""Draws from the priors after which feasible rows are weighted instead."""

_BATCH = 2**14

_SEARCHED = 2**14
"""Feasible rows among which the middle of a space is searched; fewer if few draws are feasible."""

_STEPS = 4
"""Number of steps between the ends of a real when distances from the middle are compared."""

_SWITCHED = 64
"""Rows whose changes are searched for new branches, each with at most so many values of a parameter."""

_LEAST_CHANGES = 16

_VAGUE = 0.1
"""Share of a space that is equally near to the middle, from which the middle is not informative."""


def uniform(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return rows drawn uniformly without replacement; the lengths of sequences are uniform."""
    return _without_replacement(space, n, rng, taken, space.feasible.spread)


def biased_walk(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return rows drawn by walks from root to leaf (the "CoT sampling" that BaCO compares with uniform draws)."""
    return _without_replacement(space, n, rng, taken, space.feasible.walk)


def latin_hypercube(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return a Latin hypercube over the values that are ever feasible; infeasible rows are replaced by random ones.

    This is the design of Willemsen et al. 2021 (section III-E). The n rows take one value from each of n equal parts
    of every parameter's values, or of its scale for reals and integers with ``log``; permutations are drawn
    independently. Sequences have the longer half of their lengths, from equal parts: on pipelines of compiler passes
    short ones are far worse, because a pass that does not help is mostly inert.
    """
    parts = np.array([rng.permutation(n) for _ in space.active]).reshape(len(space.active), n).T
    cube = (parts + rng.random(parts.shape)) / n
    return _complete(space, n, rng, taken, _rows_at(space, cube, rng))


def from_prior(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return rows drawn from the parameters' priors, as far as they satisfy the constraints.

    Parameters without a prior are uniform on their scale. If too few of many draws are feasible, the rest is chosen
    from uniform rows, in proportion to their prior density.
    """
    rows = np.empty((0, space.width))
    drawn, batch = 0, 4 * n + 64
    while len(rows) < n and drawn < _DRAWN:
        parts = [parameter.sample(batch, rng) for parameter in space.parameters.values()]
        some = space.activity.at_rest(np.concatenate(parts, axis=1))
        some = some[space.feasible.contains(some)]
        rows = drop_duplicates(np.concatenate([rows, some[~taken(some)]]))
        drawn += batch
        batch = min(4 * batch, _BATCH)
    if len(rows) >= n:
        return rows[:n]
    rest = n - len(rows)
    pool = uniform(space, _POOL * rest, rng, lambda codes: taken(codes) | _among(codes, rows))
    # The largest of independent Gumbel variables plus log weights: a weighted draw without replacement.
    keys = space.log_density(pool) + rng.gumbel(size=len(pool))
    return np.concatenate([rows, pool[np.argsort(-keys)[:rest]]])


def sobol(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return the feasible ones among the first points of a scrambled Sobol sequence, completed by random rows."""
    from scipy.stats import qmc

    points = 2 ** int(np.ceil(np.log2(max(4 * n, 2))))
    sequence = qmc.Sobol(max(1, len(space.active)), scramble=True, seed=rng)
    cube = sequence.random(points)[:, : len(space.active)]
    return _complete(space, n, rng, taken, _rows_at(space, cube, rng))


def maximin(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return uniform rows, each chosen as far as possible from the earlier ones in feature space."""
    pool = uniform(space, _POOL * n, rng, taken)
    if len(pool) <= n:
        return pool
    features = space.features(pool)
    chosen = [0]
    nearest = np.full(len(pool), np.inf)
    while len(chosen) < n:
        nearest = np.minimum(nearest, ((features - features[chosen[-1]]) ** 2).sum(axis=1))
        nearest[chosen] = -1.0
        chosen.append(int(np.argmax(nearest)))
    return pool[chosen]


def middle(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return the feasible rows that are nearest to the middle of every parameter's scale, the nearest first.

    The extremes of block sizes and unroll factors are seldom good, so a model learns most from the middle. The scales
    are those of `spaces.derived_features`; in a large space many random rows are searched, and ties are broken at
    random.
    """
    rows, off = _by_distance(space, rng, taken)
    return _fill(space, n, rng, taken, rows[np.argsort(off, kind="stable")])


def distinct_middle(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return `middle` if few configurations are nearest to the middle, else uniform rows.

    Flags, unordered choices, permutations and sequences have no middle. If most parameters are of these kinds, a tenth
    of the space or more is equally near, and equal in the few ordered parameters.
    """
    rows, off = _by_distance(space, rng, taken)
    if len(rows) and (off == off.min()).mean() >= _VAGUE:
        return uniform(space, n, rng, taken)
    return _fill(space, n, rng, taken, rows[np.argsort(off, kind="stable")])


def has_distinct_middle(space: Space, rng: Rng) -> bool:
    """Return whether few configurations are nearest to the middle, so that `middle` is a choice and not chance."""
    _, off = _by_distance(space, rng, exclude_nothing)
    return bool((off == off.min()).mean() < _VAGUE)


def _by_distance(space: Space, rng: Rng, taken: Taken) -> tuple[Codes, Array]:
    """Return feasible rows that are not taken, in random order, and their squared distances from the middle."""
    rows = _searched_rows(space, rng)
    rows = rng.permutation(rows[~taken(rows)])
    return rows, _off_middle(space, rows)


def _searched_rows(space: Space, rng: Rng) -> Codes:
    """Return all feasible rows if there are few, else many random ones."""
    count = space.feasible.count
    if count is not None and count <= _SEARCHED:
        return space.feasible.listed
    return drop_duplicates(space.feasible.spread(space.affordable(_SEARCHED), rng))


def _off_middle(space: Space, rows: Codes) -> Array:
    """Return the squared distances from the middle, ``(n,)``."""
    features, owner = space.derived_features.own_features(rows), space.derived_features.own_owner
    # An inactive parameter is not off the middle.
    for name, active in space.activity.masks(rows).items():
        if name in space.active:
            features[np.ix_(~active, owner == space.active.index(name))] = 0.5
    kinds = [space.parameters[name].kind for name in space.active]
    sequence = np.array([kind is ParameterKind.SEQUENCE for kind in kinds])[owner]
    features = np.where(sequence, 0.5, features)  # they have no middle
    real = np.array([kind is ParameterKind.CONTINUOUS for kind in kinds])[owner]
    # A real counts as one of a few values: otherwise all points near the middle would be the same.
    features = np.where(real, (features * _STEPS).round() / _STEPS, features)
    off: Array = ((features - 0.5) ** 2).sum(axis=1)
    return np.asarray(off.round(9))


def changes_of_default(space: Space, n: int, rng: Rng, taken: Taken) -> Codes:
    """Return changes of the default configuration: each parameter is changed in one of the rows.

    A change that a constraint does not allow is left out. Without a default configuration the rows are drawn uniformly.
    """
    start = space.default_config
    if start is None:
        return uniform(space, n, rng, taken)
    rows = np.repeat(space.encode([start]), n, axis=0)
    locations = locate_parameters(space)
    order = rng.permutation(len(locations))
    for begin in range(0, len(order), n):
        changed = rows.copy()
        for row, i in enumerate(order[begin : begin + n]):
            own = rows[row, locations[i].columns]
            codes = locations[i].choices()
            if codes is None:
                codes = space.feasible.spread(4, rng)[:, locations[i].columns]
            other = codes[(codes != own).any(axis=1)]
            if len(other):
                changed[row, locations[i].columns] = other[rng.integers(len(other))]
        changed = space.activity.at_rest(changed)
        allowed = space.feasible.contains(changed)
        rows[allowed] = changed[allowed]
    return _complete(space, n, rng, taken, rows)


def middle_of_branch(space: Space, seen: Codes, rng: Rng, taken: Taken) -> Codes:
    """Return the row nearest to the middle of those that enter the most new branches, ``(1, w)``; none if all are seen.

    A branch is a value of an unordered parameter that a condition reads, or a conditional parameter that is active, or
    inactive. Without a trial in every branch, a model stays for a long time in those that it knows.

    Args:
        space: A space with conditional parameters.
        seen: Rows that were evaluated or are pending, ``(n, w)``.
        rng: Random numbers.
        taken: Rows that are not returned.
    """
    rows = _searched_rows(space, rng)
    # Draws seldom enter a branch of few configurations; a change of what a condition reads does.
    some = rows[rng.permutation(len(rows))[:_SWITCHED]]
    changed, _ = hamming(space, some, rng, limit=_LEAST_CHANGES)
    rows = drop_duplicates(np.concatenate([rows, changed]))
    rows = rng.permutation(rows[~taken(rows)])
    new = (_branches(space, rows) & ~_branches(space, seen).any(axis=0)).sum(axis=1)
    if not new.max(initial=0):
        return rows[:0]
    rows = rows[new == new.max()]
    return np.asarray(rows[[int(np.argmin(_off_middle(space, rows)))]])


def _branches(space: Space, rows: Codes) -> Mask:
    """Return which branches each row is in, ``(n, w)`` -> ``(n, b)``."""
    masks = space.activity.masks(rows)
    columns = [mask == state for mask in masks.values() for state in (True, False)]
    for name in deciding_choices(space):
        codes, active = rows[:, space.columns[name].start], space.activity.where(name, rows)
        values = range(int(space.parameters[name].cardinality))
        columns += [active & (codes == code) for code in values]
    return np.stack(columns, axis=1)


def _complete(space: Space, n: int, rng: Rng, taken: Taken, rows: Codes) -> Codes:
    """Return the first n feasible and free rows; missing ones are drawn uniformly."""
    rows = drop_duplicates(rows[space.feasible.contains(rows)])
    return _fill(space, n, rng, taken, rows[~taken(rows)])


def _fill(space: Space, n: int, rng: Rng, taken: Taken, rows: Codes) -> Codes:
    """Return the first n rows; missing ones are drawn uniformly."""
    rows = rows[:n]
    rest = uniform(space, n - len(rows), rng, lambda codes: taken(codes) | _among(codes, rows))
    return np.concatenate([rows, rest])


def _without_replacement(space: Space, n: int, rng: Rng, taken: Taken, draw: Draw) -> Codes:
    rows = np.empty((0, space.width))
    fruitless = 0
    while len(rows) < n:
        drawn = draw(n - len(rows) + 8, rng)
        drawn = drawn[~taken(drawn)]
        before = len(rows)
        rows = drop_duplicates(np.concatenate([rows, drawn]))
        fruitless = 0 if len(rows) > before else fruitless + 1
        if fruitless == _FRUITLESS:
            if space.feasible.count is not None and space.feasible.count <= _LISTED:
                return _topped_up(space, n, rng, taken, rows)
            new = _one_more(space, rng, taken, rows, draw)
            if not len(new):
                return rows
            rows, fruitless = np.concatenate([rows, new]), 0
    return rows[:n]


def _one_more(space: Space, rng: Rng, taken: Taken, rows: Codes, draw: Draw) -> Codes:
    """Return a new row that is not excluded, or no row after enough draws to meet all rows."""
    met, drawn = rows, 0
    while drawn < min(_FRUITLESS * max(len(met), 8), _MOST_DRAWN):
        some = draw(max(64, len(met)), rng)
        drawn += len(some)
        met = drop_duplicates(np.concatenate([met, some]))
        free = some[~taken(some) & ~_among(some, rows)]
        if len(free):
            return free[:1]
    return rows[:0]


def _topped_up(space: Space, n: int, rng: Rng, taken: Taken, rows: Codes) -> Codes:
    """Return the rows and the remaining free rows, by listing the feasible set."""
    batches = space.feasible.iterate()
    left = [some[~taken(some) & ~_among(some, rows)] for some in batches]
    others = np.concatenate([rows[:0], *left])
    return np.concatenate([rows, others[rng.permutation(len(others))]])[:n]


def _among(codes: Codes, rows: Codes) -> Mask:
    """Whether each row of codes is one of the rows."""
    if len(rows) == 0:
        return np.zeros(len(codes), dtype=np.bool_)
    both = np.concatenate([rows, codes])
    _, group = np.unique(both, axis=0, return_inverse=True)
    return np.isin(group[len(rows) :], group[: len(rows)])


def _rows_at(space: Space, cube: Array, rng: Rng) -> Codes:
    """Return rows (feasible or not) for points of the unit cube, one axis for each active parameter."""
    rows = np.tile(space.feasible.sample(1, rng), (len(cube), 1))  # for the constants
    for axis, location in enumerate(locate_parameters(space)):
        rows[:, location.columns] = _values_at(location, cube[:, axis], rng)
    return space.activity.at_rest(rows)


def _values_at(location: ParameterLocation, shares: Array, rng: Rng) -> Codes:
    """Return codes of one parameter at these shares of its values, ``(n,)`` -> ``(n, width)``."""
    parameter = location.parameter
    if is_sequence(parameter) and parameter.ordered:
        return parameter.sample_long(shares, rng)
    if parameter.width > 1:
        return parameter.sample(len(shares), rng)
    codes = location.used_codes()
    if codes is None:
        return parameter.from_unit(shares[:, None])
    lengths = parameter.interval_lengths(codes[:, None])
    if lengths is None:
        chosen = (shares * len(codes)).astype(np.int64)
    else:
        ends = np.cumsum(lengths)
        chosen = np.searchsorted(ends, shares * ends[-1], side="right")
    return np.asarray(codes[np.minimum(chosen, len(codes) - 1)][:, None])


# Branches -----------------------------------------------------------------------------------------------------------
#
# The branches of a space with conditional parameters: sets of configurations that agree in what conditions read.


MOST_VALUES = 16
"""Most values of an unordered parameter of which each makes a branch."""


def deciding_choices(space: Space) -> tuple[str, ...]:
    """Return the names of the unordered parameters that conditions read, without those of very many values."""
    return tuple(
        name
        for name in space.activity.deciding
        if space.parameters[name].kind is ParameterKind.UNORDERED
        and space.parameters[name].width == 1
        and space.parameters[name].cardinality <= MOST_VALUES
    )


@dataclass(frozen=True, eq=False)
class Branch:
    """Configurations that have the same choices, and the same conditional parameters where numbers decide.

    Attributes:
        space: The space.
        choices: The codes of unordered parameters that conditions read. A configuration without one of them belongs to
            the branch, except if it is the other choice.
        activity: For each conditional parameter that a number decides on, whether it is active.
        other_choice: The choice in which the branch differs from the one beside it, or None.
        other_activity: The parameter of which only one of the two is active, or None.
    """

    space: Space
    choices: Mapping[str, float]
    activity: Mapping[str, bool]
    other_choice: str | None = None
    other_activity: str | None = None

    def contains(self, codes: Codes) -> Mask:
        """Return which rows belong to the branch, ``(n, w)`` -> ``(n,)``."""
        inside = np.ones(len(codes), dtype=np.bool_)
        masks = self.space.activity.masks(codes)
        for name, code in self.choices.items():
            has_value = codes[:, self.space.columns[name].start] == code
            active = masks.get(name)
            if active is not None:
                is_other = name == self.other_choice
                has_value = has_value & active if is_other else has_value | ~active
            inside &= has_value
        for name, is_active in self.activity.items():
            # A change of one number often switches several parameters: only the one in question counts.
            if self.other_activity in (None, name):
                inside &= masks[name] == is_active
        return inside

    @cached_property
    def text(self) -> str:
        """The step that leads into the branch, for tags; empty if there is none."""
        if self.other_activity is not None:
            is_active = self.activity[self.other_activity]
            return f"{self.other_activity} is {'active' if is_active else 'inactive'}"
        if self.other_choice is None:
            return ""
        code = np.array([[self.choices[self.other_choice]]])
        (value,) = self.space.parameters[self.other_choice].decode(code)
        return f"{self.other_choice} = {value!r}"

    def neighbours(self) -> list[Branch]:
        """Return the branches that differ in one choice, or in one conditional parameter that a number decides on."""
        found = []
        for name, code in self.choices.items():
            values = range(int(self.space.parameters[name].cardinality))
            found += [
                replace(self, choices={**self.choices, name: float(value)}, other_choice=name)
                for value in values
                if value != code
            ]
        for name, active in self.activity.items():
            flipped = {**self.activity, name: not active}
            found.append(replace(self, activity=flipped, other_activity=name))
        return found


def enter(branch: Branch, row: Codes, rng: Rng) -> Codes:
    """Return the feasible rows of a branch that differ least from a row beside it, ``(w,)`` -> ``(n, w)``.

    They change the one parameter that leads into the branch. A parameter that becomes active has its default or the
    middle of its scale, as far as that is feasible. The rows are in random order, and there may be none.
    """
    rows, _ = hamming(branch.space, row[None], rng, limit=MOST_VALUES)
    return rng.permutation(rows[branch.contains(rows)])


def branch_of(space: Space, row: Codes) -> Branch:
    """Return the branch of a row, ``(w,)``."""
    names = deciding_choices(space)
    masks = {name: bool(mask[0]) for name, mask in space.activity.masks(row[None]).items()}
    choices = {
        name: float(row[space.columns[name].start]) for name in names if masks.get(name, True)
    }
    activity = {
        name: masks[name]
        for name, condition in space.conditions.expressions.items()
        if not set(condition.parameters) <= set(names)
    }
    return Branch(space, choices, activity)
