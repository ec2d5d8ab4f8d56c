"""Problems made in code whose spaces are too large to list: orders, interacting flags, hidden failures.

Every problem is fixed by a seed. The optimum of a tour is exact; of the others it is the best that many local searches
found.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from baco_like import Categorical, Integer, Ordinal, Permutation, Space

from .valued import ValuedProblem, valued

RESTARTS = 300
"""Local searches for the optimum of a problem without an exact one."""


def tour(cities: int) -> ValuedProblem:
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

    return valued(f"tour_{cities}", "orders", space, length, _shortest(distance, before))


def _rules(cities: int, rng: np.random.Generator) -> np.ndarray:
    """Return pairs (earlier, later) without a cycle: all follow one hidden order."""
    hidden = rng.permutation(cities)
    pairs = np.sort([rng.choice(cities, 2, replace=False) for _ in range(cities // 3)], axis=1)
    return np.unique(hidden[pairs], axis=0)


def _shortest(distance: np.ndarray, before: list[tuple[int, ...]]) -> float:
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


def assignment(size: int) -> ValuedProblem:
    """Quadratic assignment: the sum of flow times distance, of facilities at the places of an order."""
    rng = np.random.default_rng(100 + size)
    places = rng.random((size, 2))
    distance = np.abs(places[:, None] - places[None]).sum(axis=-1)
    flow = np.triu(rng.exponential(1.0, (size, size)) * (rng.random((size, size)) < 0.5), 1)
    space = Space({"order": Permutation(range(size))})

    flow += flow.T

    def cost(order: np.ndarray) -> float:
        return float((flow[np.ix_(order, order)] * distance).sum() / 2)

    least = min(_swapped(cost, rng.permutation(size)) for _ in range(RESTARTS // 10))

    def evaluate(config: Mapping[str, Any]) -> float:
        return cost(np.array(config["order"]))

    return valued(f"assignment_{size}", "orders", space, evaluate, least)


def _swapped(cost: Callable[[np.ndarray], float], order: np.ndarray) -> float:
    """Return the cost after swaps of two elements until none lowers it."""
    best, again = cost(order), True
    while again:
        again = False
        for i, j in itertools.combinations(range(len(order)), 2):
            order[[i, j]] = order[[j, i]]
            found = cost(order)
            if found < best - 1e-12:
                best, again = found, True
            else:
                order[[i, j]] = order[[j, i]]
    return best


def flags(count: int = 24) -> ValuedProblem:
    """Compiler flags of which a third matter, with interactions of two and three of them."""
    rng = np.random.default_rng(count)
    space = Space({f"flag_{i}": Integer(0, 1) for i in range(count)})
    single = rng.normal(-0.03, 0.1, count) * (rng.random(count) < 0.4)
    pairs = [(rng.choice(count, 2, replace=False), rng.normal(0, 0.12)) for _ in range(count)]
    triples = [
        (rng.choice(count, 3, replace=False), rng.normal(0, 0.12)) for _ in range(count // 3)
    ]

    def log_time(x: np.ndarray) -> float:
        gains = sum(weight * x[list(which)].prod() for which, weight in (*pairs, *triples))
        return float(x @ single + gains)

    least = min(
        _flipped(log_time, rng.integers(0, 2, count).astype(float)) for _ in range(RESTARTS)
    )

    def evaluate(config: Mapping[str, Any]) -> float:
        return math.exp(log_time(np.array(list(config.values()), dtype=float)))

    return valued(f"flags_{count}", "flags", space, evaluate, math.exp(least))


def _flipped(cost: Callable[[np.ndarray], float], x: np.ndarray) -> float:
    """Return the cost after flips of one flag until none lowers it."""
    best, again = cost(x), True
    while again:
        again = False
        for i in range(len(x)):
            x[i] = 1 - x[i]
            found = cost(x)
            if found < best - 1e-12:
                best, again = found, True
            else:
                x[i] = 1 - x[i]
    return best


def wide(seed: int = 0, flags: int = 150, numbers: int = 37) -> ValuedProblem:
    """All flags and numbers of a compiler at once, with the compiler's own choices as defaults.

    A fifth of the flags and a quarter of the numbers matter, and 60 pairs of flags interact. As in a real compiler most
    defaults are right: a flip of a flag that matters costs 2 % on average.
    """
    rng = np.random.default_rng(300 + seed)
    on = rng.random(flags) < 0.5
    space = Space(
        {f"flag_{i}": Categorical([False, True], default=bool(on[i])) for i in range(flags)}
        | {f"number_{i}": Integer(1, 1000, log=True, default=30) for i in range(numbers)}
    )
    single = rng.normal(0.02, 0.06, flags) * (rng.random(flags) < 0.2)
    pairs = rng.integers(0, flags, (60, 2))
    both = rng.normal(0.0, 0.05, len(pairs))
    weights = rng.gamma(2.0, 0.01, numbers) * (rng.random(numbers) < 0.25)
    best = np.log(30.0) + rng.normal(0.0, 1.2, numbers)

    def log_time(flipped: np.ndarray, logs: np.ndarray) -> float:
        interacting = flipped[pairs[:, 0]] * flipped[pairs[:, 1]]
        return float(flipped @ single + interacting @ both + weights @ (logs - best) ** 2)

    least = min(
        _flipped(lambda x: log_time(x, best), rng.integers(0, 2, flags).astype(float))
        for _ in range(RESTARTS // 10)
    )

    def evaluate(config: Mapping[str, Any]) -> float:
        values = list(config.values())
        flipped = (np.array(values[:flags]) != on).astype(float)
        return math.exp(log_time(flipped, np.log(np.array(values[flags:], dtype=float))))

    return valued(f"wide_{seed}", "wide", space, evaluate, math.exp(least))


def mixed(seed: int = 0) -> ValuedProblem:
    """Numbers, choices and an order of four loops; about 40 % of the configurations fail, and nothing says which."""
    rng = np.random.default_rng(200 + seed)
    space = Space(
        {
            "block": Ordinal([16, 32, 64, 128, 256, 512], log=True),
            "tile": Ordinal([1, 2, 4, 8, 16, 32], log=True),
            "unroll": Integer(1, 8),
            "vector": Ordinal([1, 2, 4, 8], log=True),
            "layout": Categorical(["rows", "columns", "blocks"]),
            "scheduler": Categorical(["list", "trace", "modulo", "none"]),
            "prefetch": Integer(0, 1),
            "order": Permutation(["i", "j", "k", "l"]),
        },
        ["tile * vector <= 128"],
    )
    of_layout, of_scheduler = rng.normal(0, 0.3, 3), rng.normal(0, 0.2, 4)
    both = rng.normal(0, 0.25, (3, 4))
    before = rng.normal(0, 0.3, (4, 4))
    innermost = rng.normal(0, 0.4, (4, 3))
    centre = np.array([rng.uniform(1, 4), rng.uniform(1, 4), rng.uniform(1, 6)])
    limits = rng.uniform(0.0, 3.0, 4)

    def evaluate(config: Mapping[str, Any]) -> float:
        layout = ["rows", "columns", "blocks"].index(config["layout"])
        scheduler = ["list", "trace", "modulo", "none"].index(config["scheduler"])
        order = ["ijkl".index(one) for one in config["order"]]
        sizes = np.log2([config["block"] / 16, config["tile"], 1])
        sizes[2] = config["unroll"]
        registers = sizes[:2].sum() + 0.4 * sizes[2] + math.log2(config["vector"])
        if registers > 8.4 + limits[scheduler] / 2 or (layout == 1 and order[-1] == 0):
            return math.nan
        log_time = 0.08 * ((sizes - centre) ** 2).sum() + of_layout[layout]
        log_time += of_scheduler[scheduler] + both[layout, scheduler] + innermost[order[-1], layout]
        log_time += sum(before[a, b] for a, b in itertools.combinations(order, 2))
        log_time -= 0.15 * math.log2(config["vector"]) * (order[-1] != 0)
        log_time += 0.1 * config["prefetch"] * (layout - 1)
        return math.exp(log_time)

    codes = space.feasible.listed
    least = np.nanmin(
        [evaluate(one) for one in space.decode(codes[:: max(1, len(codes) // 200_000)])]
    )
    return valued(f"mixed_{seed}", "mixed", space, evaluate, float(least))


MADE: Mapping[str, Callable[[], ValuedProblem]] = {
    **{f"tour_{n}": partial(tour, n) for n in (8, 12, 15)},
    **{f"assignment_{n}": partial(assignment, n) for n in (8, 10, 15)},
    "flags_24": flags,
    **{f"wide_{seed}": partial(wide, seed) for seed in range(3)},
    "mixed_0": mixed,
    "mixed_1": partial(mixed, 1),
}

GROUPS = {
    "tour": "orders",
    "assignment": "orders",
    "flags": "flags",
    "wide": "wide",
    "mixed": "mixed",
}
"""The kind of space, by the first word of the name."""
