"""The goal of a run with several tasks, and few configurations that cover all of them.

A *slowdown* is the cost of a configuration on a task over the best cost known there; this module computes with its
logarithms. A set of configurations has, on each task, the slowdown of its best member.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from baco_like._tables import Count, Shape, check_values
from baco_like._typing import Array

Aggregate = Literal["geometric_mean", "mean", "worst"]
"""How the slowdowns of all tasks become one number."""

_PAIRS = 400
"""Up to this number of configurations, the best two are found by comparing all pairs."""


@dataclass(frozen=True)
class Cover:
    """The goal of a run with tasks: a few configurations that together are good on all tasks.

    ``Cover(1)`` looks for one configuration for all tasks, ``Cover(2)`` for two. Without a count, every task may have
    its own, which is the goal ``each``.

    Attributes:
        count: Number of configurations, or None.
        within: Instead of a count: the fewest configurations whose aggregated slowdown is at most this, such as 1.1.
        aggregate: ``geometric_mean``, ``mean`` or ``worst`` of the slowdowns of the tasks.

    Raises:
        ValueError: A value is wrong, or both ``count`` and ``within`` are given.
    """

    count: Count | None = None
    within: Annotated[float | None, Shape(type="number", minimum=1)] = None
    aggregate: Aggregate = "geometric_mean"

    def __post_init__(self) -> None:
        check_values(self)
        if self.within is not None and self.count is not None:
            raise ValueError(f"within = {self.within}: leave it or the count out")

    @property
    def is_each(self) -> bool:
        """Whether every task may have its own configuration."""
        return self.count is None and self.within is None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set; `read_goal` is the inverse."""
        fields = {"count": self.count, "within": self.within, "aggregate": self.aggregate}
        return {name: value for name, value in fields.items() if value is not None}


Goal: TypeAlias = Literal["single", "each"] | Cover | Mapping[str, Any]
"""A goal: ``single`` is ``Cover(1)``, ``each`` is ``Cover()``; a mapping has the fields of `Cover`."""


def read_goal(goal: Goal | None) -> Cover:
    """Return a goal; None is ``each``.

    Raises:
        ValueError: It is not a goal.
    """
    if isinstance(goal, Cover):
        return goal
    named = {None: Cover(), "each": Cover(), "single": Cover(1)}
    if goal is None or isinstance(goal, str):
        if goal not in named:
            raise ValueError(f"goal = {goal!r:.60}: expected 'single', 'each', or Cover(2)")
        return named[goal]
    try:
        return Cover(**goal)
    except TypeError:
        raise ValueError(
            f"goal = {goal!r:.80}: expected 'single', 'each', Cover(2), or the fields of Cover"
        ) from None


def combine(logs: Array, aggregate: Aggregate) -> Array:
    """Return the logarithm of the aggregated slowdown, ``(..., t)`` -> ``(...)``."""
    if aggregate == "geometric_mean":
        return np.asarray(logs.mean(axis=-1))
    highest = logs.max(axis=-1)
    if aggregate == "worst":
        return np.asarray(highest)
    shift = np.where(np.isfinite(highest), highest, 0.0)  # the exponentials do not overflow
    with np.errstate(divide="ignore"):
        return np.asarray(shift + np.log(np.exp(logs - shift[..., None]).mean(axis=-1)))


def best_cover(logs: Array, count: int, aggregate: Aggregate) -> list[int]:
    """Return the rows of the best set of configurations, the most useful one first.

    One and two configurations are the best ones that exist (two up to `_PAIRS` rows). Larger sets are chosen greedily:
    each next one lowers the aggregate most (for a monotone submodular gain, at least 1 - 1/e of the optimum: Nemhauser,
    Wolsey and Fisher 1978), and then exchanged one at a time while that helps.

    Args:
        logs: Logarithms of slowdowns, infinite where a configuration cannot run, ``(m, t)``.
        count: Largest number of rows.
        aggregate: How the tasks are combined.
    """
    chosen: list[int] = []
    floor = np.full(logs.shape[1], np.inf)
    for _ in range(min(count, len(logs))):
        values = _orderly(np.minimum(floor, logs), aggregate)
        best = int(np.argmin(values))
        if best in chosen or (chosen and not values[best] < _orderly(floor, aggregate)):
            break
        chosen.append(best)
        floor = np.minimum(floor, logs[best])
    if count == 2 and 2 <= len(logs) <= _PAIRS:
        values = _orderly(np.minimum(logs[:, None], logs[None]), aggregate)
        i, j = np.unravel_index(int(np.argmin(values)), values.shape)
        if values[i, j] < _orderly(logs[chosen[0]], aggregate):
            chosen = sorted((int(i), int(j)), key=lambda row: float(_orderly(logs[row], aggregate)))
        return chosen
    return _exchange(logs, chosen, aggregate)


def _exchange(logs: Array, chosen: list[int], aggregate: Aggregate) -> list[int]:
    """Replace one member of a set at a time while that lowers the aggregate."""
    improved = len(chosen) > 1
    while improved:
        improved = False
        for place in range(len(chosen)):
            others = [row for i, row in enumerate(chosen) if i != place]
            floor = logs[others].min(axis=0)
            values = _orderly(np.minimum(floor, logs), aggregate)
            best = int(np.argmin(values))
            if values[best] < values[chosen[place]] - 1e-12:
                chosen[place], improved = best, True
    return chosen


def least_cover(logs: Array, within: float, aggregate: Aggregate) -> list[int]:
    """Return the rows of the smallest set whose aggregated slowdown is at most ``within``; else the best set.

    Args:
        logs: As for `best_cover`.
        within: The slowdown that is allowed, at least 1.
        aggregate: How the tasks are combined.
    """
    kept: list[int] = []
    least = np.inf
    for count in range(1, min(logs.shape) + 1):
        chosen = best_cover(logs, count, aggregate)
        value = float(_orderly(logs[chosen].min(axis=0), aggregate))
        if value < least - 1e-12:
            kept, least = chosen, value
        if combine(logs[kept].min(axis=0), aggregate) <= math.log(within) + 1e-12:
            break
    return kept


def cover_for(goal: Cover, logs: Array) -> list[int]:
    """Return the rows of the configurations that a goal asks for; see `best_cover` for ``logs``."""
    if goal.within is not None:
        return least_cover(logs, goal.within, goal.aggregate)
    if goal.count is not None:
        return best_cover(logs, goal.count, goal.aggregate)
    return list(dict.fromkeys(np.argmin(logs, axis=0).tolist()))


def _orderly(logs: Array, aggregate: Aggregate) -> Array:
    """Return an aggregate that also orders sets that lack a configuration for some tasks: fewer such tasks first.

    Of sets with the same worst slowdown, the one with the lower mean comes first.
    """
    lacking = np.isinf(logs)
    finite = np.where(lacking, 0.0, logs)
    tie = 1e-9 * finite.mean(axis=-1) if aggregate == "worst" else 0.0
    return np.asarray(combine(finite, aggregate) + tie + 1e6 * lacking.sum(axis=-1))
