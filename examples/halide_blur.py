"""A schedule in Halide, tuned from Python: a blur in two stages, with hidden constraints.

Run it with: python examples/halide_blur.py [EVALUATIONS]
"""

import sys
from collections import Counter
from pathlib import Path

from baco_like import MaxEvals, Optimizer, run
from baco_like.evaluators import HalideSettings, halide_evaluator, load_problem

PROBLEM = Path(__file__).parent / "kernels" / "halide_blur.py"
SIZE = 512


def main(evaluations):
    space = load_problem(PROBLEM).space(SIZE)
    evaluator = halide_evaluator(space, HalideSettings(PROBLEM, SIZE, timeout=2.0, threads=1))
    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    print("outcomes:", dict(Counter(trial.failure or "ok" for trial in optimizer.trials)))
    plain = optimizer.trials[0]  # the default: neither tiles nor vectors
    print(f"default {plain.value:.3f} ms, best {optimizer.best_value:.3f} ms")
    print(optimizer.best_config)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
