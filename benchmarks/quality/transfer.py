"""Measure the evaluations that results from another device save, and the cost of misleading results.

    OMP_NUM_THREADS=1 python benchmarks/quality/transfer.py --data DIR --out rows.jsonl --table results/transfer.md

The recorded spaces are convolution_milo and dedispersion_milo of the public benchmark hub of the auto-tuning community,
T4 files below DIR/recorded (or the folder named by BACO_LIKE_DATA). A run on one device starts from results of another
one: no results, a run of ours there, a random part of its table, its best configurations, or misleading results. The
figure is the number of evaluations to reach a share of the optimum; a run that does not reach it counts as the budget.
`--costs` also measures the processor time of a suggestion.
"""

import math
import statistics
import time
from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import runs

from baco_like import MaxEvals, Optimizer, Sharing, WarmStart, run
from baco_like.benchmarking.problems.recorded import RecordedProblem, find_recorded
from baco_like.evaluators import ReplayEvaluator

PAIRS = {
    "convolution, A4000 to W7800": ("convolution", "A4000", "W7800"),
    "convolution, A4000 to MI250X": ("convolution", "A4000", "MI250X"),
    "dedispersion, A4000 to MI250X": ("dedispersion", "A4000", "MI250X"),
}
OTHER = {"convolution": "dedispersion", "dedispersion": "convolution"}
SHARES = (0.95, 0.98)
ARMS = {
    "nothing": "no warm start",
    "run of 60": "prior: a run of ours of 60 evaluations there",
    "run of 220": "prior: a run of ours of 220 evaluations there",
    "random 200": "prior: 200 random rows of its table",
    "best 5": "configs: the 5 best of the run of 220",
    "reversed": "misleading: the run of 220 with its order reversed",
    "shuffled": "misleading: the run of 220 with its values shuffled",
    "other kernel": "misleading: 200 random rows with the other kernel's values",
    "run of 60 as a task": "data of another task: the run of 60",
    "random 200 as a task": "data of another task: the 200 random rows",
    "reversed as a task": "misleading data of another task: the reversed run of 220",
}
AS_TASK = " as a task"
MISLEADING = ("reversed", "shuffled", "other kernel")
Pair = tuple[dict[str, Any], float | None]


@cache
def space_of(data: str, kernel: str, device: str) -> RecordedProblem:
    path = Path(data) / "recorded" / f"{kernel}_milo" / f"{device}_T4.json.gz"
    (found,), _ = find_recorded(path, "minimize")
    return found


@cache
def own_run(data: str, kernel: str, device: str, seed: int) -> tuple[Pair, ...]:
    """Return the results of a run of 220 evaluations on the source, in order."""
    source = space_of(data, kernel, device)
    optimizer = Optimizer(source.space, seed=1000 + seed)
    run(optimizer, ReplayEvaluator(source.recorded), MaxEvals(220))
    return tuple((dict(trial.config), trial.value) for trial in optimizer.trials)


def random_rows(data: str, kernel: str, device: str, seed: int) -> list[Pair]:
    recorded = space_of(data, kernel, device).recorded
    entries = list(recorded.entries.items())
    chosen = np.random.default_rng(seed).choice(len(entries), 200, replace=False)
    return [
        (dict(zip(recorded.names, entries[i][0], strict=True)), entries[i][1].value) for i in chosen
    ]


def other_values(data: str, kernel: str, device: str, seed: int) -> list[Pair]:
    """Return random configurations with the values that the other kernel has at the same place of its table.

    The tables are in the order of the parameters' values, so this is a landscape with structure, but of another task.
    """
    mine, other = (space_of(data, k, device).recorded for k in (kernel, OTHER[kernel]))
    configs, values = list(mine.entries), [entry.value for entry in other.entries.values()]
    places = np.random.default_rng(seed).random(200)
    return [
        (
            dict(zip(mine.names, configs[int(at * len(configs))], strict=True)),
            values[int(at * len(values))],
        )
        for at in places
    ]


def reversed_order(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the results with logarithms of the other sign: the best is the worst."""
    logs = [math.log(value) for _, value in pairs if value is not None]
    twice = 2 * statistics.fmean(logs)
    return [(c, None if value is None else math.exp(twice - math.log(value))) for c, value in pairs]


def shuffled(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    order = np.random.default_rng(seed).permutation(len(pairs))
    return [(config, pairs[i][1]) for (config, _), i in zip(pairs, order, strict=True)]


def warm_start(data: str, kernel: str, source: str, arm: str, seed: int) -> WarmStart | None:
    if arm == "nothing":
        return None
    if arm == "random 200":
        return WarmStart(random_rows(data, kernel, source, seed), "prior")
    if arm == "other kernel":
        return WarmStart(other_values(data, kernel, source, seed), "prior")
    known = list(own_run(data, kernel, source, seed))
    if arm == "best 5":
        return WarmStart(known, "configs", best=5)
    if arm == "reversed":
        return WarmStart(reversed_order(known), "prior")
    if arm == "shuffled":
        return WarmStart(shuffled(known, seed), "prior")
    return WarmStart(known[:60] if arm == "run of 60" else known, "prior")


def work(data: str, pair: str, arm: str, seed: int, budget: int) -> runs.Row:
    kernel, source, device = PAIRS[pair]
    target = space_of(data, kernel, device)
    start = warm_start(data, kernel, source, arm.removesuffix(AS_TASK), seed)
    space, options = target.space, {"seed": seed, "warm_start": start}
    if arm.endswith(AS_TASK):
        assert start is not None
        options["warm_start"] = WarmStart(start.data, task=source)
        options["sharing"] = Sharing(task=device)
        space = space.with_tasks([source, device])
    optimizer = Optimizer(space, **options)
    for _ in range(budget):
        trial = optimizer.suggest()
        entry = target.recorded.find({name: trial[name] for name in target.space.names})
        value = None if entry is None else entry.value
        optimizer.observe(trial, **({"failed": "runtime"} if value is None else {"value": value}))
    values = [trial.value for trial in optimizer.trials[optimizer.history.warm :]]
    best = float(np.nanmin(target.costs))
    return {
        "pair": pair,
        "arm": arm,
        "seed": seed,
        "budget": budget,
        "best": best,
        "values": values,
    }


def needed(row: runs.Row, share: float) -> int:
    """Return the number of evaluations until a share of the optimum; all of them if it was not reached."""
    limit = row["best"] / share
    for number, value in enumerate(row["values"], 1):
        if value is not None and value <= limit:
            return number
    return len(row["values"])


def report(rows: list[runs.Row], budget: int) -> str:
    parts = []
    for pair in PAIRS:
        mine = [row for row in rows if row["pair"] == pair]
        if mine:
            parts.append(f"## {pair}\n\n{_table(mine, budget)}")
    together = _table(rows, budget)
    return "\n\n".join([*parts, f"## All together\n\n{together}"])


def _table(rows: list[runs.Row], budget: int) -> str:
    head = ["known before", "runs"]
    for share in SHARES:
        head += [f"median to {share:.0%}", f"mean to {share:.0%}", "saved"]
    head.append(f"of optimum after {budget}")
    lines = []
    for arm, told in ARMS.items():
        mine = [row for row in rows if row["arm"] == arm]
        if mine:
            lines.append([told, *_figures(mine, rows)])
    return runs.table(head, lines)


def _figures(mine: list[runs.Row], rows: list[runs.Row]) -> list[str]:
    cells = [f"{len(mine)}"]
    cold = {(r["pair"], r["seed"]): r for r in rows if r["arm"] == "nothing"}
    for share in SHARES:
        counts = [needed(row, share) for row in mine]
        unreached = sum(not _reached(row, share) for row in mine)
        missed = f" ({unreached} never)" if unreached else ""
        saved = [
            needed(cold[r["pair"], r["seed"]], share) - needed(r, share)
            for r in mine
            if (r["pair"], r["seed"]) in cold
        ]
        mean, low, high = runs.interval(saved)
        told = "" if mine[0]["arm"] == "nothing" else f"{mean:.0f} ({low:.0f} to {high:.0f})"
        cells += [
            f"{statistics.median(counts):.0f}",
            f"{statistics.fmean(counts):.0f}{missed}",
            told,
        ]
    ends = [row["best"] / runs.best_after(row["values"], len(row["values"])) for row in mine]
    return [*cells, f"{statistics.fmean(ends):.3f}"]


def _reached(row: runs.Row, share: float) -> bool:
    return runs.best_after(row["values"], len(row["values"])) <= row["best"] / share


def costs(data: str, evaluations: int = 80) -> str:
    """Return a table of the processor time of a run's beginning and of one suggestion, with what else a run does."""
    work(
        data, next(iter(PAIRS)), "nothing", 0, evaluations
    )  # warm up: imports and other one-time work
    lines = []
    for arm in ("nothing", "random 200", "run of 220"):
        cells = []
        for kernel, source, device in PAIRS.values():
            start = warm_start(data, kernel, source, arm, 0)
            target = space_of(data, kernel, device)
            began = time.process_time()
            optimizer = Optimizer(target.space, warm_start=start)
            optimizer.observe(optimizer.suggest(), 1.0)  # warm up: tables that a space builds once
            opened = time.process_time()
            run(optimizer, ReplayEvaluator(target.recorded), MaxEvals(evaluations + 1))
            each = (time.process_time() - opened) / evaluations
            cells.append(f"{opened - began:.2f} s, {1e3 * each:.0f} ms")
        lines.append([ARMS[arm], *cells])
    return runs.table(["to the first suggestion, then each", *PAIRS], lines)


def plot(rows: list[runs.Row], path: Path) -> None:
    """Draw the mean share of the optimum over evaluations, one panel for each pair."""
    from matplotlib.figure import Figure

    pairs = [pair for pair in PAIRS if any(row["pair"] == pair for row in rows)]
    figure = Figure(figsize=(5 * len(pairs), 4), layout="constrained")
    axes = figure.subplots(1, len(pairs), squeeze=False)[0]
    for axis, pair in zip(axes, pairs, strict=True):
        for arm in ARMS:
            curves = [_curve(row) for row in rows if (row["pair"], row["arm"]) == (pair, arm)]
            if curves:
                style = "--" if arm in MISLEADING else "-"
                axis.plot(
                    np.arange(1, len(curves[0]) + 1), np.mean(curves, axis=0), style, label=arm
                )
        axis.set(title=pair, xlabel="evaluations", ylim=(0.5, 1.005))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("share of the optimum, mean over seeds")
    axes[-1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def _curve(row: runs.Row) -> Any:
    values = [math.inf if value is None else value for value in row["values"]]
    return row["best"] / np.minimum.accumulate(values)


def main() -> None:
    parser = runs.arguments(__doc__, budget=150, processes=1, pairs=PAIRS, arms=ARMS)
    parser.add_argument("--plot", type=Path, help="PNG file to write")
    parser.add_argument("--costs", action="store_true", help="measure the time of suggestions too")
    args = parser.parse_args()
    if args.data is None or not (args.data / "recorded").is_dir():
        raise SystemExit("no recorded spaces there: give --data DIR, or set BACO_LIKE_DATA")
    data = str(args.data)
    jobs = [
        (pair, arm, seed, args.budget)
        for seed, pair, arm in product(range(args.seeds), args.pairs, args.arms)
    ]
    rows = runs.finished(partial(work, data), jobs, ("pair", "arm", "seed", "budget"), args)
    head = f"# Warm start from another device, {args.seeds} seeds of {args.budget} evaluations\n\n{runs.provenance()}"
    explained = (
        "Saved: evaluations fewer than without a warm start, mean over seeds with its 95 % bootstrap interval (seed by "
        f"seed; a run that never gets there counts as {args.budget}). The run on the source has another seed each time."
    )
    parts = [head, report(rows, args.budget), explained]
    if args.costs:
        parts.append(f"## Processor time\n\n{costs(data)}")
    runs.publish("\n\n".join(parts), args.table)
    if args.plot is not None:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
