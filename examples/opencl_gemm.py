"""An OpenCL kernel, tuned from Python: a matrix multiplication on the first device.

Run it with: python examples/opencl_gemm.py [EVALUATIONS]
"""

import sys
from pathlib import Path

from baco_like import MaxEvals, Optimizer, run
from baco_like.evaluators import OpenCLSettings, Repeats, load_problem, opencl_evaluator

PROBLEM = Path(__file__).parent / "kernels" / "opencl_gemm.py"
SIZE = 256


def main(evaluations):
    space = load_problem(PROBLEM).space(SIZE)
    # At least 3 launches; up to 15 for a configuration that is promising and noisy.
    rule = Repeats(3, max_repeats=15, relative_error=0.05, slow_ratio=3.0)
    settings = OpenCLSettings(PROBLEM, SIZE, repeats=rule, timeout=2.0, scale=1e6)
    evaluator = opencl_evaluator(space, settings)
    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    for trial in optimizer.trials:
        print(trial.failure or f"{trial.value:.0f} us", f"{len(trial.repeats)} repeats")
    print(f"best {optimizer.best_value:.0f} us with {optimizer.best_config}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
