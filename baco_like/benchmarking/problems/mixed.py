"""Numbers, choices and an order at once; part of the configurations fail, and no known constraint says which."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.benchmarking.problems.problem import FunctionProblem
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real
from baco_like.spaces.space import Space


def mixed(seed: int = 0) -> FunctionProblem:
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

    def find_optimum() -> float:
        codes = space.feasible.listed
        some = space.decode(codes[:: max(1, len(codes) // 200_000)])
        return float(np.nanmin([evaluate(config) for config in some]))

    name = f"mixed_{seed}"
    return FunctionProblem(name, space, evaluate, optimum=find_optimum, origin=name)


_LAYOUTS = ("rows", "columns", "blocks")
_SCHEDULERS = ("list", "trace", "modulo", "none")
_DRAWS = 4096
"""Uniform draws from which the limit of failures and the optimum are chosen."""

_FAILING = 0.4
"""Share of the draws that fail."""


def mixed_14(seed: int = 0) -> FunctionProblem:
    """Fourteen reals, integers, choices, flags and an order; 40 % fail, and the optimum (1.0) is near the failures.

    The logarithm of the time is a sum of terms that are 0 at one configuration and positive at all others: a quadratic
    form of the numbers, a table of layout and scheduler, weights of flags, and weighted inversions of the loops.
    """
    rng = np.random.default_rng(400 + seed)
    space = Space(
        {
            "block": Ordinal([16, 32, 64, 128, 256, 512], log=True),
            "tile": Ordinal([1, 2, 4, 8, 16, 32], log=True),
            "vector": Ordinal([1, 2, 4, 8], log=True),
            "threads": Ordinal([1, 2, 4, 8, 16, 32, 64], log=True),
            "unroll": Integer(1, 8),
            "stages": Integer(1, 4),
            "ratio": Real(0.0, 1.0),
            "rate": Real(1e-4, 1.0, log=True),
            "skew": Real(-1.0, 1.0),
            "layout": Categorical(_LAYOUTS),
            "scheduler": Categorical(_SCHEDULERS),
            "prefetch": Categorical([False, True]),
            "fuse": Categorical([False, True]),
            "order": Permutation(["i", "j", "k", "l"]),
        },
        ["tile * vector <= 128"],
    )
    draws = space.decode(space.feasible.sample(_DRAWS, rng))
    weights, extra = rng.uniform(0.3, 1.0, 9), rng.uniform(0.0, 2.0, len(_SCHEDULERS))

    def load(config: Mapping[str, Any]) -> float:
        """Return the use of a resource; the innermost loop 'i' in columns needs far more."""
        used = float(_positions(config) @ weights) + extra[_SCHEDULERS.index(config["scheduler"])]
        used += 0.5 * config["prefetch"] * config["fuse"]
        return float(used + 9.0 * (config["layout"] == "columns" and config["order"][-1] == "i"))

    loads = np.array([load(config) for config in draws])
    limit = float(np.quantile(loads, 1 - _FAILING))
    runs_barely = np.flatnonzero(
        (loads <= limit) & (loads > np.quantile(loads, 0.5 - _FAILING / 2))
    )
    best = draws[int(rng.choice(runs_barely))]
    log_time = _log_time(best, rng)

    def evaluate(config: Mapping[str, Any]) -> float:
        return math.nan if load(config) > limit else math.exp(log_time(config))

    name = f"mixed_14_{seed}"
    return FunctionProblem(name, space, evaluate, optimum=1.0, origin=name)


def _positions(config: Mapping[str, Any]) -> Array:
    """Return the nine numbers on their scales from 0 to 1, ``(9,)``."""
    logs = np.log2([config["block"] / 16, config["tile"], config["vector"], config["threads"]])
    others = [(config["unroll"] - 1) / 7, (config["stages"] - 1) / 3, config["ratio"]]
    others += [1 + math.log10(config["rate"]) / 4, (config["skew"] + 1) / 2]
    return np.array([*(logs / [5, 5, 3, 6]), *others])


def _log_time(best: Mapping[str, Any], rng: Rng) -> Callable[[Mapping[str, Any]], float]:
    """Return a function that is 0 at one configuration and positive elsewhere; see `mixed_14`."""
    form = rng.normal(0, 0.4, (6, 9))  # of rank 6: along some directions only the diagonal counts
    table = rng.exponential(0.3, (len(_LAYOUTS), len(_SCHEDULERS)))
    table[_LAYOUTS.index(best["layout"]), _SCHEDULERS.index(best["scheduler"])] = 0.0
    flags = rng.exponential(0.15, 2)
    inversions = rng.exponential(0.2, (4, 4))
    centre = _positions(best)
    place = {loop: i for i, loop in enumerate(best["order"])}

    def log_time(config: Mapping[str, Any]) -> float:
        away = _positions(config) - centre
        cost = float(np.square(form @ away).sum() + 0.3 * np.square(away).sum())
        cost += table[_LAYOUTS.index(config["layout"]), _SCHEDULERS.index(config["scheduler"])]
        cost += flags[0] * (config["prefetch"] != best["prefetch"])
        cost += flags[1] * (config["fuse"] != best["fuse"])
        order = [place[loop] for loop in config["order"]]
        pairs = itertools.combinations(order, 2)
        return float(cost + sum(inversions[a, b] for a, b in pairs if a > b))

    return log_time
