"""A CUDA kernel, tuned from Python: a stencil over time with eight parameters, 858,320 valid configurations.

Run it with: python examples/cuda_hotspot.py [EVALUATIONS]
Needs a GPU and the extra `cuda`; without them it names the missing part and exits with 1.
"""

import sys
from pathlib import Path

from baco_like import BacoError, MaxEvals, Optimizer, run
from baco_like.evaluators import CudaSettings, Repeats, cuda_evaluator, load_problem

PROBLEM = Path(__file__).parent / "kernels" / "cuda_hotspot.py"
SIZE = 2048


def main(evaluations):
    space = load_problem(PROBLEM).space(SIZE)
    rule = Repeats(3, max_repeats=15, relative_error=0.02, slow_ratio=3.0)
    evaluator = cuda_evaluator(space, CudaSettings(PROBLEM, SIZE, repeats=rule, timeout=2.0))
    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    for trial in optimizer.trials:
        print(trial.failure or f"{trial.value:.3f} ms", dict(trial.metrics))
    print(f"best {optimizer.best_value:.3f} ms with {optimizer.best_config}")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
    except BacoError as error:
        raise SystemExit(str(error)) from None
