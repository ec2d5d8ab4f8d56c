"""Measure the savings by a chain of trees (BaCO's three claims, against rejection), and the bias of the walk.

Hellsten et al. (ASPLOS 2023, section 5) report, for their space MM_GPU over ten runs with and without the chain:
random sampling 80 times faster, constraint checks in local search 6 times faster, the tuner's own time 70 % less.
`rs_cot_1024` is their repository's variant of that space. Without the chain, a configuration is drawn from all
combinations until it satisfies the constraints (1.3 % do), and a neighbour is any feasible change of one value.

There, the constraints are evaluated in two ways: one configuration at a time by compiled Python functions, as in the
paper, and vectorised as in this package, which is a harder baseline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from baco_like.spaces.feasible.rejection import build_rejection

from baco_like.constraints.protocol import Constraint
from baco_like.optimizer import Optimizer
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.space import Space

SAMPLES = 1_000
SEARCHED = 100
SUGGESTIONS = {"random_search": 60, "baco": 25}
RUNS, REPEATS = 3, 5

Values = Mapping[str, list[Any]]


@dataclass(frozen=True, eq=False)
class OneByOne:
    """All constraints, evaluated one configuration at a time, up to the first violation."""

    parameters: tuple[str, ...]
    text: str
    function: Callable[..., Any]

    def holds(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        rows = zip(*(columns[name].tolist() for name in self.parameters), strict=True)
        return np.array([self._one(row) for row in rows], dtype=np.bool_)

    def _one(self, row: tuple[Any, ...]) -> bool:
        try:
            return bool(self.function(*row))
        except ArithmeticError:
            return False

    def explain(self, config: Mapping[str, Any]) -> str:
        return str(dict(config))


def one_by_one(values: Values, constraints: Sequence[str]) -> OneByOne:
    """Return the constraints as one Python function; the texts are those of the benchmark's own data."""
    text = " and ".join(f"({one})" for one in constraints)
    return OneByOne(tuple(values), text, eval(f"lambda {', '.join(values)}: {text}"))


def without_chain(values: Values, rules: Sequence[Constraint]) -> Space:
    """Return the space whose feasible set is drawn from all combinations and tested."""
    space = Space(values)
    places = {name: (p, space.columns[name]) for name, p in space.parameters.items()}
    tested = build_rejection(np.arange(space.width), space.feasible, places, rules)
    space.constraints = tuple(rules)
    space.feasible = FeasibleSet(space.width, (tested,))
    return space


def changed(space: Space, codes: np.ndarray) -> np.ndarray:
    """Return every change of one value of these rows, feasible or not: the candidates of a local search."""
    found = []
    for name, at in space.columns.items():
        for code in range(int(space.parameters[name].cardinality)):
            rows = codes[codes[:, at.start] != code].copy()
            rows[:, at] = code
            found.append(rows)
    return np.concatenate(found)


def timed(run: Callable[[], Any], repeats: int = 1) -> float:
    started = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - started) / repeats


def repeated(run: Callable[[], Any]) -> float:
    """Return the mean CPU seconds of calls, after one that fills the caches."""
    run()
    return timed(run, REPEATS)


def own_time(space: Space, strategy: str, n: int) -> float:
    """Return the CPU seconds of a whole run without its evaluations, the mean of some runs."""

    def run(seed: int) -> None:
        optimizer = Optimizer(space, seed=seed, strategy=strategy)
        for _ in range(n):
            trial = optimizer.suggest()
            optimizer.observe(trial, float(sum(trial.values()) % 97))

    run(99)  # warm up: imports, and the caches of a space
    return float(np.mean([timed(lambda seed=seed: run(seed)) for seed in range(RUNS)]))


def claims(values: Values, constraints: Sequence[str]) -> None:
    """Print the three claims, the published figure beside ours."""
    chain = Space(values, constraints)
    rules = (
        ("vectorised", chain.constraints),
        ("row by row", (one_by_one(values, constraints),)),
    )
    others = {name: without_chain(values, some) for name, some in rules}
    print(f"{'':34}{'chain':>10}" + "".join(f"{name:>12}{'':14}" for name in others) + "published")
    rng = np.random.default_rng(0)
    row(
        f"{SAMPLES:,} uniform samples",
        repeated(lambda: chain.feasible.sample(SAMPLES, rng)),
        {name: repeated(lambda s=s: s.feasible.sample(SAMPLES, rng)) for name, s in others.items()},
        "80 times",
    )
    codes = chain.feasible.sample(SEARCHED, rng)
    some = changed(chain, codes)
    near = [hamming(space, codes, rng)[0] for space in (chain, *others.values())]
    assert all(np.array_equal(np.unique(n, axis=0), np.unique(near[0], axis=0)) for n in near)
    row(
        f"{len(some):,} checks of neighbours",
        repeated(lambda: chain.feasible.contains(some)),
        {name: repeated(lambda s=s: s.satisfied(some)) for name, s in others.items()},
        "6 times",
    )
    row(
        f"neighbours of {SEARCHED} found",
        repeated(lambda: hamming(chain, codes, rng)),
        {name: repeated(lambda s=s: hamming(s, codes, rng)) for name, s in others.items()},
        "-",
    )
    for strategy, n in SUGGESTIONS.items():
        row(
            f"own time, {strategy}, {n} trials",
            own_time(chain, strategy, n),
            {name: own_time(s, strategy, n) for name, s in others.items()},
            "-70 %",
        )


def row(label: str, ours: float, others: Mapping[str, float], published: str) -> None:
    cells = "".join(
        f"{seconds:>10.4f} s ({seconds / ours:4.1f}x, {100 * (ours / seconds - 1):+3.0f} %)"
        for seconds in others.values()
    )
    print(f"{label:34}{ours:>8.4f} s{cells}   {published}", flush=True)


def bias(values: Values, constraints: Sequence[str], n: int = 100_000) -> None:
    """Print the distance of the walk from root to leaf from uniform draws, for every parameter."""
    space = Space(values, constraints)
    rng = np.random.default_rng(0)
    uniform, again = space.feasible.sample(n, rng), space.feasible.sample(n, rng)
    walked = space.feasible.walk(n, rng)
    print(f"\nshare of {n:,} draws that would have to move (total variation), per parameter")
    print(f"{'':14}{'walk - uniform':>16}{'uniform - uniform':>20}")
    for name, at in space.columns.items():
        count = int(space.parameters[name].cardinality)
        shares = [
            np.bincount(rows[:, at.start].astype(int), minlength=count) / n
            for rows in (uniform, walked, again)
        ]
        moved = [abs(shares[0] - one).sum() / 2 for one in shares[1:]]
        print(f"{name:14}{moved[0]:>16.3f}{moved[1]:>20.3f}")
