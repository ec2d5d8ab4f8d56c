"""A sparse kernel, SDDMM, scheduled by TACO and tuned from Python, compared with the configuration of BaCO's paper.

Run it with: python examples/taco_sddmm.py [EVALUATIONS]
Needs the program taco on PATH and a C compiler; without them it names the missing part and exits with 1.
"""

import sys
from pathlib import Path

from baco_like import BacoError, MaxEvals, Optimizer, run
from baco_like.evaluators import CKernelEvaluator, CKernelSettings, Repeats, load_problem

PROBLEM = Path(__file__).parent / "kernels" / "taco_kernels.py"
CONSTANTS = {"KERNEL": "sddmm"}
THREADS = 2


def main(evaluations):
    template = load_problem(PROBLEM, CONSTANTS).template()
    space = template.space(THREADS)
    settings = CKernelSettings(
        PROBLEM,
        size=1500,
        repeats=Repeats(3, max_repeats=15, relative_error=0.05, slow_ratio=5.0),
        timeout=2.0,
        constants=CONSTANTS,
    )
    evaluator = CKernelEvaluator(space, settings)
    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    optimizer.enqueue(template.reference(THREADS))
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    for trial in optimizer.trials:
        print(trial.failure or f"{trial.value:.2f} ms", ",".join(trial.config["order"]))
    print(f"reference {optimizer.trials[0].value:.2f} ms")
    print(f"best {optimizer.best_value:.2f} ms with {optimizer.best_config}")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    except BacoError as error:
        raise SystemExit(str(error)) from None
