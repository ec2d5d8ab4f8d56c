"""Compare the bench of C kernels in two checkouts: the wall time of the demo's evaluations, and the times it reports.

    python benchmarks/speed/bench_cost.py BEFORE AFTER [--rounds 20] [--evaluations 60] [--launches 21]

BEFORE and AFTER are folders of checkouts. First AFTER runs the demo once. Then, in each round, both measure the same
things by turns, each in a new process, in alternating order:

- the configurations of that run of the demo, in its order, with the settings of the demo: compiled, stopped when they
  are clearly slow, and repeated as there. Both have the best values of that run, so that a configuration has the same
  limit in each process; else a best value that is low by chance would stop more of one side's configurations, which
  saves more time than any check takes. A time near the limit is below it in one process and above it in another.
  Therefore the ratio of the wall times is over the configurations that both have measured fully or both have stopped,
  the start of the process included. The numbers of the others are printed by side: if one bench stopped more of them,
  it would not be chance. The ratio over all configurations follows. The processor time, of all processes and all
  configurations, changes less where other programs run;
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


class BestValues:
    """The best value before each trial in another run, in place of what this process measures."""

    def __init__(self, values):
        self._values = values

    def find(self, trial):
        return self._values[trial.id]

    def add(self, trial, value):
        pass


def evaluate(configs, repeats, bests=None, **more):
    """Return the outcomes of configurations, the wall time of each, and the processor time of all processes."""
    from baco_like.evaluators import CKernelEvaluator, CKernelSettings
    from baco_like.evaluators.repeats import Repeats
    from baco_like.records.trial import Trial
    from baco_like.spaces.space import Space

    settings = CKernelSettings(
        Path("examples/kernels/c_loop_nest.py"), SIZE, repeats=Repeats(repeats, **more), timeout=5.0
    )
    evaluator = CKernelEvaluator(Space({"unroll": [1, 2]}), settings)
    if bests is not None:
        evaluator._best = BestValues(bests)
    outcomes, walls = [], []
    for number, config in enumerate(configs):
        started = time.perf_counter()
        evaluator.submit(Trial(number, config))
        outcomes += evaluator.wait()
        walls.append(time.perf_counter() - started)
    evaluator.close()  # the times of children count when they have ended
    return outcomes, walls, sum(os.times()[:4])


def measure(rows, launches):
    """Print of each configuration of the demo whether it was stopped and its wall time, the processor time, and times.

    These are the median and the minimum of each schedule.
    """
    configs = [{name: as_tuple(value) for name, value in config.items()} for config, _ in rows]
    stopped, walls, processor = [], [], 0.0
    if rows:
        outcomes, walls, processor = evaluate(configs, 5, [b for _, b in rows], slow_ratio=3.0)
        stopped = [outcome.value is None for outcome in outcomes]
    times = []
    for outcome in evaluate(SCHEDULES, launches)[0] if launches else ():
        times += [statistics.median(outcome.repeats), min(outcome.repeats)]
    print(json.dumps([stopped, walls, processor, times]))


def as_tuple(value):
    """Return a tuple for a list: JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


def run_demo(folder, evaluations):
    """Return the configurations of a run of the demo, each with the best value before it."""
    if not evaluations:
        return []
    with tempfile.TemporaryDirectory() as out:
        run(folder, "-m", "baco_like", "tune", "examples/matmul.toml", "--out", out)
        lines = (Path(out) / "run.jsonl").read_text(encoding="utf-8").splitlines()
    rows, best = [], math.inf
    for outcome in [row for line in lines for row in json.loads(line).get("outcomes", ())]:
        rows.append((outcome["config"], None if best == math.inf else best))
        best = min(best, outcome.get("value") or math.inf)
    return rows[:evaluations]


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
    names = []
    if configs:
        names = ["the demo's evaluations, wall time", "all of them, wall time", "processor time"]
    for number in range(len(SCHEDULES) if args.launches else 0):
        names += [f"schedule {number + 1}, median", f"schedule {number + 1}, minimum"]
    rows, stopped_by_one = [], [0, 0]
    for number in range(args.rounds):
        results = {}
        for folder in (args.before, args.after)[:: 1 if number % 2 else -1]:
            out = run(folder, Path(__file__).resolve(), "--measure", given)
            results[folder] = json.loads(out)
        sides = zip(results[args.before], results[args.after], strict=True)
        stopped, walls, processors, times = sides
        pairs = list(zip(*times, strict=True))
        if configs:
            differences = [a - b for a, b in zip(*stopped, strict=True)]
            equal = [
                sum(w for w, d in zip(each, differences, strict=True) if not d) for each in walls
            ]
            pairs = [equal, list(map(sum, walls)), processors, *pairs]
            stopped_by_one[0] += differences.count(1)
            stopped_by_one[1] += differences.count(-1)
        rows.append([math.log(after / before) for before, after in pairs])
        print(f"round {number + 1}:", *(f"{math.exp(x):.3f}" for x in rows[-1]), flush=True)
    if configs:
        before, after = stopped_by_one
        print(
            f"stopped by BEFORE alone: {before}, by AFTER alone: {after} of {args.rounds * len(configs)}"
        )
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
