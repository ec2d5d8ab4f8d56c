"""Which of many points are inside a polygon, in CUDA, with the parameters of the 2022 survey (Table V).

All 8,184 configurations are valid; that a block with many points a thread needs more registers than there are is found
by trying. Other than in the papers, the copies to and from the device are not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like._typing import Rng
from baco_like.evaluators.kernels.domains import count, number_below, switch
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.spaces.space import Space

VERTICES = 600
KERNEL = "pnpoly"
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="ascii")
CONSTANTS = {"vertices": 1, "slopes": 2}

_MARGIN = 1e-4
"""No point is nearer to an edge along its ray: in single precision its side would be chance."""

DOMAINS = {
    "block_size_x": count(256),
    "tile_size": count(1, 64),
    "between_method": number_below(4),
    "use_precomputed_slopes": switch(),
    "use_method": number_below(3),
}


def space(size: int) -> Space:
    """Return the space: threads of a block, points of a thread, and how the crossings are found and counted.

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


def inputs(size: int, rng: Rng) -> tuple[NDArray[Any], ...]:
    """Return points ``(size, 2)``, the vertices of a star ``(VERTICES, 2)``, and the inverse slopes of its edges."""
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


def expected(points: NDArray[Any], star: NDArray[Any], slopes: NDArray[Any]) -> NDArray[Any]:
    """Return 1 for the points that are inside, else 0, ``(size,)``, computed in double precision."""
    inside = np.zeros(len(points), dtype=np.int32)
    for crossed, right in _edges(points, star):
        inside ^= (crossed & (right > 0)).astype(np.int32)
    return inside


def _distance(points: NDArray[Any], star: NDArray[Any]) -> NDArray[Any]:
    """Return how far each point is, along its row, from the next edge; 0 where a vertex is in its row."""
    least = np.full(len(points), np.inf)
    for crossed, right in _edges(points, star):
        least = np.where(crossed, np.minimum(least, np.abs(right)), least)
    on_row = np.isin(points[:, 1], star[:, 1])
    return np.where(on_row, 0.0, least)


def _edges(points: NDArray[Any], star: NDArray[Any]) -> Any:
    """Yield for each edge which points are at its height, and how far to their right it is."""
    x, y = points.astype(np.float64).T
    wide = star.astype(np.float64)
    for (end_x, end_y), (begin_x, begin_y) in zip(wide, np.roll(wide, 1, axis=0), strict=True):
        if begin_y == end_y:
            continue
        crossed = (end_y > y) != (begin_y > y)
        yield crossed, (begin_x - end_x) / (begin_y - end_y) * (y - end_y) + end_x - x


def macros(size: int) -> dict[str, int]:
    """Return what the source wants to know besides the configuration."""
    return {"SIZE": size, "VERTICES": VERTICES}


def launch(config: Mapping[str, Any], size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and the block."""
    return (-(-size // (config["block_size_x"] * config["tile_size"])),), (config["block_size_x"],)
