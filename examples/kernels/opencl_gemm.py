"""A matrix multiplication in OpenCL, with the parameters that CLBlast's kernel has made common.

The known constraints make work items cover the tiles. Configurations that need more local memory or registers than the
device has are hidden constraints: the evaluation fails.
"""

from pathlib import Path

import numpy as np

from baco_like import Categorical, Ordinal, Space
from baco_like.evaluators import kernels

KERNEL = "gemm"
SOURCE = Path(__file__).with_suffix(".cl").read_text(encoding="ascii")

DOMAINS = {
    **{
        name: kernels.count(default, 512)
        for name, default in (("MWG", 16), ("NWG", 16), ("KWG", 16))
    },
    **{name: kernels.count(8, 512) for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")},
    "KWI": kernels.count(2, 64),
    "VWM": kernels.count(1, 16),
    "VWN": kernels.count(1, 16),
    **{name: kernels.switch() for name in ("STRM", "STRN", "SA", "SB")},
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


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space of fourteen parameters.

    Args:
        size: Rows of the matrices; the tiles divide it.

    Raises:
        SpaceError: No tile divides the size.
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


def inputs(size, rng):
    """Return A, stored by columns, and B, stored by rows."""
    a, b = (rng.uniform(-1.0, 1.0, (size, size)).astype(np.float32) for _ in range(2))
    return a, b


def expected(a, b):
    """Return the product, stored by columns, computed in double precision."""
    return (b.astype(np.float64).T @ a.astype(np.float64)).astype(np.float32)


def macros(size):
    """Return additional macros of the source."""
    return {"SIZE": size}


def launch(config, size):
    """Return the global and the local size."""
    local = (config["MDIMC"], config["NDIMC"])
    return (size // config["MWG"] * local[0], size // config["NWG"] * local[1]), local
