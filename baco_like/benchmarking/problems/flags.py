"""Compiler flags to optimize: a third of them matter, and pairs and triples interact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from baco_like._typing import Array
from baco_like.benchmarking.problems.problem import FunctionProblem, climb
from baco_like.parameters import Categorical, Integer
from baco_like.spaces.space import Space

_RESTARTS = 300
"""Local searches for the optimum."""


def flags(count: int = 24) -> FunctionProblem:
    """Compiler flags of which a third matter, with interactions of two and three of them."""
    rng = np.random.default_rng(count)
    space = Space({f"flag_{i}": Integer(0, 1) for i in range(count)})
    single = rng.normal(-0.03, 0.1, count) * (rng.random(count) < 0.4)
    pairs = [(rng.choice(count, 2, replace=False), rng.normal(0, 0.12)) for _ in range(count)]
    triples = [
        (rng.choice(count, 3, replace=False), rng.normal(0, 0.12)) for _ in range(count // 3)
    ]

    def log_time(x: Array) -> float:
        gains = sum(weight * x[list(which)].prod() for which, weight in (*pairs, *triples))
        return float(x @ single + gains)

    def find_optimum() -> float:
        starts = (rng.integers(0, 2, count).astype(float) for _ in range(_RESTARTS))
        return math.exp(min(climb(log_time, x, range(count), _flip) for x in starts))

    def evaluate(config: Mapping[str, Any]) -> float:
        return math.exp(log_time(np.array(list(config.values()), dtype=float)))

    name = f"flags_{count}"
    return FunctionProblem(name, space, evaluate, optimum=find_optimum, origin=name)


def wide(seed: int = 0) -> FunctionProblem:
    """All flags and numbers of a compiler at once, with the compiler's own choices as defaults.

    A fifth of the flags and a quarter of the numbers matter, and 60 pairs of flags interact. As in a real compiler most
    defaults are right: a flip of a flag that matters costs 2 % on average.
    """
    flags, numbers = 150, 37
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

    def log_time(flipped: Array, logs: Array) -> float:
        interacting = flipped[pairs[:, 0]] * flipped[pairs[:, 1]]
        return float(flipped @ single + interacting @ both + weights @ (logs - best) ** 2)

    def find_optimum() -> float:
        starts = (rng.integers(0, 2, flags).astype(float) for _ in range(_RESTARTS // 10))

        def cost(x: Array) -> float:
            return log_time(x, best)

        return math.exp(min(climb(cost, x, range(flags), _flip) for x in starts))

    def evaluate(config: Mapping[str, Any]) -> float:
        values = list(config.values())
        flipped = (np.array(values[:flags]) != on).astype(float)
        return math.exp(log_time(flipped, np.log(np.array(values[flags:], dtype=float))))

    name = f"wide_{seed}"
    return FunctionProblem(name, space, evaluate, optimum=find_optimum, origin=name)


def _flip(x: Array, place: int) -> None:
    x[place] = 1 - x[place]
