"""Tune the flags and tiles of a C program from Python, with commands that build, run and check it.

Run it with: python examples/compiler_flags.py [EVALUATIONS]
"""

import sys
from pathlib import Path

from baco_like import MaxEvals, Optimizer, Ordinal, Space, run
from baco_like.evaluators import Commands, Flags, Repeats, command_evaluator

BUILD = (
    "cc {flags} -DTILE_Y={tile} -DTILE_X=256 -DORDER=y,x,v,u -DUNROLL={unroll} "
    "convolution.c -lm -o {workdir}/convolution"
)


def main(evaluations):
    # The compiler is asked for its own choices: with all flags at their defaults, {flags} is -O2.
    flags = Flags(
        on_off=["-funroll-loops", "-ftree-loop-vectorize", "-march=native"],
        params={"max-unroll-times": [2, 4, 16]},
        level=["-O2", "-O1", "-O3", "-Ofast"],
    )
    space = Space(
        {
            "tile": Ordinal([8, 16, 32, 64, 128, 256], log=True, default=256),
            "unroll": Ordinal([1, 2, 4, 8], log=True, default=1),
            **flags.parameters,
        }
    )
    commands = Commands(
        build=BUILD,
        run="{workdir}/convolution time",
        check="{workdir}/convolution check",
        pattern=r"time: (\S+)",
        timeout=5.0,
        repeats=Repeats(3),
        flags=flags,
    )
    evaluator = command_evaluator(space, commands, Path(__file__).parent)
    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    try:
        run(optimizer, evaluator, MaxEvals(evaluations))
    finally:
        evaluator.close()
    plain = optimizer.trials[0]
    print(f"default {plain.value:.3f} ms, best {optimizer.best_value:.3f} ms")
    print("cc", flags.text(optimizer.best_config), "...")
    print(optimizer.best_config)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
