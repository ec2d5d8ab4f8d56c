"""A matrix multiplication in CUDA, with the parameters that CLBlast's OpenCL kernel has made common.

The matrices, parameters and known constraints are those of opencl_gemm.py. The space is the one of the 2022 survey
(Table V), in which KWG, KWI, STRM and STRN have one value each. Blocks that need more shared memory or registers than
the device has are hidden constraints: the evaluation fails.
"""

from pathlib import Path

from opencl_gemm import CONSTRAINTS, expected, inputs, macros
from opencl_gemm import DOMAINS as OPENCL_DOMAINS

from baco_like import Categorical, Ordinal, Space, SpaceError
from baco_like.evaluators import kernels

__all__ = [
    "KERNEL",
    "SOURCE",
    "domains",
    "expected",
    "inputs",
    "launch",
    "macros",
    "space",
]

KERNEL = "gemm"
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="ascii")
DOMAINS = {**OPENCL_DOMAINS, "KWG": kernels.count(32, 512)}


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space of ten parameters; if 128 divides the size, 17,956 of 82,944 configurations are valid.

    Args:
        size: Rows of the matrices, a multiple of 32; the tiles divide it.

    Raises:
        SpaceError: The size is not a multiple of 32.
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


def _with(constraint, fixed):
    """Return a constraint with numbers for the parameters that the space leaves out."""
    for name, value in fixed.items():
        constraint = constraint.replace(name, str(value))
    return constraint


def launch(config, size):
    """Return the grid and the block."""
    grid = (size // config["MWG"], size // config["NWG"])
    return grid, (config["MDIMC"], config["NDIMC"])
