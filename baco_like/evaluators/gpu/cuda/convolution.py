"""A 2-D convolution in CUDA, with the parameters of van Werkhoven et al. and of the 2022 survey (Table V).

The filter is 15 by 15 as there; it computes what `evaluators.gpu.opencl.convolution` computes. That a tile of
the image does not fit in shared memory, or its sums in registers, is found by trying.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from baco_like._typing import Rng
from baco_like.evaluators.gpu.opencl.convolution import expected, image_and_filter
from baco_like.evaluators.kernels.domains import count, switch
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.spaces.space import Space

__all__ = [
    "CONSTANTS",
    "DOMAINS",
    "FILTER",
    "KERNEL",
    "SOURCE",
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
    "block_size_x": count(16),
    "block_size_y": count(16),
    "tile_size_x": count(),
    "tile_size_y": count(),
    "use_padding": switch(),
    "read_only": switch(),
}


def space(size: int) -> Space:
    """Return the space: threads of a block, pixels of a thread, padding in shared memory, the read-only cache.

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


def inputs(size: int, rng: Rng) -> tuple[NDArray[Any], ...]:
    """Return the image, ``(size + FILTER - 1,)`` squared, and the filter."""
    return image_and_filter(size, FILTER, rng)


def macros(size: int) -> dict[str, int]:
    """Return what the source wants to know besides the configuration."""
    return {"SIZE": size, "FILTER": FILTER}


def launch(config: Mapping[str, Any], size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and the block: as many blocks as cover the result."""
    block = (config["block_size_x"], config["block_size_y"])
    covered = (block[0] * config["tile_size_x"], block[1] * config["tile_size_y"])
    return (-(-size // covered[0]), -(-size // covered[1])), block
