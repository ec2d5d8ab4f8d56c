"""Which of many points are inside a polygon, in CUDA, with the parameters of the 2022 survey (Table V).

All 8,184 configurations are valid. Blocks that need more registers than the device has are a hidden constraint: the
evaluation fails. In contrast to the papers, copies to and from the device are not measured.
"""

from pathlib import Path

import numpy as np

from baco_like import Categorical, Ordinal, Space
from baco_like.evaluators import kernels

VERTICES = 600
KERNEL = "pnpoly"
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="ascii")
CONSTANTS = {"vertices": 1, "slopes": 2}

_MARGIN = 1e-4
"""Smallest distance of a point to an edge along its ray: closer, single precision would decide its side by chance."""

DOMAINS = {
    "block_size_x": kernels.count(256),
    "tile_size": kernels.count(1, 64),
    "between_method": kernels.number_below(4),
    "use_precomputed_slopes": kernels.switch(),
    "use_method": kernels.number_below(3),
}


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space: threads per block, points per thread, and the methods to find and count the crossings.

    Args:
        size: Number of points; any number has the same space.
    """
    return Space(
        {
            "block_size_x": Ordinal(list(range(32, 993, 32)), log=True, default=256),
            "tile_size": Ordinal([1, *range(2, 21, 2)], log=True, default=1),
            "between_method": Categorical([0, 1, 2, 3], default=0),
            "use_precomputed_slopes": Categorical([False, True], default=False),
            "use_method": Categorical([0, 1, 2], default=0),
        }
    )


def inputs(size, rng):
    """Return points (size, 2), the vertices of a star (VERTICES, 2), and the inverse slopes of its edges."""
    angles = np.linspace(0.0, 2.0 * np.pi, VERTICES, endpoint=False)
    radii = rng.uniform(0.3, 0.9, VERTICES)
    star = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1).astype(np.float32)
    points = rng.uniform(-1.0, 1.0, (size, 2)).astype(np.float32)
    unclear = np.flatnonzero(_distance(points, star) < _MARGIN)
    while unclear.size:
        points[unclear] = rng.uniform(-1.0, 1.0, (unclear.size, 2)).astype(np.float32)
        unclear = unclear[_distance(points[unclear], star) < _MARGIN]
    before = np.roll(star, 1, axis=0)
    return points, star, (before[:, 0] - star[:, 0]) / (before[:, 1] - star[:, 1])


def expected(points, star, slopes):
    """Return 1 for points inside, otherwise 0, shape (size,), computed in double precision."""
    inside = np.zeros(len(points), dtype=np.int32)
    for crossed, right in _edges(points, star):
        inside ^= (crossed & (right > 0)).astype(np.int32)
    return inside


def _distance(points, star):
    """Return the distance of each point to the next edge along its row; 0 if a vertex is in its row."""
    least = np.full(len(points), np.inf)
    for crossed, right in _edges(points, star):
        least = np.where(crossed, np.minimum(least, np.abs(right)), least)
    on_row = np.isin(points[:, 1], star[:, 1])
    return np.where(on_row, 0.0, least)


def _edges(points, star):
    """Yield for each edge the mask of the points at its height, and its distance to their right."""
    x, y = points.astype(np.float64).T
    wide = star.astype(np.float64)
    for (end_x, end_y), (begin_x, begin_y) in zip(wide, np.roll(wide, 1, axis=0), strict=True):
        if begin_y == end_y:
            continue
        crossed = (end_y > y) != (begin_y > y)
        yield crossed, (begin_x - end_x) / (begin_y - end_y) * (y - end_y) + end_x - x


def macros(size):
    """Return additional macros of the source."""
    return {"SIZE": size, "VERTICES": VERTICES}


def launch(config, size):
    """Return the grid and the block."""
    return (-(-size // (config["block_size_x"] * config["tile_size"])),), (config["block_size_x"],)
