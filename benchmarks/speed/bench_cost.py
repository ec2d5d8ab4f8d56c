"""Compare the bench of C kernels in two checkouts: the wall time of the demo's evaluations, and the times it reports.

    python benchmarks/speed/bench_cost.py BEFORE AFTER [--rounds 20] [--evaluations 60] [--launches 21]

BEFORE and AFTER are folders of checkouts. First AFTER runs the demo once. Then, in each round, both measure the same
things by turns, each in a new process, in alternating order:

- the configurations of that run of the demo, in its order, with the settings of the demo: compiled, stopped when they
  are clearly slow, and repeated as there. The wall time runs from the start of the first evaluation to the
  end of the last; the processor time, of all processes, changes less where other programs run;
- three schedules, so many launches each. Their median is what the bench reports; their minimum says whether launches
  have become slower, as other programs can only delay a launch.

Printed are the geometric means of the ratios AFTER / BEFORE with their 95 % intervals over the rounds. A process has
its pages at other places than the next one, which changes the speed of a kernel whose data fill a cache; therefore only
ratios over many processes can show a difference of a few percent. No other program should run.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCHEDULES = [
    {"opt": "-O3"},
    {"order": ("io", "ko", "jo", "ii", "ki", "ji"), "tj": 64, "tk": 16, "opt": "-O3"},
    {"order": ("io", "ko", "jo", "ii", "ki", "ji"), "ti": 8, "march": "native", "opt": "-O3"},
]

SIZE = 768
"""That of the demo."""


def evaluate(configs, repeats, **more):
    """Return the outcomes of configurations, and the wall time and the processor time of all evaluations."""
    from baco_like.evaluators import CKernelEvaluator, CKernelSettings
    from baco_like.evaluators.repeats import Repeats
    from baco_like.records.trial import Trial
    from baco_like.spaces.space import Space

    settings = CKernelSettings(
        Path("examples/kernels/c_loop_nest.py"), SIZE, repeats=Repeats(repeats, **more), timeout=5.0
    )
    evaluator = CKernelEvaluator(Space({"unroll": [1, 2]}), settings)
    outcomes = []
    started = time.perf_counter()
    for number, config in enumerate(configs):
        evaluator.submit(Trial(number, config))
        outcomes += evaluator.wait()
    wall = time.perf_counter() - started
    evaluator.close()  # the times of children count when they have ended
    return outcomes, [wall, sum(os.times()[:4])]


def measure(configs, launches):
    """Print the times of the demo's evaluations, and the median and the minimum of each schedule."""
    configs = [{name: as_tuple(value) for name, value in config.items()} for config in configs]
    numbers = evaluate(configs, 5, slow_ratio=3.0)[1] if configs else []
    for outcome in evaluate(SCHEDULES, launches)[0] if launches else ():
        numbers += [statistics.median(outcome.repeats), min(outcome.repeats)]
    print(json.dumps(numbers))


def as_tuple(value):
    """Return a tuple for a list: JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


def run_demo(folder, evaluations):
    """Return the configurations of a run of the demo."""
    if not evaluations:
        return []
    with tempfile.TemporaryDirectory() as out:
        run(folder, "-m", "baco_like", "tune", "examples/matmul.toml", "--out", out)
        lines = (Path(out) / "run.jsonl").read_text(encoding="utf-8").splitlines()
    outcomes = [row for line in lines for row in json.loads(line).get("outcomes", ())]
    return [row["config"] for row in outcomes][:evaluations]


def run(folder, *args):
    """Return the output of Python with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--evaluations", type=int, default=60, help="of the demo; 0: none")
    parser.add_argument("--launches", type=int, default=21, help="of each schedule; 0: none")
    args = parser.parse_args()
    configs = run_demo(args.after, args.evaluations)
    given = json.dumps([configs, args.launches])
    names = ["the demo's evaluations, wall time", "processor time"] if configs else []
    for number in range(len(SCHEDULES) if args.launches else 0):
        names += [f"schedule {number + 1}, median", f"schedule {number + 1}, minimum"]
    rows = []
    for number in range(args.rounds):
        results = {}
        for folder in (args.before, args.after)[:: 1 if number % 2 else -1]:
            out = run(folder, Path(__file__).resolve(), "--measure", given)
            results[folder] = json.loads(out)
        pairs = zip(results[args.before], results[args.after], strict=True)
        rows.append([math.log(after / before) for before, after in pairs])
        print(f"round {number + 1}:", *(f"{math.exp(x):.3f}" for x in rows[-1]), flush=True)
    for name, logs in zip(names, zip(*rows, strict=True), strict=True):
        mean = statistics.mean(logs)
        # 2.1: Student's t for 20 rounds.
        error = 2.1 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
        low, high = math.exp(mean - error), math.exp(mean + error)
        print(f"{name}: {math.exp(mean):.4f} ({low:.4f} to {high:.4f})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*json.loads(sys.argv[2]))
    else:
        main()
