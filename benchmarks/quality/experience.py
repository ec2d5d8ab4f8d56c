"""Measure what earlier runs of other programs bring at the start of a run, and the cost of misleading ones.

    OMP_NUM_THREADS=1 python benchmarks/quality/experience.py --data DIR --out rows.jsonl --table results/experience.md

One table after the other is left out: a run tunes it, with the other tables as its experience. They are the recorded
GPU spaces and the measured compiler spaces of the suite (`suite.py`). In the arm `devices` they include the same kernel
on other devices, in the arm `kernels` only other kernels. The arms `shuffled` and `reversed` are `devices` with the
values of each table in random or in reversed order. Where no table knows enough of the parameters, the run is the one
without experience, and its row is copied. The default configuration is not known, as in the suite.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import runs
from peers import compilers, problems
from peers.problem import Problem

from baco_like import Optimizer
from baco_like.journal.header import Advice
from baco_like.optimizer.experience import read_experience
from baco_like.records.sources import EXPERIENCE
from baco_like.records.trial import Outcome
from baco_like.results import Recording

NOTHING = "nothing"
ARMS = {
    NOTHING: "no experience",
    "devices": "other devices and other kernels",
    "kernels": "other kernels only",
    "shuffled": "misleading: `devices`, values shuffled",
    "reversed": "misleading: `devices`, order reversed",
}
SHOWN = (5, 10, 20, 40, 60)
LEVELS = (10, 20, 40)
"""Evaluations without experience whose level a run with misleading experience must reach."""

MOST_ROWS = 12_000
DRAWS = 5
"""Number of different shuffles."""

GROUPS = ("gpu", "catbench", "flags")


@cache
def spaces(data: Path) -> dict[str, str]:
    """Return the groups of the tables by name."""
    known = problems.suite_names(data)
    tables = (*compilers.CATBENCH, *compilers.FLAGS)
    return {n: g for n, g in known.items() if g == "gpu" or n in tables}


def kernel_of(space: str) -> str:
    """Return what two tables of one kernel have in common; both recordings of the convolution are one kernel."""
    return space.split("/")[0].split("_")[0]


@cache
def table_of(data: Path, space: str) -> tuple[tuple[str, ...], list[tuple], np.ndarray]:
    """Return names, rows and costs of a table, at most `MOST_ROWS` of them."""
    problem = problems.problem(space, data)
    rows, costs = list(problem.rows) if space not in compilers.CATBENCH else [], problem.costs
    if not rows:
        configs, costs = compilers._table(
            str(data / "compilers" / f"{space}.csv.gz"), problem.space
        )
        rows = [tuple(config.values()) for config in configs]
    kept = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    return tuple(problem.names), [rows[i] for i in kept], np.asarray(costs)[kept]


def recording(data: Path, space: str, arm: str, seed: int) -> Recording:
    """Return a table as recorded results, with the values of an arm."""
    names, rows, costs = table_of(data, space)
    if arm == "shuffled":
        costs = np.random.default_rng(seed).permutation(costs)
    elif arm == "reversed":
        costs = np.nanmax(costs) * np.nanmin(costs) / costs
    outcomes = [
        Outcome.failure(i, "runtime", "") if math.isnan(c) else Outcome.success(i, (float(c),))
        for i, c in enumerate(costs)
    ]
    return Recording(names, tuple(rows), tuple(outcomes))


@cache
def advice(data: Path, space: str, arm: str, draw: int) -> tuple[Advice, ...]:
    """Return what the other tables advise for a space."""
    others = [
        other
        for other in spaces(data)
        if other != space and (arm != "kernels" or kernel_of(other) != kernel_of(space))
    ]
    known = [recording(data, other, arm, draw) for other in others]
    target = problems.problem(space, data).space
    return read_experience(known, target, Optimizer(target).options)


def work(data: Path, space: str, arm: str, seed: int, budget: int) -> runs.Row:
    """Run one arm; the row has the values, and how many configurations were advised and tried.

    The configurations are proposed under the name of the experience, which is what `Search(experience=...)` does, so
    the tables are read once for all seeds.
    """
    problem = problems.problem(space, data)
    known = (
        () if arm == NOTHING else advice(data, space, arm, seed % DRAWS if arm == "shuffled" else 0)
    )
    row = {"space": space, "arm": arm, "seed": seed, "budget": budget, "advised": len(known)}
    if arm != NOTHING and not known:
        return {**row, "used": 0, "values": None}
    optimizer = Optimizer(problem.space, seed=seed)
    for config, note in known:
        optimizer.propose(config, source=EXPERIENCE, note=note)
    for _ in range(min(budget, len(problem.rows))):
        trial = optimizer.suggest()
        cost = problem.cost(problem.number[tuple(trial[name] for name in problem.names)])
        failed = math.isnan(cost)
        optimizer.observe(trial, **({"failed": "runtime"} if failed else {"value": cost}))
    used = sum(trial.origin == "proposed" for trial in optimizer.trials)
    return {**row, "used": used, "values": [trial.value for trial in optimizer.trials]}


def regrets(problem: Problem, row: runs.Row) -> np.ndarray:
    """Return the log regret after each evaluation; failures count as the worst cost before the first success."""
    worst = float(np.nanmax(problem.costs))
    costs = np.array([worst if v is None else v for v in row["values"]])
    curve = np.log(np.maximum(np.minimum.accumulate(costs) / problem.best, 1.0))
    return np.concatenate([curve, np.repeat(curve[-1:], row["budget"] - len(curve))])


def needed(curve: np.ndarray, level: float) -> int:
    """Return the number of evaluations until a regret; one more than there are if it is never reached."""
    reached = np.flatnonzero(curve <= level + 1e-12)
    return int(reached[0]) + 1 if len(reached) else len(curve) + 1


Curves = Mapping[tuple[str, str, int], np.ndarray]
"""By arm, space and seed."""


def curves_of(rows: Sequence[runs.Row], data: Path) -> Curves:
    found = {
        (row["arm"], row["space"], row["seed"]): regrets(problems.problem(row["space"], data), row)
        for row in rows
        if row["values"] is not None
    }
    for row in rows:
        if row["values"] is None and (NOTHING, row["space"], row["seed"]) in found:
            found[row["arm"], row["space"], row["seed"]] = found[NOTHING, row["space"], row["seed"]]
    return found


def share_left(curves: Curves, arm: str, names: Sequence[str], seeds: int, after: int) -> str:
    """Return the mean log regret over that without experience, with its interval over seeds."""
    own = np.array([[curves[arm, n, s][after - 1] for n in names] for s in range(seeds)])
    cold = np.array([[curves[NOTHING, n, s][after - 1] for n in names] for s in range(seeds)])
    draws = np.random.default_rng(0).integers(seeds, size=(2000, seeds, len(names)))
    picked = np.arange(len(names))
    samples = own[draws, picked].mean(axis=(1, 2)) / cold[draws, picked].mean(axis=(1, 2))
    low, high = runs.ends(samples)
    return f"{own.mean() / cold.mean():.2f} ({low:.2f} to {high:.2f})"


def lost(curves: Curves, arm: str, names: Sequence[str], seeds: int) -> list[int]:
    """Return the additional evaluations to the levels that runs without experience reach at `LEVELS`."""
    return [
        needed(curves[arm, n, s], level) - needed(curves[NOTHING, n, s], level)
        for n, s in product(names, range(seeds))
        for level in (curves[NOTHING, n, s][after - 1] for after in LEVELS)
    ]


def report(rows: Sequence[runs.Row], data: Path, seeds: int) -> str:
    curves, groups = curves_of(rows, data), spaces(data)
    parts = []
    for group in ("all", *GROUPS):
        names = [
            n
            for n, g in groups.items()
            if group in (g, "all") and all((a, n, s) in curves for a in ARMS for s in range(seeds))
        ]
        if names:
            parts.append(f"## {group}: {len(names)} spaces\n\n{_table(curves, rows, names, seeds)}")
    head = ["space", *(a for a in ARMS)]
    lines = [
        [n, *(f"{np.mean([curves[a, n, s][9] for s in range(seeds)]):.3f}" for a in ARMS)]
        for n in groups
        if all((a, n, s) in curves for a in ARMS for s in range(seeds))
    ]
    return "\n\n".join([*parts, "## Log regret after 10 evaluations", runs.table(head, lines)])


def _table(curves: Curves, rows: Sequence[runs.Row], names: Sequence[str], seeds: int) -> str:
    head = ["experience", *(f"regret left @{n}" for n in SHOWN)]
    head += ["evaluations lost, median", "mean", "its trials"]
    lines = []
    for arm in list(ARMS)[1:]:
        more = lost(curves, arm, names, seeds)
        used = [r["used"] for r in rows if r["arm"] == arm and r["space"] in names]
        line = [ARMS[arm], *(share_left(curves, arm, names, seeds, n) for n in SHOWN)]
        line += [f"{statistics.median(more):.0f}", f"{statistics.fmean(more):.1f}"]
        lines.append([*line, f"{statistics.fmean(used):.1f}"])
    return runs.table(head, lines)


def main() -> None:
    parser = runs.arguments(__doc__, processes=1, arms=ARMS)
    args = parser.parse_args()
    if args.data is None or not (args.data / "recorded").is_dir():
        raise SystemExit("no recorded spaces there: give --data DIR, or set BACO_LIKE_DATA")
    jobs = [
        (space, arm, seed, args.budget)
        for seed, space, arm in product(range(args.seeds), spaces(args.data), args.arms)
    ]
    names = ("space", "arm", "seed", "budget")
    rows = runs.finished(partial(work, args.data), jobs, names, args)
    explained = (
        "Regret left: mean of log(best cost so far / least cost) over that of the runs without experience, with its "
        "95 % bootstrap interval over seeds. Evaluations lost: how many more a run needs for the level that the run "
        f"without experience has after {', '.join(map(str, LEVELS))} evaluations; negative numbers are gains. Its "
        "trials: those that the experience got before it stopped."
    )
    head = f"# Experience of other programs, {args.seeds} seeds\n\n{runs.provenance()}"
    runs.publish("\n\n".join([head, explained, report(rows, args.data, args.seeds)]), args.table)


if __name__ == "__main__":
    main()
