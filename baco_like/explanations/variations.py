"""Random feasible configurations, and what becomes of them when one parameter changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.spaces import Space

ROWS = 2**13
"""Largest number of varied configurations; each is predicted by every drawn function."""

BASES = (48, 512)
"""Smallest and largest number of random configurations that are varied."""

VALUES = 16
"""Most values of a parameter that are tried; of a parameter with more, random ones."""


@dataclass(frozen=True, eq=False)
class Variation:
    """Feasible variants of some configurations in one parameter.

    Attributes:
        codes: The variants, ``(m, w)``; those of one configuration include itself.
        owner: The configuration of each variant, ``(m,)``.
        complete: Whether all values of the parameter were tried, instead of random ones.
    """

    codes: Codes
    owner: Ints
    complete: bool


def base_rows(space: Space, rng: Rng) -> Codes:
    """Return random feasible configurations, ``(n, w)``: all of them if there are few."""
    least, most = BASES
    changes = sum(min(VALUES, space.parameters[name].cardinality) for name in space.active)
    count = int(np.clip(ROWS / max(changes, 1), least, most))
    size = space.feasible.count
    if size is not None and size <= count:
        return space.feasible.listed
    return space.feasible.sample(count, rng)


def vary(space: Space, name: str, rows: Codes, rng: Rng) -> Variation:
    """Return the feasible variants of configurations, ``(n, w)``, in one parameter.

    Given the other parameters, the variants of a row are all feasible values, or uniform draws from them.
    """
    at = space.columns[name]
    values, complete = candidate_values(space, name, len(rows), rng)
    n, tried = len(rows), values.shape[1]
    codes = np.repeat(rows, tried, axis=0)
    codes[:, at] = values.reshape(n * tried, -1)
    codes = space.activity.at_rest(codes)
    owner = np.repeat(np.arange(n), tried)
    changed = (codes[:, at] != rows[owner][:, at]).any(axis=1)
    keep = space.feasible.contains(codes) & changed
    # Random draws of the value that a row has already would be dropped: they are repetitions of the row itself.
    if not complete:
        keep |= ~changed
    every = np.concatenate([rows, codes[keep]])
    owners = np.concatenate([np.arange(n), owner[keep]])
    order = np.argsort(owners, kind="stable")
    return Variation(every[order], owners[order], complete)


def candidate_values(space: Space, name: str, n: int, rng: Rng) -> tuple[Codes, bool]:
    """Return the codes to try for each of n rows, ``(n, tried, width)``, and whether they are all values."""
    parameter, at = space.parameters[name], space.columns[name]
    used = space.feasible.used(at.start) if parameter.width == 1 else None
    if used is not None and len(used) <= VALUES:
        return np.broadcast_to(used[None, :, None], (n, len(used), 1)), True
    if used is not None:
        return rng.choice(used, size=(n, VALUES))[:, :, None], False
    drawn = parameter.sample_uniform(n * VALUES, rng)
    return drawn.reshape(n, VALUES, -1), False


def variance_within(values: Array, variation: Variation) -> Array:
    """Return the mean variance among the variants of a configuration, ``(draws, m)`` -> ``(draws,)``.

    This is the numerator of the total effect, E[Var(y | all other parameters)].
    """
    size = np.bincount(variation.owner)
    mean = sums(values, variation.owner) / size
    squares = sums((values - mean[:, variation.owner]) ** 2, variation.owner)
    divisor = size if variation.complete else np.maximum(size - 1, 1)
    return np.asarray((squares / divisor).mean(axis=1))


def variance_between(values: Array, group: Ints) -> Array:
    """Return the variance of the means of groups, ``(draws, n)`` -> ``(draws,)``.

    This is Var(E[y | group]) for random rows, without the part that comes from the finite size of the groups: the
    estimator of the variance component of a one-way analysis of variance, at least 0.
    """
    n, groups = len(group), int(group.max()) + 1
    size = np.bincount(group)
    mean = sums(values, group) / size
    grand = values.mean(axis=1, keepdims=True)
    between = ((mean - grand) ** 2 * size).sum(axis=1)
    within = ((values - mean[:, group]) ** 2).sum(axis=1)
    chance = (groups - 1) * within / max(n - groups, 1)
    return np.asarray(np.maximum(between - chance, 0.0) / n)


def sums(values: Array, group: Ints) -> Array:
    """Return the sums of the columns of each group, ``(draws, m)`` -> ``(draws, groups)``."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
    return np.asarray(np.add.reduceat(values[:, order], starts, axis=1))
