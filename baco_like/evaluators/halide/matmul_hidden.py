"""Matrix multiplication in Halide, scheduled by place, so that about half of the schedules fail.

No known constraint says which. The innermost loop is vectorised, the next one unrolled and the outermost shared by
threads, whichever they are, and tiles that do not divide the size end as ``tail`` says. Where a loop over k is
vectorised or shared Halide refuses (its threads would race for the sums); a tail that is rounded up reads beyond the
matrices, which Halide sees when it runs; large factors take the compiler beyond any limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from baco_like.evaluators.halide import matmul
from baco_like.evaluators.halide.matmul import LOOPS, TILES, expected, inputs
from baco_like.evaluators.kernels.domains import choice
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.spaces.space import Space

__all__ = ["DOMAINS", "build", "expected", "inputs", "space"]

ORDER = ("yo", "xo", "yi", "ko", "ki", "xi")
TAILS = ("guard", "round_up")

DOMAINS = {
    **matmul.DOMAINS,
    "order": replace(matmul.DOMAINS["order"], default=ORDER),
    "tail": choice(*TAILS),
}


def space(size: int) -> Space:
    """Return the space; that a loop over tiles stands outside the loop within is all that is known.

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


def build(config: Mapping[str, Any], a: Any, b: Any) -> Any:
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
