"""Measure the volume that results of a related task save, and the cost of misleading results, with two objectives.

    OMP_NUM_THREADS=1 python benchmarks/quality/several_transfer.py --data DIR --rows rows.jsonl --seeds 20 \\
        --table several_transfer.md

The kernel `mm` has recorded times and energies of two GPUs: a run on the RTX Titan begins with results of the Titan V.
The related tasks of the synthetic problems have their optimum three steps away in all variables except the first one,
three times the first objective, and a second objective that the first one adds to. Results are a run of ours of 60
evaluations there, 200 random configurations, or these with both objectives reversed. Runs append to `--rows`; those
that it has already are left out.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from several_objectives import interval, share_of_volume
from several_problems import GRID, Config, Problem, problem

from baco_like import Optimizer, WarmStart

OTHER_DEVICE = {"mm_rtxtitan": "mm_titanv"}
NAMES = (
    "mm_rtxtitan",
    "dtlz2_categorical",
    "zdt1_categorical",
    "zdt2_permutation",
    "bnh_categorical",
    "bnh_permutation",
)
ARMS = ("nothing", "run of 60", "random 200", "reversed")
AT = (5, 10, 20, 40, 60)
STEPS = 3
Measure = Callable[[Config], dict[str, float]]


def related_task(name: str, known: Problem, data: Path) -> Measure:
    """Return the metrics of the related task of a problem."""
    if name in OTHER_DEVICE:
        return problem(OTHER_DEVICE[name], data).measure

    def measure(config: Config) -> dict[str, float]:
        moved = {
            key: min(GRID, value + STEPS) if key[0] == "x" and key != "x0" else value
            for key, value in config.items()
        }
        row = known.measure(moved)
        return {"first": 3 * row["first"], "second": 2 * row["second"] + 0.1 * row["first"]}

    return measure


def optimize(known: Problem, measure: Measure, seed: int, prior: Any = None) -> Optimizer:
    """Return a run of the default strategy with 60 evaluations."""
    objectives = dict.fromkeys(known.objectives, "minimize")
    start = None if prior is None else WarmStart(prior, mode="prior")
    optimizer = Optimizer(known.space, objectives, seed=seed, warm_start=start)
    for _ in range(AT[-1]):
        trial = optimizer.suggest()
        row = measure(trial.config)
        optimizer.observe(trial, {key: row[key] for key in objectives})
    return optimizer


def results_of(arm: str, known: Problem, measure: Measure, seed: int) -> Any:
    """Return the results of the related task with which a run begins."""
    if arm == "run of 60":
        return optimize(known, measure, 1000 + seed)
    configs = known.space.sample(200, seed=seed)
    rows = [{key: measure(config)[key] for key in known.objectives} for config in configs]
    if arm == "reversed":
        ends = {k: min(r[k] for r in rows) + max(r[k] for r in rows) for k in known.objectives}
        rows = [{key: ends[key] - row[key] for key in row} for row in rows]
    return list(zip(configs, rows, strict=True))


def one_run(name: str, arm: str, seed: int, data: Path) -> dict[str, Any]:
    known = problem(name, data)
    other = related_task(name, known, data)
    prior = None if arm == "nothing" else results_of(arm, known, other, seed)
    began = time.process_time()
    optimizer = optimize(known, known.measure, seed, prior)
    seconds = time.process_time() - began
    first, second = known.objectives
    rows = [{first: trial.value, second: trial.metrics[second]} for trial in optimizer.trials]
    volumes = {str(n): round(share_of_volume(known, rows[:n]), 5) for n in AT}
    return {"volumes": volumes, "cpu": round(seconds, 2)}


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        f"| problem | results | seeds | {' | '.join(f'after {n}' for n in AT)} | CPU seconds |",
        f"|{'---|' * (len(AT) + 4)}",
    ]
    for name in NAMES:
        for arm in ARMS:
            own = [row for row in rows if (row["problem"], row["arm"]) == (name, arm)]
            if not own:
                continue
            cells = []
            for n in AT:
                values = np.array([row["volumes"][str(n)] for row in own])
                low, high = interval(values)
                cells.append(f"{values.mean():.3f} ({low:.3f} to {high:.3f})")
            seconds = np.mean([row["cpu"] for row in own])
            lines.append(f"| {name} | {arm} | {len(own)} | {' | '.join(cells)} | {seconds:.1f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("BACO_LIKE_DATA", "data")))
    parser.add_argument("--rows", type=Path, required=True, help="rows of runs")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--problems", default=",".join(NAMES), help="names, separated by commas")
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    text = args.rows.read_text() if args.rows.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    known = {(row["problem"], row["arm"], row["seed"]) for row in rows}
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        for name in args.problems.split(","):
            for arm in ARMS:
                if (name, arm, seed) in known:
                    continue
                run = one_run(name, arm, seed, args.data)
                rows.append({"problem": name, "arm": arm, "seed": seed, **run})
                with args.rows.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
                print(name, arm, seed, run["volumes"], flush=True)
    if args.table:
        args.table.write_text("\n".join(table(rows)) + "\n")


if __name__ == "__main__":
    main()
