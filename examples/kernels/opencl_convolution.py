"""A 2-D convolution in OpenCL, with the parameters of van Werkhoven et al. and of BAT.

The filter is 15 by 15 in the papers and 7 by 7 here, so that a CPU can run it too. The known constraints are those in
the papers, except for local memory: tiles of the image that do not fit are a hidden constraint.
"""

from pathlib import Path

import numpy as np

from baco_like import Categorical, Ordinal, Space
from baco_like.evaluators import kernels

FILTER = 7
KERNEL = "convolution"
SOURCE = Path(__file__).with_suffix(".cl").read_text(encoding="ascii")

DOMAINS = {
    "block_size_x": kernels.count(16),
    "block_size_y": kernels.count(16),
    "tile_size_x": kernels.count(),
    "tile_size_y": kernels.count(),
    "use_shmem": kernels.switch(),
    "use_padding": kernels.switch(),
    "use_cmem": kernels.switch(True),
}


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space: work group, pixels per work item, local memory and its padding, constant memory.

    Args:
        size: Rows of the result; no work group covers more columns.
    """
    blocks = [16 * i for i in range(1, 17) if 16 * i <= max(size, 16)]
    on = Categorical([False, True], default=False)
    return Space(
        {
            "block_size_x": Ordinal(blocks, log=True, default=16),
            "block_size_y": Ordinal([1, 2, 4, 8, 16], log=True, default=16),
            "tile_size_x": Ordinal([1, 2, 3, 4], log=True, default=1),
            "tile_size_y": Ordinal([1, 2, 3, 4], log=True, default=1),
            "use_shmem": on,
            "use_padding": on,
            "use_cmem": Categorical([False, True], default=True),
        },
        constraints=[
            "block_size_x * block_size_y <= 1024",
            "not use_padding or use_shmem",
            "not use_padding or block_size_x % 32 != 0",
        ],
    )


def inputs(size, rng):
    """Return the image, (size + FILTER - 1) squared, and the filter."""
    return image_and_filter(size, FILTER, rng)


def image_and_filter(size, across, rng):
    """Return an image, (size + across - 1) squared, and a filter, (across, across)."""
    rows = size + across - 1
    image = rng.uniform(0.0, 1.0, (rows, rows)).astype(np.float32)
    return image, rng.uniform(-1.0, 1.0, (across, across)).astype(np.float32)


def expected(image, weights):
    """Return the result, (size, size), computed in double precision."""
    across = len(weights)
    size = len(image) - across + 1
    total = np.zeros((size, size))
    for v in range(across):
        for u in range(across):
            total += float(weights[v, u]) * image[v : v + size, u : u + size]
    return total.astype(np.float32)


def macros(size):
    """Return additional macros of the source."""
    return {"SIZE": size, "FILTER": FILTER}


def launch(config, size):
    """Return the global and the local size: complete work groups that cover the result."""
    local = (config["block_size_x"], config["block_size_y"])
    covered = (local[0] * config["tile_size_x"], local[1] * config["tile_size_y"])
    groups = (-(-size // covered[0]), -(-size // covered[1]))
    return (groups[0] * local[0], groups[1] * local[1]), local
