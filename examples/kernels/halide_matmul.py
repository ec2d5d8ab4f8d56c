"""Matrix multiplication in Halide, scheduled so that every configuration is correct.

``C = A B`` of square float32 matrices. Rows are y, columns x, the sum runs over k; each is split into an outer loop
over tiles (yo, xo, ko) and an inner one within the tile (yi, xi, ki), and the six have any order. Only xi is
vectorised, only yi unrolled and only yo shared by threads: these loops do not carry the sum.
"""

import numpy as np

from baco_like import Categorical, Ordinal, Permutation, Space
from baco_like.evaluators import kernels

LOOPS = ("yo", "xo", "ko", "yi", "xi", "ki")

DOMAINS = {
    "order": kernels.order_of(*LOOPS),
    "tx": kernels.count(),
    "ty": kernels.count(),
    "tk": kernels.count(),
    "vec": kernels.count(high=64),
    "unroll": kernels.count(high=64),
    "parallel": kernels.switch(),
}

TILES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space of schedules: the order of six loops, three tiles, vectors, unrolling, threads.

    Args:
        size: Rows of the matrices; no tile is larger.
    """
    tiles = [tile for tile in TILES if tile <= size]
    return Space(
        {
            "order": Permutation(list(LOOPS), default=LOOPS),
            "tx": Ordinal(tiles, log=True, default=1),
            "ty": Ordinal(tiles, log=True, default=1),
            "tk": Ordinal(tiles, log=True, default=1),
            "vec": Ordinal([1, 2, 4, 8, 16], log=True, default=1),
            "unroll": Ordinal([1, 2, 4, 8], log=True, default=1),
            "parallel": Categorical([False, True], default=False),
        }
    )


def inputs(size, rng):
    """Return A and B, (size, size) each."""
    a, b = (rng.uniform(-1.0, 1.0, (size, size)).astype(np.float32) for _ in range(2))
    return a, b


def expected(a, b):
    """Return NumPy's product, computed in double precision."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def build(config, a, b):
    """Return the scheduled `halide.Func` of a configuration for two buffers."""
    import halide as hl

    product, x, y, k = algorithm(a, b)
    loops = named_loops()
    update = product.update()
    update.split(x, loops["xo"], loops["xi"], config["tx"], hl.TailStrategy.GuardWithIf)
    update.split(y, loops["yo"], loops["yi"], config["ty"], hl.TailStrategy.GuardWithIf)
    update.split(k, loops["ko"], loops["ki"], config["tk"], hl.TailStrategy.GuardWithIf)
    update.reorder(*(loops[name] for name in reversed(config["order"])))
    if config["vec"] > 1:
        update.vectorize(loops["xi"], config["vec"], hl.TailStrategy.GuardWithIf)
    if config["unroll"] > 1:
        update.unroll(loops["yi"], config["unroll"], hl.TailStrategy.GuardWithIf)
    if config["parallel"]:
        update.parallel(loops["yo"])
    return product


def algorithm(a, b):
    """Return the `halide.Func` of the product and its variables x, y and k.

    Halide's first index is NumPy's last one.
    """
    import halide as hl

    x, y = hl.Var("x"), hl.Var("y")
    k = hl.RDom([hl.Range(0, a.dim(0).extent())], "k")
    product = hl.Func("product")
    product[x, y] = hl.f32(0)
    product[x, y] += a[k.x, y] * b[x, k.x]
    return product, x, y, k.x


def named_loops():
    """Return the variable of each loop; those over k are reduction variables."""
    import halide as hl

    return {name: hl.RVar(name) if name[0] == "k" else hl.Var(name) for name in LOOPS}
