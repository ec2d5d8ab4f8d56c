"""A blur of 3 by 3 in two stages in Halide: where to compute and to store the first stage?

The first stage sums along rows, the second along columns, each divided by 3 (float32). The second is split into tiles;
its four loops (yo, xo, yi, xi) have any order. The first is computed within a loop of the second (``compute``), before
the second (``root``), or again for every use (``inline``). It is stored within a loop further out (``store``), so that
overlapping parts are computed once. Halide refuses a store inside the compute, a vectorised or parallel loop between
the two, and vectors that reach beyond the image.
"""

import numpy as np

from baco_like import Categorical, Ordinal, Permutation, Space
from baco_like.evaluators import kernels

LOOPS = ("yo", "xo", "yi", "xi")
COMPUTE = ("inline", "root", *LOOPS)
STORE = ("same", "root", *LOOPS)

DOMAINS = {
    "order": kernels.order_of(*LOOPS),
    "tx": kernels.count(8),
    "ty": kernels.count(8),
    "vec": kernels.count(high=64),
    "compute": kernels.choice(*COMPUTE),
    "store": kernels.choice(*STORE),
    "vec_first": kernels.count(high=64),
    "parallel": kernels.switch(),
}


def domains():
    """Return the allowed values of each parameter."""
    return DOMAINS


def space(size):
    """Return the space of schedules; ``store`` matters only if the first stage is computed within a loop.

    Args:
        size: Rows of the image; no tile is larger.
    """
    tiles = [tile for tile in (8, 16, 32, 64, 128, 256, 512) if tile <= size]
    return Space(
        {
            "order": Permutation(list(LOOPS), default=LOOPS),
            "tx": Ordinal(tiles, log=True, default=tiles[0]),
            "ty": Ordinal([1, 2, 4, *tiles], log=True, default=tiles[0]),
            "vec": Ordinal([1, 4, 8, 16], log=True, default=1),
            "compute": Categorical(list(COMPUTE), default="inline"),
            "store": Categorical(list(STORE), default="same"),
            "vec_first": Ordinal([1, 4, 8, 16], log=True, default=1),
            "parallel": Categorical([False, True], default=False),
        },
        constraints=[
            "store == 'same' or compute not in ['inline', 'root']",
            "vec_first == 1 or compute != 'inline'",
        ],
    )


def inputs(size, rng):
    """Return the image with a border of one, (size + 2, size + 2)."""
    return (rng.uniform(0.0, 1.0, (size + 2, size + 2)).astype(np.float32),)


def expected(image):
    """Return the blurred image, (size, size), computed in double precision."""
    wide = image.astype(np.float64)
    rows = (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) / 3
    return ((rows[:-2] + rows[1:-1] + rows[2:]) / 3).astype(np.float32)


def build(config, image):
    """Return the scheduled `halide.Func` of a configuration for a buffer."""
    import halide as hl

    x, y = hl.Var("x"), hl.Var("y")
    loops = {name: hl.Var(name) for name in LOOPS}
    first, second = hl.Func("first"), hl.Func("second")
    first[x, y] = (image[x, y] + image[x + 1, y] + image[x + 2, y]) / hl.f32(3)
    second[x, y] = (first[x, y] + first[x, y + 1] + first[x, y + 2]) / hl.f32(3)
    second.split(x, loops["xo"], loops["xi"], config["tx"])
    second.split(y, loops["yo"], loops["yi"], config["ty"])
    second.reorder(*(loops[name] for name in reversed(config["order"])))
    if config["vec"] > 1:
        second.vectorize(loops["xi"], config["vec"])
    if config["parallel"]:
        second.parallel(loops[config["order"][0]])
    if config["compute"] != "inline":
        _place(first, second, loops, config)
        if config["vec_first"] > 1:
            first.vectorize(x, config["vec_first"])
    return second


def _place(first, second, loops, config):
    compute, store = config["compute"], config["store"]
    if compute == "root":
        first.compute_root()
    else:
        first.compute_at(second, loops[compute])
    if store == "root":
        first.store_root()
    elif store != "same":
        first.store_at(second, loops[store])
