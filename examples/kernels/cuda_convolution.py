"""A 2-D convolution in CUDA, with the parameters of van Werkhoven et al. and of the 2022 survey (Table V).

The filter is 15 by 15 as in the papers, and the result is the one of opencl_convolution.py. Tiles of the image that do
not fit in shared memory, and sums that do not fit in registers, are hidden constraints: the evaluation fails.
"""

from pathlib import Path

from opencl_convolution import expected, image_and_filter

from baco_like import Categorical, Ordinal, Space
from baco_like.evaluators import kernels

__all__ = [
    "CONSTANTS",
    "FILTER",
    "KERNEL",
    "SOURCE",
    "domains",
    "expected",
    "inputs",
    "launch",
    "macros",
    "space",
]

FILTER = 15
KERNEL = "convolution"
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="ascii")
CONSTANTS = {"weights": 1}

DOMAINS = {
    "block_size_x": kernels.count(16),
    "block_size_y": kernels.count(16),
    "tile_size_x": kernels.count(),
    "tile_size_y": kernels.count(),
    "use_padding": kernels.switch(),
    "read_only": kernels.switch(),
}


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space: threads per block, pixels per thread, padding in shared memory, the read-only cache.

    Args:
        size: Rows of the result; any size has the same space.
    """
    blocks = [1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128]
    tiles = list(range(1, 9))
    return Space(
        {
            "block_size_x": Ordinal(blocks, log=True, default=16),
            "block_size_y": Ordinal([1, 2, 4, 8, 16, 32], log=True, default=16),
            "tile_size_x": Ordinal(tiles, log=True, default=1),
            "tile_size_y": Ordinal(tiles, log=True, default=1),
            "use_padding": Categorical([False, True], default=False),
            "read_only": Categorical([False, True], default=False),
        },
        constraints=[
            "32 <= block_size_x * block_size_y <= 1024",
            "not use_padding or block_size_x % 32 != 0",
        ],
    )


def inputs(size, rng):
    """Return the image, (size + FILTER - 1) squared, and the filter."""
    return image_and_filter(size, FILTER, rng)


def macros(size):
    """Return additional macros of the source."""
    return {"SIZE": size, "FILTER": FILTER}


def launch(config, size):
    """Return the grid and the block; the blocks cover the result."""
    block = (config["block_size_x"], config["block_size_y"])
    covered = (block[0] * config["tile_size_x"], block[1] * config["tile_size_y"])
    return (-(-size // covered[0]), -(-size // covered[1])), block
