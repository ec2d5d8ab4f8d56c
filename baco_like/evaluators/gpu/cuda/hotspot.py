"""The temperatures of a chip, a stencil over time in CUDA, with the parameters of BAT's hotspot.

The kernel is ours. The Cartesian space is that of the constraint-aware paper (Table III). Every configuration computes
`STEPS` steps, in as many launches as its temporal tiling wants. That its tiles need more shared memory than there is,
known in the paper, is found by trying here, as is a lack of registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like._typing import Rng
from baco_like.evaluators.kernels.domains import count, number_below, switch
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.spaces.space import Space

STEPS = 20
HORIZONTAL, VERTICAL, LEAK, HEAT = 0.15, 0.1, 0.002, 0.5

KERNEL = "hotspot"
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="ascii")

DOMAINS = {
    "block_size_x": count(32),
    "block_size_y": count(8),
    "tile_size_x": count(),
    "tile_size_y": count(),
    "temporal_tiling_factor": count(1, STEPS),
    "loop_unroll_factor_t": count(),
    "sh_power": switch(),
    "blocks_per_sm": number_below(33),
}


def space(size: int) -> Space:
    """Return the space: threads of a block, cells of a thread, steps of a launch, unrolling, and where the power is.

    Args:
        size: Rows of the grid; any size has the same space.
    """
    to_ten = list(range(1, 11))
    return Space(
        {
            "block_size_x": Ordinal([1, 2, 4, 8, 16, *range(32, 1025, 32)], log=True, default=32),
            "block_size_y": Ordinal([1, 2, 4, 8, 16, 32], log=True, default=8),
            "tile_size_x": Ordinal(to_ten, log=True, default=1),
            "tile_size_y": Ordinal(to_ten, log=True, default=1),
            "temporal_tiling_factor": Ordinal(to_ten, log=True, default=1),
            "loop_unroll_factor_t": Ordinal(to_ten, log=True, default=1),
            "sh_power": Categorical([False, True], default=False),
            "blocks_per_sm": Ordinal([0, 1, 2, 3, 4], default=0),
        },
        constraints=[
            "32 <= block_size_x * block_size_y <= 1024",
            "temporal_tiling_factor % loop_unroll_factor_t == 0",
            "block_size_x * tile_size_x > 2 * temporal_tiling_factor",
            "block_size_y * tile_size_y > 2 * temporal_tiling_factor",
        ],
    )


def inputs(size: int, rng: Rng) -> tuple[NDArray[Any], ...]:
    """Return temperatures at the beginning (0 is that of the surroundings) and the power, ``(size, size)`` each."""
    temperature, power = (rng.uniform(0.0, 1.0, (size, size)).astype(np.float32) for _ in range(2))
    return temperature, power


def expected(temperature: NDArray[Any], power: NDArray[Any]) -> NDArray[Any]:
    """Return the temperatures after `STEPS` steps, computed in double precision."""
    now = temperature.astype(np.float64)
    for _ in range(STEPS):
        framed = np.pad(now, 1, mode="edge")
        across = framed[1:-1, :-2] + framed[1:-1, 2:] - 2 * now
        along = framed[:-2, 1:-1] + framed[2:, 1:-1] - 2 * now
        now = now + HEAT * power + HORIZONTAL * across + VERTICAL * along - LEAK * now
    return now.astype(np.float32)


def macros(size: int) -> dict[str, Any]:
    """Return what the source wants to know besides the configuration."""
    numbers = {"HORIZONTAL": HORIZONTAL, "VERTICAL": VERTICAL, "LEAK": LEAK, "HEAT": HEAT}
    return {"SIZE": size, **{name: f"{value}f" for name, value in numbers.items()}}


def launch(config: Mapping[str, Any], size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and the block."""
    block = (config["block_size_x"], config["block_size_y"])
    covered = (block[0] * config["tile_size_x"], block[1] * config["tile_size_y"])
    return (-(-size // covered[0]), -(-size // covered[1])), block


def scratch(size: int) -> tuple[NDArray[Any], ...]:
    """Return what else the kernel writes to."""
    return (np.empty((size, size), dtype=np.float32),)


def launches(config: Mapping[str, Any], size: int) -> Sequence[tuple[int, ...]]:
    """Return for each launch its number, how many there are, and its steps."""
    each = config["temporal_tiling_factor"]
    total = -(-STEPS // each)
    return [(number, total, min(each, STEPS - number * each)) for number in range(total)]
