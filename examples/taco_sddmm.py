"""Tune a TACO schedule of SDDMM, a sparse kernel, and compare it with the configuration of BaCO's paper.

Run it with: python examples/taco_sddmm.py [EVALUATIONS]
Needs the program taco on PATH and a C compiler; otherwise it names the missing part and exits with 1.
"""

import sys

from baco_like import MaxEvals, Optimizer, run
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.taco import Settings, taco_evaluator
from baco_like.evaluators.taco.templates import TEMPLATES
from baco_like.exceptions import BacoError

THREADS = 2


def main(evaluations):
    template = TEMPLATES["sddmm"]
    space = template.space(THREADS)
    rule = Repeats(least=3, most=15, relative_error=0.05, slow_ratio=5.0)
    evaluator = taco_evaluator(space, Settings("sddmm", size=1500, repeats=rule, timeout=2.0))
    optimizer = Optimizer(space, seed=1, objective="time")
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
