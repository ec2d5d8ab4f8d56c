"""Measure how sure a confirmed winner is, on recorded repeats with real noise.

    OMP_NUM_THREADS=1 python benchmarks/quality/confirmation.py --data DIR --table results/confirmation.md

Two kinds of noise:

- GPU spaces of the benchmark hub, T4 files and caches below DIR/recorded (or the folder named by BACO_LIKE_DATA). A
  measurement is the mean of 7 random ones of the recorded runtimes of a configuration, as Kernel Tuner reports it.
- `recorded/kernel_1000.csv.gz`: eight configurations of the matrix multiplication `recorded/hidden.c`, measured 1,000
  times each by turns on a machine with two CPUs and other work of changing amount. A rerun begins at a random time and
  reads the following measurements in order, so load and drift last as long as they did. `--record` measures the file
  again.

For each of 10 candidate lists, the confirmation is repeated 20 times with other noise. The candidates of a GPU space
are the best three of a run of 200 noisy evaluations of iterated local search; of the kernel, three random ones of the
fastest six. The default is the median configuration of the space; of the kernel, the seventh or the plainest. The
search has measured the default before the candidates: on the kernel within 200 consecutive rows.
"""

import argparse
import csv
import gzip
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import runs
from scipy import stats

from baco_like import MaxEvals, Optimizer, Outcome, Trial, run
from baco_like.benchmarking.problems.recorded import RecordedProblem, find_recorded
from baco_like.records import Confirmation
from baco_like.records.confirmation import CandidateResults, ConfirmationPlan
from baco_like.records.trial import select_best
from baco_like.running.confirming import run_rounds

RECORDED = Path(__file__).parents[1] / "recorded"
KERNEL = RECORDED / "kernel_1000.csv.gz"
LISTS, RERUNS, EVALUATIONS = 10, 20, 200
ITERATIONS = 7  # Kernel Tuner's default
BUDGETS = (20, 60, 120, 240, 480)

Draw = Callable[[int, int], float]
"""The value of candidate k in the m-th measurement of a rerun."""


@dataclass(frozen=True)
class Case:
    """Candidates, the default last, with their true means, their noise, and their distance from the default."""

    trials: tuple[Trial, ...]
    means: np.ndarray
    distances: np.ndarray
    rerun: Callable[[np.random.Generator], Draw]


def confirm_case(case: Case, budget: int, seed: int) -> Confirmation:
    """Return the result of one rerun, by the code that `tune` uses."""
    count = len(case.trials)
    plan = ConfirmationPlan(tuple(t.config for t in case.trials), (None,) * count, count - 1)
    results = tuple(map(CandidateResults, case.trials))
    state = Confirmation(plan, results, "minimize", case.distances)
    draw, made = case.rerun(np.random.default_rng(seed)), [0]

    def measure(k: int) -> Outcome:
        made[0] += 1
        return Outcome.success(case.trials[k].id, (draw(k, made[0]),))

    return run_rounds(state, measure, seed, budget)


# GPU spaces -----------------------------------------------------------------------------------------------------------


class DrawingEvaluator:
    """Returns the mean of a few recorded runtimes, drawn at random."""

    capacity = 1

    def __init__(self, runtimes: Mapping[str, np.ndarray], seed: int) -> None:
        self.runtimes, self.rng = runtimes, np.random.default_rng(seed)
        self.waiting: list[Trial] = []

    def submit(self, trial: Trial) -> None:
        self.waiting.append(trial)

    def wait(self) -> Sequence[Outcome]:
        trial = self.waiting.pop()
        values = self.runtimes.get(key(trial))
        if values is None:
            return [Outcome.failure(trial.id, "constraints")]
        return [Outcome.success(trial.id, (float(self.rng.choice(values, ITERATIONS).mean()),))]

    def close(self) -> None:
        self.waiting.clear()


def key(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True)


def gpu_cases(recorded: RecordedProblem) -> Iterator[Case]:
    space, names = recorded.space, recorded.recorded.names
    outcomes = recorded.recorded.entries.items()
    repeats = {key(dict(zip(names, values, strict=True))): o.repeats for values, o in outcomes}
    runtimes = {name: np.array(row) for name, row in repeats.items() if len(row) >= ITERATIONS}
    middle = sorted(runtimes, key=lambda name: runtimes[name].mean())[len(runtimes) // 2]
    for seed in range(LISTS):
        optimizer = Optimizer(space, seed=seed, strategy="iterated_local_search")
        run(optimizer, DrawingEvaluator(runtimes, seed), MaxEvals(EVALUATIONS))
        best = select_best(optimizer.trials, "minimize", 3)
        default = Outcome.success(
            -1, (float(np.random.default_rng(seed).choice(runtimes[middle], ITERATIONS).mean()),)
        )
        trials = (*best, Trial(-1, json.loads(middle)).with_outcome(default))
        values = [runtimes[key(trial)] for trial in trials]
        features = space.features(space.encode([dict(trial) for trial in trials]))
        distances = np.sqrt(((features - features[-1]) ** 2).sum(axis=1))

        def rerun(rng: np.random.Generator, values: Sequence[np.ndarray] = values) -> Draw:
            return lambda k, m: float(rng.choice(values[k], ITERATIONS).mean())

        yield Case(trials, np.array([v.mean() for v in values]), distances, rerun)


# The kernel -----------------------------------------------------------------------------------------------------------

_FAST = {"vector": 16, "tile_i": 24}
CONFIGS: tuple[dict[str, Any], ...] = (
    {"order": "k,j,i", "tile_j": 48, "tile_k": 144, "rows": 6, **_FAST},
    {"order": "j,k,i", "tile_j": 48, "tile_k": 144, "rows": 6, **_FAST},
    {"order": "i,j,k", "tile_j": 48, "tile_k": 16, "rows": 6, **_FAST},
    {"order": "k,j,i", "tile_j": 144, "tile_k": 16, "rows": 6, **_FAST},
    {"order": "j,i,k", "tile_j": 48, "tile_k": 16, "rows": 4, **_FAST},
    {"order": "k,j,i", "tile_j": 144, "tile_k": 16, "rows": 4, **_FAST},
    {"order": "i,k,j", "tile_j": 144, "tile_k": 16, "rows": 6, **_FAST},
    {"order": "i,j,k", "tile_j": 8, "tile_k": 16, "rows": 1, "vector": 1, "tile_i": 4},
)
"""Configurations of `recorded/hidden.c`: six fast ones, one that is 14 % slower, and one that is 640 times slower."""

FAST, DEFAULT, PLAINEST = 6, 6, 7
"""Number of fast configurations, and the indices of the two that serve as the default."""


def build(config: Mapping[str, Any], to: Path) -> str:
    macros = [f"-D{name.upper()}={value}" for name, value in config.items()]
    source = str(RECORDED / "hidden.c")
    command = ["cc", "-O2", "-march=native", *macros, source, "-pthread", "-lm", "-o", str(to)]
    subprocess.run(command, check=True)
    return str(to)


def record_kernel(rows: int, seed: int = 0) -> None:
    """Measure all configurations by turns, in random order, and keep the machine's load of the last minute."""
    rng = np.random.default_rng(seed)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["load", *(json.dumps(config) for config in CONFIGS)])
    with tempfile.TemporaryDirectory() as folder:
        programs = [build(c, Path(folder, f"p{k}")) for k, c in enumerate(CONFIGS)]
        for row in range(rows):
            values = [0.0] * len(programs)
            for k in rng.permutation(len(programs)):
                command = [programs[k], "time"]
                out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
                values[k] = float(np.median(json.loads(out)["times"]))
            writer.writerow([f"{os.getloadavg()[0]:.1f}", *(f"{value:.4g}" for value in values)])
            if row % 100 == 0:
                print(row, flush=True)
    KERNEL.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def kernel_cases(default: int) -> Iterator[Case]:
    with gzip.open(KERNEL, "rt") as file:
        header, *rows = csv.reader(file)
    values = np.array(rows, dtype=float)[:, 1:]  # the first column is the load
    configs = [json.loads(text) for text in header[1:]]
    rng = np.random.default_rng(0)
    for _ in range(LISTS):
        chosen = [*rng.choice(FAST, 3, replace=False).tolist(), default]
        part = values[:, chosen]
        start = int(rng.integers(len(values)))
        rows = (start + np.sort(rng.integers(1, EVALUATIONS, 3))) % len(values)
        search = [
            *(values[row, k] for row, k in zip(rows, chosen, strict=False)),
            values[start, default],
        ]
        trials = tuple(
            Trial(k, configs[k]).with_outcome(Outcome.success(k, (float(value),)))
            for k, value in zip(chosen, search, strict=True)
        )
        changes = [sum(trial[n] != configs[default][n] for n in trial) for trial in trials]

        yield Case(trials, part.mean(axis=0), np.array(changes, dtype=float), reader(part))


def reader(values: np.ndarray) -> Callable[[np.random.Generator], Draw]:
    """Return reruns that read a table, (1000, K), from a random row on."""

    def rerun(rng: np.random.Generator) -> Draw:
        start = int(rng.integers(len(values)))
        return lambda k, m: float(values[(start + m) % len(values), k])

    return rerun


# The table ------------------------------------------------------------------------------------------------------------

COLUMNS = (
    *("data", "most measurements", "used", "mean loss, %", "within 1 %, %"),
    *("same, %", "interval covers, %", "half width, %", "decided, %"),
)


def table_rows(name: str, cases: Sequence[Case], budgets: Sequence[int]) -> Iterator[list[str]]:
    for budget in budgets:
        found = [case_row(case, budget, i) for i, case in enumerate(cases)]
        columns = np.array(found)
        cells = [f"{columns[:, 0].mean():.1f}"]
        cells += [f"{column.mean():.2f} {interval_of(column)}" for column in columns[:, 1:].T]
        yield [name, str(budget), *cells]


def interval_of(values: np.ndarray) -> str:
    """Return the 95 % interval of the mean over candidate lists, by the bootstrap."""
    if np.ptp(values) == 0.0:
        return "(all)"
    rng = np.random.default_rng(0)
    found = stats.bootstrap((values,), np.mean, method="percentile", random_state=rng)
    return "({:.2f} to {:.2f})".format(*found.confidence_interval)


def case_row(case: Case, budget: int, number: int) -> list[float]:
    """Return used measurements, loss, share within 1 %, share of the same choice, coverage, half width and decided."""
    last = len(case.trials) - 1
    used, losses, choices, covers, widths, decided = [], [], [], [], [], []
    for rerun in range(RERUNS):
        found = confirm_case(case, budget, 1000 * number + rerun)
        choice = position(found.recommended, found.candidates)
        winner = position(found.winner, found.candidates)
        used.append(found.measurements)
        choices.append(choice)
        losses.append(case.means[choice] / case.means.min() - 1.0)
        decided.append(found.is_decided)
        truth = case.means[last] / case.means[winner]
        covers.append(found.speedup.low <= truth <= found.speedup.high)
        widths.append(min(found.speedup.high / found.speedup.value - 1.0, 9.99))
    same = max(map(choices.count, choices)) / RERUNS
    near = np.mean(np.array(losses) <= 0.01)
    shares = (np.mean(losses), near, same, np.mean(covers), np.median(widths), np.mean(decided))
    return [float(np.mean(used)), *(100.0 * float(share) for share in shares)]


def position(trial: Trial | None, trials: Sequence[Trial]) -> int:
    return next(k for k, other in enumerate(trials) if other is trial)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--table", type=Path)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS, metavar="N")
    parser.add_argument("--record", type=int, metavar="ROWS", help="measure the kernel again")
    args = parser.parse_args()
    if args.record:
        record_kernel(args.record)
        return
    lines = []
    for name, cases in all_cases(args.data):
        for row in table_rows(name, cases, args.budgets):
            lines.append(row)
            print(*row, flush=True)
    runs.publish(runs.table(COLUMNS, lines), args.table)


def all_cases(data: Path | None) -> Iterator[tuple[str, list[Case]]]:
    yield "C kernel", list(kernel_cases(DEFAULT))
    yield "C kernel, default 640 times slower", list(kernel_cases(PLAINEST))
    for recorded in find_recorded(data / "recorded", "minimize")[0] if data else ():
        yield recorded.name, list(gpu_cases(recorded))


if __name__ == "__main__":
    main()
