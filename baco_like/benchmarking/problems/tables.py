"""Spaces made in code from a fixed seed, all of whose costs are known.

Each function except `listed_problem` returns a space and the cost of every configuration in the order of
``space.feasible.listed``, NaN where one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baco_like._typing import Array as Costs
from baco_like._typing import Rng
from baco_like.benchmarking.problems.problem import FunctionProblem
from baco_like.benchmarking.score import Baseline
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation
from baco_like.spaces.space import Space

MEMORY = 0.09
"""Time that moving the data takes, however fast the computation."""


def listed_problem(name: str, make: Callable[[], tuple[Space, Costs]]) -> FunctionProblem:
    """Return the problem of a space and its costs."""
    space, costs = make()

    def evaluate(config: Mapping[str, Any]) -> float:
        return float(costs[space.feasible.index(space.encode([config]))[0]])

    known = Baseline.from_costs(costs)
    return FunctionProblem(
        name, space, evaluate, optimum=known.optimum, origin=name, distribution=known
    )


def flags() -> tuple[Space, Costs]:
    """15 flags and integers, nothing known of what fails: what does not fit the chip, and some pairs of flags.

    In the manner of HPVM2FPGA's spaces ("BaCO", Table 3).
    """
    rng = np.random.default_rng(15)
    space = Space(
        {
            **{f"flag_{i}": Integer(0, 1) for i in range(13)},
            **{f"unroll_{i}": Integer(0, 2) for i in range(2)},
        }
    )
    x = space.feasible.listed
    gains = rng.normal(-0.1, 0.3, 15) * (rng.random(15) < 0.5)
    pairs = np.triu(rng.normal(0, 0.3, (15, 15)) * (rng.random((15, 15)) < 0.1), 1)
    log_time = x @ gains + np.einsum("ni,ij,nj->n", x, pairs, x)
    area = x @ rng.uniform(0.2, 1.0, 15) + np.einsum("ni,ij,nj->n", x, np.abs(pairs), x)
    fails = area > np.quantile(area, 0.7)
    for a, b in rng.choice(13, size=(3, 2), replace=False):
        fails |= (x[:, a] == 1) & (x[:, b] == 0) & (x[:, 13] > 0)
    time = (np.exp(4 * log_time) + MEMORY**4) ** 0.25
    return space, np.where(fails, np.nan, time)


def tiles() -> tuple[Space, Costs]:
    """Block and tile sizes under constraints: a tilted bowl in their logarithms, with rough pairs."""
    rng = np.random.default_rng(8)
    space = Space(
        {
            "block_x": Ordinal([1, 2, 4, 8, 16, 32, 64, 128, 256]),
            "block_y": Ordinal([1, 2, 4, 8, 16, 32]),
            "tile_x": Integer(1, 8),
            "tile_y": Integer(1, 8),
            "unroll": Ordinal([1, 2, 4, 8]),
            "vector": Ordinal([1, 2, 4]),
            "stages": Integer(1, 4),
            "pad": Integer(0, 1),
        },
        constraints=[
            "32 <= block_x * block_y <= 1024",
            "tile_x * tile_y <= 24",
            "tile_x % vector == 0",
            "4 * block_x * tile_x * block_y * tile_y * stages <= 49152",
        ],
    )
    codes = space.feasible.listed
    low, high = codes.min(axis=0), codes.max(axis=0)
    z = (codes - low) / (high - low)
    centre = z[rng.integers(len(z))]
    mixed = rng.normal(size=(8, 8))
    bowl = np.square((z - centre) @ mixed).sum(axis=1)
    return space, np.exp(0.11 * bowl + 0.1 * _rough(codes, [(0, 5), (2, 3), (1, 4), (6, 7)], rng))


def _rough(codes: Costs, pairs: list[tuple[int, int]], rng: Rng) -> Costs:
    """Return the sum of a random table over each pair of columns."""
    total = np.zeros(len(codes))
    for a, b in pairs:
        x, y = codes[:, a].astype(int), codes[:, b].astype(int)
        table = rng.normal(size=(x.max() + 1, y.max() + 1))
        total += table[x, y]
    return total


def passes() -> tuple[Space, Costs]:
    """The order of five passes (one known rule), two choices and two sizes that depend on them."""
    rng = np.random.default_rng(5)
    space = Space(
        {
            "order": Permutation(["inline", "unroll", "vectorise", "fuse", "hoist"]),
            "scheduler": Categorical(["list", "trace", "modulo", "none"]),
            "layout": Categorical(["rows", "columns", "blocks"]),
            "tile": Ordinal([8, 16, 32, 64, 128, 256]),
            "width": Ordinal([1, 2, 4, 8, 16]),
            "prefetch": Integer(0, 1),
        },
        constraints=["pos(order, 'inline') < pos(order, 'hoist')"],
    )
    codes = space.feasible.listed
    position = {name: codes[:, columns] for name, columns in space.columns.items()}
    order = position["order"]
    scheduler, layout, tile, width, prefetch = (
        position[name][:, 0].astype(int) for name in list(space.parameters)[1:]
    )
    before = order[:, :, None] < order[:, None, :]
    log_time = (before * rng.normal(0, 0.35, (5, 5))).sum(axis=(1, 2))
    log_time += rng.normal(0, 0.3, (4, 3))[scheduler, layout]
    log_time += 0.12 * np.abs(tile - rng.integers(1, 5, 3)[layout])
    first = order.argmin(axis=1)
    log_time += 0.15 * np.abs(width - rng.integers(0, 5, 5)[first])
    log_time += rng.normal(0, 0.15, (2, 5))[prefetch, first]
    return space, np.exp(log_time)
