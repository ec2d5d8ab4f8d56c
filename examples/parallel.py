"""Evaluate in parallel: any executor of concurrent.futures works, with a new suggestion for each finished one.

With ahead=4, the next four proposals are computed in the background, so that a free worker gets one at once.

Run it with: python examples/parallel.py [EVALUATIONS]
"""

import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from baco_like import Infeasible, MaxEvals, MaxTime, Permutation, Real, Space, Workers, tune

space = Space(
    {
        "step": Real(1e-4, 1.0, log=True),
        "depth": [1, 2, 4, 8, 16],
        "passes": Permutation(["inline", "unroll", "vectorise", "schedule"], metric="kendall"),
    },
    constraints=["pos(passes, 'unroll') < pos(passes, 'vectorise')"],
)


def evaluate(trial):
    """Return a made-up value after a pause; some configurations cannot run at all."""
    time.sleep(0.02)
    if trial["step"] * trial["depth"] > 2:
        raise Infeasible("out of registers", failed="compile")
    return (
        1
        + abs(math.log10(trial["step"]) + 2)
        + trial["passes"].index("inline")
        + 8 / trial["depth"]
    )


def main(evaluations):
    with ThreadPoolExecutor(4) as pool:
        stop = MaxEvals(evaluations) | MaxTime(120)
        result = tune(evaluate, space, stop=stop, workers=Workers(executor=pool, ahead=4), seed=1)
    print(f"ended: {result.reason}; best {result.best_value:.3f} with {result.best_config}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
