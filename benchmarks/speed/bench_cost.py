"""Compare two checkouts: the times that the bench of C kernels reports, and the wall time of its evaluations.

    python benchmarks/speed/bench_cost.py BEFORE AFTER [--rounds 20] [--size 768]

BEFORE and AFTER are folders of checkouts. In each round both measure the same schedules of
examples/kernels/c_loop_nest.py of their checkout, in alternating order. Printed are the median ratios AFTER / BEFORE
with the range of the middle half. No other program should run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SCHEDULES = [
    {"opt": "-O3"},
    {"order": ("io", "ko", "jo", "ii", "ki", "ji"), "tj": 64, "tk": 16, "opt": "-O3"},
    {"order": ("io", "ko", "jo", "ii", "ki", "ji"), "ti": 8, "march": "native", "opt": "-O3"},
]


def measure(size):
    """Print the median time of each schedule in milliseconds, and the wall time of all evaluations in seconds."""
    from baco_like.evaluators import CKernelEvaluator, CKernelSettings
    from baco_like.records.trial import Trial
    from baco_like.spaces.space import Space

    problem = Path("examples/kernels/c_loop_nest.py")
    evaluator = CKernelEvaluator(Space({"unroll": [1, 2]}), CKernelSettings(problem, size))
    values = []
    for number, schedule in enumerate([SCHEDULES[1], *SCHEDULES]):
        if number == 1:  # the first evaluation makes the inputs
            started = time.perf_counter()
        evaluator.submit(Trial(number, schedule))
        (outcome,) = evaluator.wait()
        values.append(outcome.value)
    print(json.dumps([*values[1:], time.perf_counter() - started]))
    evaluator.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--size", type=int, default=768)
    args = parser.parse_args()
    ratios = []
    for number in range(args.rounds):
        results = {}
        for folder in (args.before, args.after)[:: 1 if number % 2 else -1]:
            done = subprocess.run(
                [sys.executable, Path(__file__).resolve(), "--measure", str(args.size)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder.resolve())},
                capture_output=True,
                text=True,
                check=True,
            )
            results[folder] = json.loads(done.stdout)
        pairs = zip(results[args.before], results[args.after], strict=True)
        ratios.append([after / before for before, after in pairs])
    names = [*(f"schedule {k + 1}" for k in range(len(SCHEDULES))), "wall time"]
    for name, column in zip(names, zip(*ratios, strict=True), strict=True):
        low, middle, high = statistics.quantiles(column, n=4)
        print(f"{name}: {middle:.4f} ({low:.4f} to {high:.4f})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(int(sys.argv[2]))
    else:
        main()
