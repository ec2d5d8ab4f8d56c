"""One configuration, or few, for several devices and sizes: how near are they to the best that exist?

    OMP_NUM_THREADS=1 python benchmarks/quality/tasks.py --data DIR --out rows.jsonl --table tasks.md --seeds 20

Each problem has several tasks with the cost of every configuration on each: devices of recorded GPU kernels, CPUs and
GPUs of compilers' tables, a matrix multiplication in C of ours at several sizes (`../recorded/sizes.json.gz`), and a
kernel with a task whose values are reversed. The spaces of the compilers' tables are too large to list, so they are cut
to 20,000 configurations drawn at random.

* `single`, `two` and `each` are joint runs with these goals and 30 evaluations for each task.
* `separate` are runs of the default strategy on each task alone, with the same total. Their winners are the candidates
  for a single configuration, and the best one on all tasks counts, as if it were known: this favours them.
* `left out` are joint runs of the sizes without one, for two configurations. The selector picks one of them for this
  size, each size in turn.
* `one task` are runs on the first task, with and without the declaration that it is the only one.

A set of configurations is scored by the geometric mean, over the tasks, of the slowdown of its best member, divided by
that of the best set that exists, which is found by comparing all. `each` is scored by the mean slowdown of the best
configuration of each task. `curve` has its score after each multiple of the number of tasks.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import runs
from peers import problems
from peers.valued import random_configs

from baco_like import Aim, Cover, Optimizer, Space, Tasks
from baco_like.constraints.table import TableConstraint
from baco_like.evaluators.replay import load
from baco_like.records import TaskRecommendation

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
LEFT_OUT = "left out"
ONE_TASK = "one task"
GOALS = {"single": "single", "two": Cover(2), "each": "each"}
VARIANTS = (*GOALS, SEPARATE, LEFT_OUT, ONE_TASK)


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

    def without(self, task: int) -> "TaskProblem":
        """Return the problem without one task."""
        rest = [t for t in range(len(self.tasks)) if t != task]
        tasks = Tasks([self.tasks.descriptors[t] for t in rest])
        return TaskProblem(self.name, self.space, tasks, self.rows, self.costs[:, rest])

    def measure(self, config: dict[str, Any], task: int) -> float | None:
        """Return the value of a configuration on a task, or None for a failure."""
        cost = self.costs[self.number[tuple(config[name] for name in self.space.names)], task]
        return None if np.isnan(cost) else float(cost)

    def score(self, configs: Sequence[Mapping[str, Any]]) -> float:
        """Return the logarithm of the aggregated slowdown of a set."""
        found = [self.number[tuple(c[name] for name in self.space.names)] for c in configs]
        return float(self.logs[found].min(axis=0).mean())

    def log_slowdown(self, config: Mapping[str, Any], task: int) -> float:
        """Return the logarithm of the slowdown of a configuration on a task."""
        return float(self.logs[self.number[tuple(config[n] for n in self.space.names)], task])


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


def tuned(problem: TaskProblem, goal: Any, seed: int) -> tuple[TaskRecommendation, list[float]]:
    """Return the recommendation of one run with all tasks, and its curve."""
    count = len(problem.tasks)
    total = EVALUATIONS * count
    space = problem.space.with_tasks(problem.tasks)
    optimizer = Optimizer(space, Aim(goal=goal), seed, budget=total)
    best = np.full(count, np.inf)
    curve = []
    for number in range(total):
        trial = optimizer.suggest()
        task = problem.tasks.index(trial.task)
        value = problem.measure(dict(trial.config), task)
        report(optimizer, trial, value)
        best[task] = np.fmin(best[task], np.inf if value is None else value)
        if (number + 1) % count == 0:
            curve.append(float(np.mean(np.log(best / np.nanmin(problem.costs, axis=0)))))
    found = optimizer.recommend()
    assert isinstance(found, TaskRecommendation)
    return found, curve


def report(optimizer: Optimizer, trial: Any, value: float | None) -> None:
    """Observe a value, or a failure (None)."""
    if value is None:
        optimizer.observe(trial, failed="runtime")
    else:
        optimizer.observe(trial, value)


def joint_run(problem: TaskProblem, goal: Any, seed: int) -> runs.Row:
    """Return the scores of one run with all tasks."""
    found, curve = tuned(problem, goal, seed)
    total = EVALUATIONS * len(problem.tasks)
    score = problem.score(found.configs)
    return {"score": score, "configs": len(found.configs), "evaluations": total, "curve": curve}


def left_out_run(problem: TaskProblem, seed: int) -> runs.Row:
    """Return what the selector of two configurations picks for a task that its run leaves out; each in turn.

    ``regret`` is the logarithm of the picked configuration's slowdown relative to the better one of the two, and
    ``slowdown`` relative to the best that exists.
    """
    task = seed % len(problem.tasks)
    found, _ = tuned(problem.without(task), GOALS["two"], seed)
    picked = found.selector.select(problem.tasks.descriptors[task])
    assert picked is not None
    slowdown = problem.log_slowdown(picked, task)
    least = min(problem.log_slowdown(config, task) for config in found.configs)
    return {"task": problem.tasks.names[task], "slowdown": slowdown, "regret": slowdown - least}


def one_task_runs(problem: TaskProblem, seed: int) -> runs.Row:
    """Return the CPU seconds of a run on the first task, with and without its declaration; both suggest the same."""
    (first, *_) = problem.tasks.descriptors
    _one_task_seconds(
        problem, seed, first
    )  # not counted: the first runs of a process load libraries
    return {f"{name} seconds": taken for name, taken in _one_task_seconds(problem, seed, first)}


def _one_task_seconds(problem: TaskProblem, seed: int, task: Any) -> list[tuple[str, float]]:
    declared = {"with": problem.space.with_tasks([task]), "without": problem.space}
    seconds, suggested = dict.fromkeys(declared, 0.0), {}
    optimizers = {
        name: Optimizer(space, seed=seed, budget=EVALUATIONS) for name, space in declared.items()
    }
    for number in range(EVALUATIONS):
        # The first of two equal computations may be slower, so they take turns.
        for name in sorted(declared, reverse=bool(number % 2)):
            started = time.process_time()
            trial = optimizers[name].suggest()
            config = {key: trial[key] for key in problem.space.names}
            report(optimizers[name], trial, problem.measure(config, 0))
            seconds[name] += time.process_time() - started
            suggested[name] = config
        assert suggested["with"] == suggested["without"]
    return list(seconds.items())


def separate_runs(problem: TaskProblem, seed: int) -> runs.Row:
    """Return the scores of one run for each task; ``two_curve`` has that of two after each evaluation."""
    winners: list[list[Mapping[str, Any]]] = []
    curves = []
    for task in range(len(problem.tasks)):
        optimizer = Optimizer(problem.space, seed=seed, budget=EVALUATIONS)
        curve, best = [], []
        for _ in range(EVALUATIONS):
            trial = optimizer.suggest()
            report(optimizer, trial, problem.measure(dict(trial.config), task))
            curve.append(np.inf if optimizer.best_value is None else optimizer.best_value)
            best.append(dict(optimizer.best_config or trial.config))
        winners.append(best)
        curves.append(np.log(np.array(curve) / np.nanmin(problem.costs[:, task])))
    after = list(zip(*winners, strict=True))
    two = [min(problem.score([a, b]) for a in own for b in own) for own in after]
    single = min(problem.score([winner]) for winner in after[-1])
    curve = np.mean(curves, axis=0).tolist()
    return {"single": single, "two": two[-1], "curve": curve, "two_curve": two}


def is_made(name: str, variant: str) -> bool:
    """Whether a variant is a job: with two tasks, runs with the goal of two configurations are those of `each`."""
    if variant in (LEFT_OUT, ONE_TASK):
        return name == ("sizes" if variant == LEFT_OUT else "convolution_milo")
    return variant != "two" or len(DEVICES.get(name, ())) != 2


def one_run(name: str, variant: str, seed: int, *, data: Path) -> runs.Row:
    """Return the result of a job."""
    problem, started = problem_of(name, data), time.process_time()
    others = {SEPARATE: separate_runs, LEFT_OUT: left_out_run, ONE_TASK: one_task_runs}
    work = others.get(variant) or partial(joint_run, goal=GOALS[variant])
    row = work(problem, seed=seed)
    best = {"best_single": problem.best_single, "best_two": problem.best_two}
    taken = time.process_time() - started
    return {"problem": name, "variant": variant, "seed": seed, **row, **best, "cpu": taken}


def table_of(rows: Sequence[runs.Row]) -> str:
    """Return the table of all problems in Markdown."""
    head = ["problem", "best single", "single / best", "separate / best", "best two", "two / best"]
    head += ["separate / best", "evaluations behind", "each", "separate", "evaluations behind"]
    lines = []
    for name in dict.fromkeys(row["problem"] for row in rows):
        own = [row for row in rows if row["problem"] == name]
        by = {
            v: sorted((r for r in own if r["variant"] == v), key=lambda r: r["seed"])
            for v in (*GOALS, SEPARATE)
        }
        by["two"] = by["two"] or by["each"]  # see `is_made`
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
            behind([[r["score"]] for r in by["two"]], [r["two_curve"] for r in by[SEPARATE]]),
            ratio([r["curve"][-1] for r in by["each"]]),
            ratio([r["curve"][-1] for r in by[SEPARATE]]),
            behind([r["curve"] for r in by["each"]], [r["curve"] for r in by[SEPARATE]]),
            f"{np.mean([r['cpu'] / r['evaluations'] for r in by['single']]):.2f}",
        ]
        lines.append(cells)
    table = runs.table([*head, "CPU s per suggestion"], lines)
    notes = [*selector_lines(rows), *one_task_lines(rows)]
    return "\n\n".join([table, paired_table(rows), "\n".join(notes)])


def paired_table(rows: Sequence[runs.Row]) -> str:
    """Return a table of the slowdown of separate runs relative to joint runs with the same seed."""
    lines = []
    for name in dict.fromkeys(row["problem"] for row in rows):
        own = {(r["variant"], r["seed"]): r for r in rows if r["problem"] == name}
        cells = []
        for goal in GOALS:
            variant = goal if is_made(name, goal) else "each"
            differences = []
            for (kind, seed), row in own.items():
                other = own.get((SEPARATE, seed))
                if kind == variant and other is not None:
                    is_each = goal == "each"
                    joint = row["curve"][-1] if is_each else row["score"]
                    differences.append((other["curve"][-1] if is_each else other[goal]) - joint)
            cells.append(ratio(differences) if differences else "-")
        lines.append([name, *cells])
    return runs.table(["separate runs / joint runs, paired by seed", *GOALS], lines)


def selector_lines(rows: Sequence[runs.Row]) -> list[str]:
    """Return what the selectors lose on the sizes that their runs leave out."""
    own = [row for row in rows if row["variant"] == LEFT_OUT]
    if not own:
        return []
    return [
        f"- Selector of two configurations on a size that was left out, {len(own)} runs: slowdown relative to the "
        f"better one of the two {ratio([row['regret'] for row in own])}, to the best that exists "
        f"{ratio([row['slowdown'] for row in own])}."
    ]


def one_task_lines(rows: Sequence[runs.Row]) -> list[str]:
    """Return the seconds of runs with one task beside those without tasks."""
    own = [row for row in rows if row["variant"] == ONE_TASK]
    if not own:
        return []
    mean = {
        name: 1e3 * np.mean([row[f"{name} seconds"] for row in own]) / EVALUATIONS
        for name in ("with", "without")
    }
    change = [np.log(row["with seconds"] / row["without seconds"]) for row in own]
    return [
        f"- One task, {len(own)} runs: the same suggestions as without tasks, and {mean['with']:.2f} ms of CPU time "
        f"for each beside {mean['without']:.2f} ms, a ratio of {ratio(change)}."
    ]


def behind(joint: Sequence[Sequence[float]], separate: Sequence[Sequence[float]]) -> str:
    """Return how many evaluations per task earlier separate runs have the final result of joint runs.

    Results are means over the seeds, so that the number has a 95 % bootstrap interval over seeds. It is 0 where
    separate runs never reach the final result.
    """
    final, curves = np.array(joint)[:, -1], np.array(separate)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(final), size=(4000, len(final)))
    other = rng.integers(len(curves), size=(4000, len(curves)))
    numbers = [
        float((curves[b].mean(axis=0) <= final[a].mean()).sum())
        for a, b in [(slice(None), slice(None)), *zip(drawn, other, strict=True)]
    ]
    low, high = runs.ends(numbers[1:])
    return f"{max(numbers[0] - 1, 0):.0f} ({max(low - 1, 0):.0f} to {max(high - 1, 0):.0f})"


def ratio(logs: Sequence[float]) -> str:
    """Return the geometric mean of ratios with the 95 % bootstrap interval over seeds."""
    value, low, high = np.exp(runs.interval(logs, 4000))
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    args = runs.arguments(__doc__, processes=1, problems=PROBLEMS, variants=VARIANTS).parse_args()
    jobs = [
        job for job in product(args.problems, args.variants, range(args.seeds)) if is_made(*job[:2])
    ]
    work = partial(one_run, data=args.data)
    text = table_of(runs.finished(work, jobs, ("problem", "variant", "seed"), args))
    runs.publish(f"{runs.provenance()}\n\n{text}" if args.table else text, args.table)


if __name__ == "__main__":
    main()
