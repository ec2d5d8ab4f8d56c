"""Start from earlier results in three ways: same task, the best of another run first, related task.

Run it with: python examples/warm_start.py [EVALUATIONS]
"""

import math
import sys
import tempfile
from pathlib import Path

from baco_like import Integer, MaxEvals, Optimizer, Space, WarmStart, tune

space = Space(
    {"tile": [8, 16, 32, 64, 128, 256], "unroll": Integer(1, 8), "vector": [1, 2, 4, 8]},
    constraints=["unroll * vector <= tile"],
)


def kernel(cores, cache):
    """Return a made-up kernel on a device: a function from configurations to milliseconds."""

    def measure(trial):
        fits = 1 + 0.3 * (math.log2(trial["tile"]) - cache) ** 2
        busy = 1 + 0.1 * abs(trial["unroll"] - 5) + 0.4 * abs(math.log2(trial["vector"]) - 2)
        return 100 / cores * fits * busy

    return measure


def main(evaluations):
    old, new = kernel(cores=8, cache=5), kernel(cores=96, cache=5.5)
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "old_gpu.jsonl"
        tune(old, space, stop=MaxEvals(40), storage=journal, progress=False)

        prior = WarmStart(journal, mode="prior")  # the old device ranks configurations similarly
        first = WarmStart(journal, mode="configs", best=3)  # only its three best, tried first
        for name, warm_start in (("nothing", None), ("the best", first), ("a model", prior)):
            result = tune(
                new, space, stop=MaxEvals(evaluations), warm_start=warm_start, progress=False
            )
            found = [trial.value for trial in result.trials].index(result.best_value) + 1
            print(f"{name} of the old device: best {result.best_value:.3f} ms after {found}")

        table = Path(folder) / "old_gpu.json"  # other tools can read and write this file
        Optimizer.load(journal).export("kernel_tuner", table)
        again = Optimizer(space, warm_start=table)  # the same device again: results are data
        print(f"known already: {len(again.trials)} results, best {again.best_value:.3f} ms")
        print("left out:", dict(again.warm_start[0].left_out) or "nothing")
        trial = again.suggest()
        print("next:", dict(trial), "since", again.why(trial))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
