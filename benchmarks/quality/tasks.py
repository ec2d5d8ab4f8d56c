"""One configuration, or few, for several devices and sizes: how near are they to the best that exist?

    OMP_NUM_THREADS=1 python benchmarks/quality/tasks.py --data DIR --out rows.jsonl --table tasks.md --seeds 20

Each problem has several tasks with the cost of every configuration on each: devices of recorded GPU kernels, CPUs and
GPUs of compilers' tables, a matrix multiplication in C of ours at several sizes (`../recorded/sizes.json.gz`), and a
kernel with a task whose values are reversed. The spaces of the compilers' tables are too large to list, so they are cut
to 20,000 configurations drawn at random.

* `single`, `two` and `each` are joint runs with these goals and 30 evaluations for each task.
* `separate` are runs of the default strategy on each task alone, with the same total. Their winners are the candidates
  for a single configuration, and the best one on all tasks counts, as if it were known: this favours them.

A set of configurations is scored by the geometric mean, over the tasks, of the slowdown of its best member, divided by
that of the best set that exists, which is found by comparing all. `each` is scored by the mean slowdown of the best
configuration of each task. `curve` has its score after each multiple of the number of tasks.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import runs
from peers import problems
from peers.valued import random_configs

from baco_like import Cover, Optimizer, Space, Tasks
from baco_like.constraints import TableConstraint
from baco_like.evaluators.replay import load

EVALUATIONS = 30
"""For each task."""

EXHAUSTIVE = 2_000
"""Configurations from which the best two are taken: those with the least slowdown on some task, or on all."""

DEVICES = {
    "convolution_milo": ("A4000", "W7800", "MI250X"),
    "dedispersion_milo": ("A4000", "MI250X"),
    "spmm": ("2630", "7742"),
    "sddmm": ("2630", "7742"),
    "mm": ("rtxtitan", "titanv"),
}
PROBLEMS = (*DEVICES, "sizes", "convolution_milo, reversed")
SEPARATE = "separate"
GOALS = {"single": "single", "two": Cover(2), "each": "each"}
VARIANTS = (*GOALS, SEPARATE)


@dataclass(frozen=True, eq=False)
class TaskProblem:
    """A space with the cost of every configuration on several tasks.

    Attributes:
        name: Its name in rows and tables.
        space: The space without tasks.
        tasks: The tasks.
        rows: All configurations, as tuples of values.
        costs: Their costs, NaN for failures, ``(m, t)``.
    """

    name: str
    space: Space
    tasks: Tasks
    rows: Sequence[tuple[Any, ...]]
    costs: np.ndarray

    @cached_property
    def number(self) -> dict[tuple[Any, ...], int]:
        return {row: i for i, row in enumerate(self.rows)}

    @cached_property
    def logs(self) -> np.ndarray:
        """Logarithms of slowdowns, infinite for failures, ``(m, t)``."""
        logs = np.log(np.where(np.isnan(self.costs), np.inf, self.costs))
        return np.asarray(logs - logs.min(axis=0))

    @cached_property
    def best_single(self) -> float:
        """Logarithm of the geometric mean of the slowdowns of the best configuration."""
        return float(self.logs.mean(axis=1).min())

    @cached_property
    def best_two(self) -> float:
        """The same of the best two."""
        near = np.argsort(self.logs.min(axis=1) + 0.1 * np.minimum(self.logs.mean(axis=1), 100.0))
        kept = self.logs[near[:EXHAUSTIVE]]
        best = np.inf
        for row in kept:
            best = min(best, float(np.minimum(row, kept).mean(axis=1).min()))
        return best

    def measure(self, config: dict[str, Any], task: int) -> float | None:
        """Return the value of a configuration on a task, or None for a failure."""
        cost = self.costs[self.number[tuple(config[name] for name in self.space.names)], task]
        return None if np.isnan(cost) else float(cost)

    def score(self, configs: Sequence[dict[str, Any]]) -> float:
        """Return the logarithm of the aggregated slowdown of a set."""
        found = [self.number[tuple(c[name] for name in self.space.names)] for c in configs]
        return float(self.logs[found].min(axis=0).mean())


def _recorded(kernel: str, devices: Sequence[str], data: Path) -> TaskProblem:
    parts = [problems.problem(f"{kernel}/{device}", data) for device in devices]
    first = parts[0]
    rows = [row for row in first.rows if all(row in part.number for part in parts)]
    costs = np.column_stack([[part.costs[part.number[row]] for row in rows] for part in parts])
    tasks = Tasks([{"device": device} for device in devices])
    return TaskProblem(kernel, first.space, tasks, rows, costs)


def _modelled(kernel: str, devices: Sequence[str], data: Path) -> TaskProblem:
    """Return a compiler's problem, cut to configurations drawn at random."""
    parts = [problems.problem(f"{kernel}_{device}", data) for device in devices]
    space = parts[0].space
    configs = random_configs(space)  # the costs of a problem are those of these configurations
    codes, first = np.unique(space.encode(configs), axis=0, return_index=True)
    listed = TableConstraint.of(space.parameters, codes)
    costs = np.column_stack([part.costs[first] for part in parts])
    rows = [tuple(configs[i].values()) for i in first]
    tasks = Tasks([{"device": device} for device in devices])
    return TaskProblem(kernel, Space(space.parameters, [listed]), tasks, rows, costs)


def _sizes() -> TaskProblem:
    """Return the matrix multiplication in C at several sizes."""
    described = json.loads((problems.RECORDED / "sizes.space.json").read_text())
    whole = Space.from_dict(described)
    assert whole.tasks is not None
    recorded = load(problems.RECORDED / "sizes.json.gz")
    names = [name for name in whole.names if name not in whole.tasks.descriptor_names]
    own = Space({n: whole.parameters[n] for n in names}, [c.text for c in whole.given_constraints])
    configs = own.decode(own.feasible.listed)
    costs = np.array(
        [
            [_value(recorded.find({**config, **task})) for task in whole.tasks.descriptors]
            for config in configs
        ]
    )
    rows = [tuple(config.values()) for config in configs]
    return TaskProblem("sizes", own, Tasks(list(whole.tasks.descriptors)), rows, costs)


def _value(outcome: Any) -> float:
    return np.nan if outcome is None or outcome.value is None else float(outcome.value)


def _reversed(problem: TaskProblem) -> TaskProblem:
    """Return two tasks of a problem, and a third with the reversed order of the first one's values."""
    costs = problem.costs[:, :2]
    contrary = np.exp(
        np.nanmin(np.log(costs[:, 0])) + np.nanmax(np.log(costs[:, 0])) - np.log(costs[:, 0])
    )
    names = [*problem.tasks.names[:2], "reversed"]
    return TaskProblem(
        f"{problem.name}, reversed",
        problem.space,
        Tasks([{"device": name} for name in names]),
        problem.rows,
        np.column_stack([costs, contrary]),
    )


@cache
def problem_of(name: str, data: Path) -> TaskProblem:
    """Return a problem by its name."""
    if name.endswith(", reversed"):
        return _reversed(problem_of(name.removesuffix(", reversed"), data))
    if name == "sizes":
        return _sizes()
    devices = DEVICES[name]
    return (_recorded if name.endswith("_milo") else _modelled)(name, devices, data)


def joint_run(problem: TaskProblem, goal: Any, seed: int) -> runs.Row:
    """Return the scores of one run with all tasks."""
    count = len(problem.tasks)
    total = EVALUATIONS * count
    optimizer = Optimizer(problem.space, seed=seed, tasks=problem.tasks, goal=goal, budget=total)
    best = np.full(count, np.inf)
    curve = []
    for number in range(total):
        trial = optimizer.suggest()
        task = problem.tasks.index(trial.task)
        value = problem.measure(dict(trial.config), task)
        if value is None:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, value)
            best[task] = min(best[task], value)
        if (number + 1) % count == 0:
            curve.append(float(np.mean(np.log(best / np.nanmin(problem.costs, axis=0)))))
    found = optimizer.recommend()
    score = problem.score(found.configs)
    return {"score": score, "configs": len(found.configs), "evaluations": total, "curve": curve}


def separate_runs(problem: TaskProblem, seed: int) -> runs.Row:
    """Return the scores of one run for each task."""
    winners, curves = [], []
    for task in range(len(problem.tasks)):
        optimizer = Optimizer(problem.space, seed=seed, budget=EVALUATIONS)
        curve = []
        for _ in range(EVALUATIONS):
            trial = optimizer.suggest()
            value = problem.measure(dict(trial.config), task)
            if value is None:
                optimizer.observe(trial, failed="runtime")
            else:
                optimizer.observe(trial, value)
            curve.append(np.inf if optimizer.best_value is None else optimizer.best_value)
        winners.append(dict(optimizer.best_config or {}))
        curves.append(np.log(np.array(curve) / np.nanmin(problem.costs[:, task])))
    single = min(problem.score([winner]) for winner in winners)
    two = min(problem.score([a, b]) for a in winners for b in winners)
    return {"single": single, "two": two, "curve": np.mean(curves, axis=0).tolist()}


def one_run(name: str, data: Path, variant: str, seed: int) -> runs.Row:
    """Return the result of a job."""
    problem, started = problem_of(name, data), time.process_time()
    row = (
        separate_runs(problem, seed)
        if variant == SEPARATE
        else joint_run(problem, GOALS[variant], seed)
    )
    best = {"best_single": problem.best_single, "best_two": problem.best_two}
    taken = time.process_time() - started
    return {"problem": name, "variant": variant, "seed": seed, **row, **best, "cpu": taken}


def table_of(rows: Sequence[runs.Row]) -> str:
    """Return the table of all problems in Markdown."""
    lines = [
        "| problem | best single | single / best | separate / best | best two | two / best | separate / best "
        "| each | separate | CPU s per suggestion |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["problem"] for row in rows):
        own = [row for row in rows if row["problem"] == name]
        by = {
            v: sorted((r for r in own if r["variant"] == v), key=lambda r: r["seed"])
            for v in VARIANTS
        }
        if not all(by.values()):
            continue
        single, two = own[0]["best_single"], own[0]["best_two"]
        cells = [
            name,
            f"{np.exp(single):.3f}",
            ratio([r["score"] - single for r in by["single"]]),
            ratio([r["single"] - single for r in by[SEPARATE]]),
            f"{np.exp(two):.3f}",
            ratio([r["score"] - two for r in by["two"]]),
            ratio([r["two"] - two for r in by[SEPARATE]]),
            ratio([r["curve"][-1] for r in by["each"]]),
            ratio([r["curve"][-1] for r in by[SEPARATE]]),
            f"{np.mean([r['cpu'] / r['evaluations'] for r in by['single']]):.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ratio(logs: Sequence[float]) -> str:
    """Return the geometric mean of ratios with the 95 % bootstrap interval over seeds."""
    values = np.array(logs)
    rng = np.random.default_rng(0)
    means = values[rng.integers(len(values), size=(4000, len(values)))].mean(axis=1)
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return f"{np.exp(values.mean()):.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--out", type=Path, help="JSONL file of the runs; it is continued")
    parser.add_argument("--table", type=Path, help="write the table to this file")
    parser.add_argument("--problems", default=";".join(PROBLEMS), help="separated by semicolons")
    parser.add_argument("--variants", default=";".join(VARIANTS), help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    jobs = [
        (name, args.data, variant, seed)
        for seed in range(args.seeds)
        for name in args.problems.split(";")
        for variant in args.variants.split(";")
    ]
    rows = runs.completed(
        one_run,
        jobs,
        lambda row: (row["problem"], args.data, row["variant"], row["seed"]),
        args.out,
        args.processes,
    )
    text = table_of(rows)
    runs.publish(f"{runs.provenance()}\n\n{text}" if args.table else text, args.table)


if __name__ == "__main__":
    main()
