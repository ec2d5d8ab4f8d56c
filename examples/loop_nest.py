"""Tune loop order and tiles of a C matrix multiplication from Python: generated, compiled, checked and timed.

Run it with: python examples/loop_nest.py [EVALUATIONS]
"""

import sys
from pathlib import Path

from baco_like import MaxEvals, Optimizer, Ordinal, Permutation, Space, run
from baco_like.evaluators import CKernelEvaluator, CKernelSettings

PROBLEM = Path(__file__).parent / "kernels" / "c_loop_nest.py"
LOOPS = ["io", "jo", "ko", "ii", "ji", "ki"]  # from tile to tile, then within a tile
TILES = Ordinal([1, 4, 8, 16, 32, 64], log=True, default=1)


def main(evaluations):
    inside = [f"pos(order, '{loop}o') < pos(order, '{loop}i')" for loop in "ijk"]
    space = Space(
        {
            "order": Permutation(LOOPS, default=tuple(LOOPS)),
            "ti": TILES,
            "tj": TILES,
            "tk": TILES,
        },
        constraints=inside,
    )
    evaluator = CKernelEvaluator(space, CKernelSettings(PROBLEM, size=64))
    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    plain = optimizer.trials[0]
    print(f"default {plain.value:.3f} ms, best {optimizer.best_value:.3f} ms")
    print(optimizer.best_config)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
