"""Orders to optimize: tours with rules of precedence, quadratic assignment, and schedules of one machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from baco_like._typing import Array, Ints
from baco_like.benchmarking.problems.problem import FunctionProblem, climb
from baco_like.parameters import Permutation
from baco_like.spaces.space import Space

_RESTARTS = 30
"""Local searches for the optimum of an assignment."""


def tour(cities: int) -> FunctionProblem:
    """An open tour of cities in the unit square, in which a third of the cities must come before another one."""
    rng = np.random.default_rng(cities)
    places = rng.random((cities, 2))
    distance = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    before = [tuple(map(int, pair)) for pair in _rules(cities, rng)]
    space = Space(
        {"order": Permutation(range(cities))},
        [f"pos(order, {a}) < pos(order, {b})" for a, b in before],
    )

    def length(config: Mapping[str, Any]) -> float:
        order = np.array(config["order"])
        return float(distance[order[:-1], order[1:]].sum())

    name = f"tour_{cities}"
    return FunctionProblem(
        name, space, length, optimum=lambda: _shortest(distance, before), origin=name
    )


def _rules(cities: int, rng: np.random.Generator) -> Array:
    """Return pairs (earlier, later) without a cycle: all follow one hidden order."""
    hidden = rng.permutation(cities)
    pairs = np.sort([rng.choice(cities, 2, replace=False) for _ in range(cities // 3)], axis=1)
    return np.unique(hidden[pairs], axis=0)


def _shortest(distance: Array, before: list[tuple[int, ...]]) -> float:
    """Return the length of the shortest open tour that follows the rules (Held and Karp 1962)."""
    n = len(distance)
    required = [sum(1 << a for a, b in before if b == city) for city in range(n)]
    best = np.full((1 << n, n), math.inf)
    for city in range(n):
        if not required[city]:
            best[1 << city, city] = 0.0
    for visited in range(1, 1 << n):
        ends = best[visited]
        if not np.isfinite(ends).any():
            continue
        reach = (ends[:, None] + distance).min(axis=0)
        for city in range(n):
            if not visited >> city & 1 and required[city] & visited == required[city]:
                key = visited | 1 << city
                best[key, city] = min(best[key, city], reach[city])
    return float(best[-1].min())


def assignment(size: int) -> FunctionProblem:
    """Quadratic assignment: the sum of flow times distance, of facilities at the places of an order."""
    rng = np.random.default_rng(100 + size)
    places = rng.random((size, 2))
    distance = np.abs(places[:, None] - places[None]).sum(axis=-1)
    flow = np.triu(rng.exponential(1.0, (size, size)) * (rng.random((size, size)) < 0.5), 1)
    space = Space({"order": Permutation(range(size))})

    flow += flow.T

    def cost(order: Ints) -> float:
        return float((flow[np.ix_(order, order)] * distance).sum() / 2)

    def find_optimum() -> float:
        pairs = list(itertools.combinations(range(size), 2))
        starts = (rng.permutation(size) for _ in range(_RESTARTS))
        return min(climb(cost, order, pairs, _swap) for order in starts)

    def evaluate(config: Mapping[str, Any]) -> float:
        return cost(np.array(config["order"]))

    name = f"assignment_{size}"
    return FunctionProblem(name, space, evaluate, optimum=find_optimum, origin=name)


def _swap(order: Ints, places: tuple[int, int]) -> None:
    i, j = places
    order[[i, j]] = order[[j, i]]


def schedule(jobs: int) -> FunctionProblem:
    """Jobs on one machine: the weighted sum of their delays beyond their due dates (Lenstra et al. 1977).

    Due dates lie between 20 % and 80 % of the total time.
    """
    rng = np.random.default_rng(300 + jobs)
    times, weights = rng.uniform(1.0, 10.0, jobs), rng.uniform(1.0, 10.0, jobs)
    due = rng.uniform(0.2, 0.8, jobs) * times.sum()

    def evaluate(config: Mapping[str, Any]) -> float:
        order = np.array(config["order"])
        late = np.maximum(np.cumsum(times[order]) - due[order], 0.0)
        return float(weights[order] @ late)

    def find_optimum() -> float:
        """Return the least cost, by the sets of the first jobs: these determine when the next one ends."""
        best = np.full(1 << jobs, math.inf)
        best[0] = 0.0
        members = (np.arange(1 << jobs)[:, None] >> np.arange(jobs)) & 1
        ends = members @ times
        for done in range(1, 1 << jobs):
            last = np.flatnonzero(members[done])
            late = weights[last] * np.maximum(ends[done] - due[last], 0.0)
            best[done] = (best[done - (1 << last)] + late).min()
        return float(best[-1])

    name = f"schedule_{jobs}"
    space = Space({"order": Permutation(range(jobs))})
    return FunctionProblem(name, space, evaluate, optimum=find_optimum, origin=name)
