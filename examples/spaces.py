"""Tour of spaces: parameters, known constraints, and queries of the feasible configurations.

Run it with: python examples/spaces.py [SAMPLES]
"""

import json
import sys

import numpy as np

from baco_like import (
    Categorical,
    ConfigError,
    Gaussian,
    Integer,
    Ordinal,
    Permutation,
    PiecewiseLinear,
    Real,
    Space,
)
from baco_like.spaces import design, neighbourhoods

space = Space(
    {
        "bx": Ordinal([16, 32, 64, 128, 256], log=True, default=32),
        "by": [
            1,
            2,
            4,
            8,
            16,
        ],  # short for an Ordinal; a list of strings or booleans is a Categorical
        "unroll": Integer(1, 32, log=True),
        "flags": Categorical(["-O2", "-O3", "-Ofast"], prior=[1, 2, 1]),
        "loops": Permutation(["i", "j", "k"], metric="spearman"),
    },
    constraints=[
        "bx * by <= 1024",
        "bx % unroll == 0",
        "pos(loops, 'k') > pos(loops, 'i')",
        lambda bx, unroll: bx >= unroll,
    ],
)


def main(samples):
    rng = np.random.default_rng(0)
    print(f"{space.feasible_size:,} of {space.size:,} configurations are feasible")
    print("bounds that are left:", space.bounds())

    config = space.sample(1, seed=0)[0]
    print("a uniform sample:", config)
    wrong = config | {"bx": 256, "by": 16, "unroll": 3}
    print("another is wrong because:", *space.explain(wrong), sep="\n    ")
    try:
        space.validate(config | {"flags": "-O9"})
    except ConfigError as error:
        print("refused:", error)

    # Sets of configurations are arrays of codes; every feasible one has a number.
    codes = space.encode([config])
    (number,) = space.feasible.index(codes)
    assert space.decode(space.feasible.unindex([number])) == [config]
    print(
        f"it is number {number}; the last is",
        space.decode(space.feasible.unindex([space.feasible_size - 1]))[0],
    )
    for name, find_neighbours in (
        ("one value changed", neighbourhoods.hamming),
        ("next values", neighbourhoods.adjacent),
    ):
        rows, _ = find_neighbours(space, codes, rng)
        print(f"neighbours, {name}: {len(rows)}, such as", space.decode(rows[:1])[0])
    far = np.array([[4.0, 4.0, 2.0, 0.0, 2.0, 1.0, 0.0]])  # breaks every constraint
    print(
        "nearest feasible to",
        space.decode(far)[0],
        "is",
        space.decode(space.feasible.nearest(far, rng))[0],
    )

    def is_observed(rows):  # designs skip the rows for which it returns True
        return np.zeros(len(rows), dtype=bool)

    for draw in (design.latin_hypercube, design.maximin, design.from_prior):
        rows = draw(space, samples, rng, is_observed)
        spread = sorted({config["bx"] for config in space.decode(rows)})
        print(f"{draw.__name__}: {len(rows)} configurations, bx in {spread}")

    # A space with reals has no count. A prior says which values you expect to be good.
    mixed = Space(
        {
            "eps": Real(1e-6, 1e-1, log=True, prior=Gaussian(1e-3, 1.0)),
            "share": Real(0.0, 1.0, prior=PiecewiseLinear([1.0, 4.0, 1.0])),
            "n": [1, 2, 4],
        },
        ["eps * n <= 0.1"],
    )
    print(
        "with a real:",
        mixed.feasible_size,
        "configurations;",
        f"{mixed.acceptance:.0%} of draws pass;",
        mixed.sample(1)[0],
    )

    kernel_tuner = Space.from_kernel_tuner(
        {"block_size_x": [32, 64, 128], "tile": [1, 2, 4], "vector": [1, 2, 4]},
        ["block_size_x * tile <= 256", lambda p: p["tile"] % p["vector"] == 0],
    )
    print("from Kernel Tuner:", kernel_tuner)
    texts = Space(space.parameters, space.constraints[:3])  # callables cannot be written to a file
    again = Space.from_dict(json.loads(json.dumps(texts.to_dict())))
    assert again == texts
    table = Space.from_dataframe(texts.sample(samples))
    assert Space.from_dict(json.loads(json.dumps(table.to_dict()))) == table
    print(f"written down and read back: {again} and a table of {table.feasible_size} rows")

    best = min(space, key=lambda c: abs(c["bx"] * c["by"] - 500) + c["unroll"])
    print("the best for a made-up cost, by looking at all:", best)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
