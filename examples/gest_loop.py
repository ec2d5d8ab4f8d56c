"""Use a generator of the gest-api standard, in the loop of libEnsemble, Xopt and optimas.

Run it with: python examples/gest_loop.py [EVALUATIONS]
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from gest_api.vocs import VOCS

from baco_like import Ordinal, Permutation, Space
from baco_like.integrations import BacoGenerator, vocs_variables

WORKERS = 4

space = Space(
    {
        "tile": Ordinal([1, 2, 4, 8, 16, 32, 64], log=True, default=8),
        "threads": Ordinal([1, 2, 4, 8], log=True, default=1),
        "loops": Permutation(["i", "j", "k"], default=["i", "j", "k"]),
    },
    constraints=["tile * threads <= 128", "pos(loops, 'i') < pos(loops, 'k')"],
)
vocs = VOCS(
    variables=vocs_variables(space),
    objectives={"time": "MINIMIZE"},
    observables={"failed"},
)


def evaluate(point):
    """Return made-up milliseconds; compile and run here."""
    if point["tile"] == 64:
        return {**point, "time": float("nan"), "failed": "compile"}
    slow = not point["loops"].startswith("i")
    return {
        **point,
        "time": abs(point["tile"] - 16) / 4 + 8 / point["threads"] + slow,
        "failed": "",
    }


def main(evaluations):
    generator = BacoGenerator(vocs, space, seed=1, batch=WORKERS, budget=evaluations)
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in range(0, evaluations, WORKERS):
            generator.ingest(list(pool.map(evaluate, generator.suggest())))
    best = generator.optimizer.best
    print(f"best {best.value:.2f} ms with {dict(best.config)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
