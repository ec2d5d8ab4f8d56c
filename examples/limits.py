"""Limits on what a configuration produces: the error of a sum in C, and the registers of a CUDA kernel.

Run it with: python examples/limits.py [EVALUATIONS]
The second part needs a GPU and the extra `cuda`; without them it names the missing part.
"""

import sys
from pathlib import Path

from baco_like import Aim, BacoError, MaxEvals, Optimizer, Ordinal, Space, run
from baco_like.evaluators import (
    Commands,
    CudaSettings,
    command_evaluator,
    cuda_evaluator,
    load_problem,
)

FOLDER = Path(__file__).parent
BUILD = "cc {level} -DREAL={real} -DLANES={lanes} -DKAHAN={kahan} sum.c -lm -o {workdir}/sum"


def tune(optimizer, evaluator, evaluations):
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    for trial in optimizer.trials:
        result = trial.message if trial.failure == "limit" else trial.failure or trial.value
        print(dict(trial), result)
    print("best", optimizer.best_value, optimizer.best_config, dict(optimizer.best.metrics))


def sum_in_c(evaluations):
    """The fastest sum whose relative error is at most 1e-6."""
    space = Space(
        {
            "real": ["double", "float"],  # the first values are the default
            "lanes": Ordinal([1, 2, 4, 8, 16, 32], log=True, default=1),
            "kahan": Ordinal([0, 1], default=0),
            "level": Ordinal(["-O1", "-O2", "-O3", "-Ofast"], default="-O2"),
        }
    )
    commands = Commands(
        build=BUILD,
        run="{workdir}/sum",
        pattern=r"time: (\S+)",
        metrics={"error": r"error: (\S+)"},
    )
    optimizer = Optimizer(space, Aim({"time": "minimize"}, ["error <= 1e-6"]), seed=1)
    tune(optimizer, command_evaluator(space, commands, FOLDER), evaluations)


def stencil_in_cuda(evaluations):
    """The fastest stencil whose threads use at most 64 registers."""
    problem = FOLDER / "kernels" / "cuda_hotspot.py"
    space = load_problem(problem).space(1024)
    evaluator = cuda_evaluator(space, CudaSettings(problem, 1024, timeout=2.0))
    optimizer = Optimizer(space, Aim({"time": "minimize"}, ["registers <= 64"]), seed=1)
    tune(optimizer, evaluator, evaluations)


if __name__ == "__main__":
    evaluations = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    sum_in_c(evaluations)
    try:
        stencil_in_cuda(evaluations)
    except BacoError as error:
        print("the CUDA kernel is left out:", error)
