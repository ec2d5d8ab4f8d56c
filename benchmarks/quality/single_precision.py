"""Does scoring in single precision change a suggestion?

    OMP_NUM_THREADS=1 python benchmarks/quality/single_precision.py --data DIR [--seeds 1] [--budget 500] [--table FILE]

Beyond 220 observations, all configurations of a space with at most 20,000 are scored in single precision, and the best
16 again in double precision (`SCREENED` in `baco_like.strategies.bayesian.incremental`). After every tenth evaluation
of a run of the default strategy, both ways suggest from the same history with the same random numbers. Nothing is kept
from one suggestion to the next here, so every fit and every table is made twice.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import contextlib
import time
from pathlib import Path
from unittest import mock

import numpy as np
import runs
from peers import problems

from baco_like import Optimizer
from baco_like.optimizer.suggesting import ask_strategy
from baco_like.strategies.bayesian import incremental
from baco_like.surrogates.gp.growing import CandidateTable

SPACES = (
    "convolution_milo/A4000",
    "convolution/RTX_3060_laptop",
    "dedispersion_milo/MI250X",
    "loop_nest",
    "hidden",
    "halide",
)
EVERY = 10


class InDouble(CandidateTable):
    @classmethod
    def of(cls, model, codes, is_single=False):
        return super().of(model, codes)


def ask(optimizer, is_single):
    """Return the next suggestion, and the CPU milliseconds it took."""
    optimizer.state.history._buffer.derived.clear()
    double = mock.patch.object(incremental, "CandidateTable", InDouble)
    began = time.process_time()
    with contextlib.nullcontext() if is_single else double:
        (trial,) = ask_strategy(optimizer.state, 1)
    return dict(trial.config), 1e3 * (time.process_time() - began)


def one_run(name, data, seed, budget):
    """Return whether the suggestions are equal, and the times of both ways."""
    problem = problems.problem(name, data)
    optimizer = Optimizer(problem.space, seed=seed, budget=budget)
    same, single, double = [], [], []
    for i in range(budget):
        if i > 220 and i % EVERY == 0:
            one, seconds = ask(optimizer, True)
            other, more = ask(optimizer, False)
            same.append(one == other)
            single.append(seconds)
            double.append(more)
        trial = optimizer.suggest()
        cost = problem.cost(problem.number[tuple(trial[n] for n in problem.names)])
        if cost is None or cost != cost:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, cost)
    return same, single, double


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--spaces", default=",".join(SPACES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--table", type=Path, help="write the table to this file")
    args = parser.parse_args()
    lines = []
    for name in args.spaces.split(","):
        found = [one_run(name, args.data, seed, args.budget) for seed in range(args.seeds)]
        same, single, double = (np.concatenate(part) for part in zip(*found, strict=True))
        times = [f"{np.mean(part):.0f}" for part in (single, double)]
        lines.append([name, f"{same.sum()} of {len(same)}", *times])
        print(lines[-1], flush=True)
    head = ["space", "equal suggestions", "ms with a fit, single", "ms with a fit, double"]
    runs.publish(f"{runs.provenance()}\n\n{runs.table(head, lines)}", args.table)


if __name__ == "__main__":
    main()
