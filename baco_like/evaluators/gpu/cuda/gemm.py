"""A matrix multiplication in CUDA, with the parameters that CLBlast's OpenCL kernel has made common.

The kernel is ours; matrices, parameters and known constraints are those of `baco_like.evaluators.gpu.opencl.gemm`. The
space is the one of the 2022 survey (Table V), in which KWG, KWI, STRM and STRN have one value each. That a block needs
more shared memory or registers than there are is found by trying.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baco_like.evaluators.gpu.opencl.gemm import CONSTRAINTS, expected, inputs, macros
from baco_like.evaluators.gpu.opencl.gemm import DOMAINS as OPENCL_DOMAINS
from baco_like.evaluators.kernels.domains import count
from baco_like.exceptions import SpaceError
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.spaces.space import Space

__all__ = [
    "DOMAINS",
    "KERNEL",
    "SOURCE",
    "expected",
    "inputs",
    "launch",
    "macros",
    "space",
]

KERNEL = "gemm"
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="ascii")
DOMAINS = {**OPENCL_DOMAINS, "KWG": count(32, 512)}


def space(size: int) -> Space:
    """Return the space of ten parameters: 82,944 configurations, 17,956 of them valid, with a size that 128 divides.

    Args:
        size: Rows of the matrices, a multiple of 32; the tiles divide it.

    Raises:
        SpaceError: It is no multiple of 32.
    """
    if size % 32:
        raise SpaceError(f"size = {size}: expected a multiple of 32, which is KWG")
    tiles = [tile for tile in (16, 32, 64, 128) if size % tile == 0]
    numbers = {
        **{name: tiles for name in ("MWG", "NWG")},
        **{name: [8, 16, 32] for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")},
        **{name: [1, 2, 4, 8] for name in ("VWM", "VWN")},
    }
    fixed = {"KWG": DOMAINS["KWG"].default, "KWI": DOMAINS["KWI"].default}
    return Space(
        {
            **{
                name: Ordinal(values, log=True, default=DOMAINS[name].default)
                for name, values in numbers.items()
            },
            **{name: Categorical([False, True], default=False) for name in ("SA", "SB")},
        },
        constraints=[_with(text, fixed) for text in CONSTRAINTS if text != "KWG % KWI == 0"],
    )


def _with(constraint: str, fixed: Mapping[str, int]) -> str:
    """Return a constraint with numbers in the places of what the space leaves out."""
    for name, value in fixed.items():
        constraint = constraint.replace(name, str(value))
    return constraint


def launch(config: Mapping[str, Any], size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and the block."""
    grid = (size // config["MWG"], size // config["NWG"])
    return grid, (config["MDIMC"], config["NDIMC"])
