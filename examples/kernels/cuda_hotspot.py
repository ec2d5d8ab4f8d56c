"""The temperatures of a chip, a stencil over time in CUDA, with the parameters of BAT's hotspot.

The Cartesian space is the one of the constraint-aware paper (Table III). Every configuration computes `STEPS` steps;
its temporal tiling sets the number of launches. Too little shared memory (a known constraint in the paper) and too few
registers are hidden constraints: the evaluation fails.
"""

from pathlib import Path

import numpy as np

from baco_like import Categorical, Ordinal, Space
from baco_like.evaluators import kernels

STEPS = 20
HORIZONTAL, VERTICAL, LEAK, HEAT = 0.15, 0.1, 0.002, 0.5

KERNEL = "hotspot"
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="ascii")

DOMAINS = {
    "block_size_x": kernels.count(32),
    "block_size_y": kernels.count(8),
    "tile_size_x": kernels.count(),
    "tile_size_y": kernels.count(),
    "temporal_tiling_factor": kernels.count(1, STEPS),
    "loop_unroll_factor_t": kernels.count(),
    "sh_power": kernels.switch(),
    "blocks_per_sm": kernels.number_below(33),
}


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space: threads per block, cells per thread, steps per launch, unrolling, the memory of the power.

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


def inputs(size, rng):
    """Return the initial temperatures (0 is the temperature outside) and the power, (size, size) each."""
    temperature, power = (rng.uniform(0.0, 1.0, (size, size)).astype(np.float32) for _ in range(2))
    return temperature, power


def expected(temperature, power):
    """Return the temperatures after `STEPS` steps, computed in double precision."""
    now = temperature.astype(np.float64)
    for _ in range(STEPS):
        framed = np.pad(now, 1, mode="edge")
        across = framed[1:-1, :-2] + framed[1:-1, 2:] - 2 * now
        along = framed[:-2, 1:-1] + framed[2:, 1:-1] - 2 * now
        now = now + HEAT * power + HORIZONTAL * across + VERTICAL * along - LEAK * now
    return now.astype(np.float32)


def macros(size):
    """Return additional macros of the source."""
    numbers = {"HORIZONTAL": HORIZONTAL, "VERTICAL": VERTICAL, "LEAK": LEAK, "HEAT": HEAT}
    return {"SIZE": size, **{name: f"{value}f" for name, value in numbers.items()}}


def launch(config, size):
    """Return the grid and the block."""
    block = (config["block_size_x"], config["block_size_y"])
    covered = (block[0] * config["tile_size_x"], block[1] * config["tile_size_y"])
    return (-(-size // covered[0]), -(-size // covered[1])), block


def scratch(size):
    """Return an array for the temperatures of every other launch."""
    return (np.empty((size, size), dtype=np.float32),)


def launches(config, size):
    """Return for each launch its number, the number of launches, and its steps."""
    each = config["temporal_tiling_factor"]
    total = -(-STEPS // each)
    return [(number, total, min(each, STEPS - number * each)) for number in range(total)]
