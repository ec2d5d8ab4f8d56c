"""Matrix multiplication in Halide, scheduled by place, so that about half of the schedules fail.

The failures are hidden constraints. The innermost loop is vectorised, the next one unrolled and the outermost one
shared by threads, whichever loops these are. ``tail`` says how tiles end that do not divide the size. Halide refuses to
vectorise or share a loop over k (its threads would race for the sums). A tail that is rounded up reads beyond the
matrices, which Halide notices at run time. Large factors make the compilation too slow.
"""

from dataclasses import replace

import halide_matmul as matmul
from halide_matmul import LOOPS, TILES, expected, inputs

from baco_like import Categorical, Ordinal, Permutation, Space
from baco_like.evaluators import kernels

__all__ = ["build", "domains", "expected", "inputs", "space"]

ORDER = ("yo", "xo", "yi", "ko", "ki", "xi")
TAILS = ("guard", "round_up")

DOMAINS = {
    **matmul.DOMAINS,
    "order": replace(matmul.DOMAINS["order"], default=ORDER),
    "tail": kernels.choice(*TAILS),
}


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space; the only known constraints put a loop over tiles outside the loop within the tile.

    Args:
        size: Rows of the matrices; no tile is larger.
    """
    tiles = [tile for tile in sorted([*TILES, 24, 48, 96]) if 4 <= tile <= size]
    return Space(
        {
            "order": Permutation(list(LOOPS), default=ORDER),
            "tx": Ordinal(tiles, log=True, default=tiles[0]),
            "ty": Ordinal(tiles, log=True, default=tiles[0]),
            "tk": Ordinal(tiles, log=True, default=tiles[0]),
            "vec": Ordinal([1, 2, 4, 8, 16], log=True, default=1),
            "unroll": Ordinal([1, 2, 4, 8], log=True, default=1),
            "parallel": Categorical([False, True], default=False),
            "tail": Categorical(list(TAILS), default="guard"),
        },
        constraints=[f"pos(order, '{axis}o') < pos(order, '{axis}i')" for axis in "xyk"],
    )


def build(config, a, b):
    """Return the scheduled `halide.Func` of a configuration for two buffers."""
    import halide as hl

    product, x, y, k = matmul.algorithm(a, b)
    loops = matmul.named_loops()
    guard = hl.TailStrategy.GuardWithIf
    tail = guard if config["tail"] == "guard" else hl.TailStrategy.RoundUp
    update = product.update()
    update.split(x, loops["xo"], loops["xi"], config["tx"], tail)
    update.split(y, loops["yo"], loops["yi"], config["ty"], tail)
    update.split(k, loops["ko"], loops["ki"], config["tk"], guard)
    *outer, second, innermost = (loops[name] for name in config["order"])
    update.reorder(innermost, second, *reversed(outer))
    if config["vec"] > 1:
        update.vectorize(innermost, config["vec"])
    if config["unroll"] > 1:
        update.unroll(second, config["unroll"])
    if config["parallel"]:
        update.parallel(outer[0])
    return product
