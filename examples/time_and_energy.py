"""Tune a C program for time and energy, or for the time alone on a machine without energy counters.

Run it with: python examples/time_and_energy.py [EVALUATIONS]
Energy needs the counters of the processor, which most virtual machines and containers hide. The program names the
missing part.
"""

import sys
from pathlib import Path

from baco_like import EvaluatorError, MaxEvals, Optimizer, Ordinal, Space, run
from baco_like.evaluators import Commands, EnergyCounters, Repeats, command_evaluator

BUILD = (
    "cc {level} -march=native -DTILE_Y={tile} -DTILE_X=256 -DORDER=y,x,v,u -DUNROLL={unroll} "
    "convolution.c -lm -o {workdir}/convolution"
)


def find_metrics():
    """Return the metrics of a run: the energy in joules, or none if the machine has no counters."""
    try:
        EnergyCounters.find()
    except EvaluatorError as error:
        print(error)
        return {}
    return {"energy": "rapl()"}


def main(evaluations):
    space = Space(
        {
            "level": Ordinal(["-O1", "-O2", "-O3"], default="-O2"),
            "tile": Ordinal([8, 16, 32, 64, 128, 256], log=True, default=256),
            "unroll": Ordinal([1, 2, 4, 8], log=True, default=1),
        }
    )
    metrics = find_metrics()
    commands = Commands(
        build=BUILD,
        run="{workdir}/convolution time",
        pattern=r"time: (\S+)",
        timeout=5.0,
        repeats=Repeats(3),
        metrics=metrics,
    )
    if not metrics:
        print("tuning for the time alone")
        optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    else:
        objectives = {"time": "minimize", "energy": "minimize"}
        optimizer = Optimizer(space, objectives, seed=1)
    evaluator = command_evaluator(space, commands, Path(__file__).parent)
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    for trial in optimizer.front:  # of one objective: the best trial
        print(dict(trial), f"{trial.value:.3f} ms", dict(trial.metrics))
    print("best", optimizer.best_config)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
