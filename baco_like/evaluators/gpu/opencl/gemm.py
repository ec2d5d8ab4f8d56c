"""A matrix multiplication in OpenCL, with the parameters that CLBlast's kernel has made common.

The kernel is ours. The known constraints are those that the tiles need to be covered; that a configuration needs more
local memory than there is, or more registers than work items can have, is found by trying.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like._typing import Rng
from baco_like.evaluators.kernels.domains import count, switch
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.spaces.space import Space

KERNEL = "gemm"
SOURCE = Path(__file__).with_suffix(".cl").read_text(encoding="ascii")

DOMAINS = {
    **{name: count(default, 512) for name, default in (("MWG", 16), ("NWG", 16), ("KWG", 16))},
    **{name: count(8, 512) for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")},
    "KWI": count(2, 64),
    "VWM": count(1, 16),
    "VWN": count(1, 16),
    **{name: switch() for name in ("STRM", "STRN", "SA", "SB")},
}

CONSTRAINTS = (
    "KWG % KWI == 0",
    "MWG % (MDIMC * VWM) == 0",
    "NWG % (NDIMC * VWN) == 0",
    "MWG % (MDIMA * VWM) == 0",
    "NWG % (NDIMB * VWN) == 0",
    "MDIMC * NDIMC % MDIMA == 0",
    "MDIMC * NDIMC % NDIMB == 0",
    "KWG % (MDIMC * NDIMC // MDIMA) == 0",
    "KWG % (MDIMC * NDIMC // NDIMB) == 0",
)


def space(size: int) -> Space:
    """Return the space of fourteen parameters.

    Args:
        size: Rows of the matrices; the tiles divide it.

    Raises:
        SpaceError: No tile does.
    """
    tiles = [tile for tile in (16, 32, 64, 128) if size % tile == 0]
    numbers = {
        "MWG": tiles,
        "NWG": tiles,
        "KWG": [tile for tile in tiles if tile <= 32],
        **{name: [8, 16, 32] for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")},
        "KWI": [2, 8],
        "VWM": [1, 2, 4, 8],
        "VWN": [1, 2, 4, 8],
    }
    return Space(
        {
            **{
                name: Ordinal(values, log=True, default=DOMAINS[name].default)
                for name, values in numbers.items()
            },
            **{
                name: Categorical([False, True], default=False)
                for name in ("STRM", "STRN", "SA", "SB")
            },
        },
        constraints=CONSTRAINTS,
    )


def inputs(size: int, rng: Rng) -> tuple[NDArray[Any], ...]:
    """Return A, stored by columns, and B, stored by rows."""
    a, b = (rng.uniform(-1.0, 1.0, (size, size)).astype(np.float32) for _ in range(2))
    return a, b


def expected(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the product, stored by columns, computed in double precision."""
    return (b.astype(np.float64).T @ a.astype(np.float64)).astype(np.float32)


def macros(size: int) -> dict[str, int]:
    """Return what the source wants to know besides the configuration."""
    return {"SIZE": size}


def launch(config: Mapping[str, Any], size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the global and the local size."""
    local = (config["MDIMC"], config["NDIMC"])
    return (size // config["MWG"] * local[0], size // config["NWG"] * local[1]), local
