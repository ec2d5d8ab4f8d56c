"""Run BaCO's own test problem: 10 ordinals, 339,724,440 feasible configurations; 57 % violate a hidden constraint.

    OMP_NUM_THREADS=1 python benchmarks/quality/rs_cot.py --data DIR [--out rows.jsonl] [--table results/rs_cot.md]

The space is scenarios/rs_cot_1024_scenario.json of the public repository baco-authors/baco, in --data or in the folder
named by BACO_LIKE_DATA. The objective comes from the repository's test; its exact optimum is -16.3496. The original's
figures are from 10 seeds with its unchanged scenario.
"""

import math
import os
import statistics
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import runs
from ablations import EverywhereFeasible

from baco_like import Infeasible, Space
from baco_like.acquisitions.optimizers.searches import SampledSearch
from baco_like.evaluators.function.evaluator import FunctionEvaluator
from baco_like.strategies import Bayesian, Phased, RandomSearch, create_strategy
from baco_like.surrogates.forest import RandomForest
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.prior import FLAT_PRIORS

OPTIMUM = -16.3496
ORIGINAL = {20: -2.55, 40: -10.94, 60: -13.72}
"""Mean best value of the BaCO program, 20 first points."""


def objective(v: Mapping[str, Any]) -> float:
    x = {name.removeprefix("tuned_"): value for name, value in v.items()}
    if x["v3"] <= 8:
        raise Infeasible("v3 <= 8")
    waves = 10 * math.sin(x["v7"] / 100) * math.sin(x["v8"] / 100)
    logs = [math.log(x[name] + 1) for name in ("ls0", "ls1", "gs0", "gs1")]
    balance = x["v3"] + x["v5"] + x["v7"] - x["ls0"] - x["gs1"]
    squares = (x["v5"] + x["v6"] - 800) ** 2 + balance**2 + x["v3"] * x["v4"]
    return float(1e-5 * squares - waves + logs[0] - logs[1] + logs[2] - logs[3])


@cache
def space_of(data: str) -> Space:
    return Space.from_baco(Path(data) / "scenarios" / "rs_cot_1024_scenario.json")


def _phased(initial: int = 10, **parts: Any) -> Phased:
    return Phased(Bayesian(**parts), initial)


STRATEGIES: Mapping[str, Any] = {
    "ours, 10 first points": _phased(),
    "ours, 20 first points": _phased(20),
    "preset baco, 10 first points": create_strategy("baco", {}),
    "preset baco, 20 first points": create_strategy("baco", {"initial": 20}),
    "uniform sampling": RandomSearch(),
    "best of 10,000 random instead of local search": _phased(search=SampledSearch(10_000)),
    "best of 1,000 random instead of local search": _phased(search=SampledSearch(1_000)),
    "no feasibility model": _phased(feasibility=EverywhereFeasible()),
    "no minimum feasibility": _phased(largest_minimum=0.0),
    "minimum feasibility up to 0.1": _phased(largest_minimum=0.1),
    "no priors": _phased(surrogate=GaussianProcess(priors=FLAT_PRIORS)),
    "random forest": _phased(surrogate=RandomForest()),
}
"""The first five are the comparison with the original, the others say what each part is worth here."""


def work(data: str, name: str, seed: int, budget: int) -> runs.Row:
    evaluator = FunctionEvaluator(objective)
    found = runs.one_run(space_of(data), STRATEGIES[name], evaluator, seed, budget)
    return {"strategy": name, "seed": seed, "budget": budget, **found}


def report(rows: list[runs.Row], budgets: tuple[int, ...]) -> str:
    original = [
        "BaCO (its own program)",
        *(f"{ORIGINAL[n]:.2f}" if n in ORIGINAL else "" for n in budgets),
    ]
    lines = [[*original, *[""] * (len(budgets) + 2)]]
    for name in STRATEGIES:
        mine = [row for row in rows if row["strategy"] == name]
        if mine:
            lines.append([name, *_figures(mine, budgets)])
    head = ["", *(f"mean best after {n}" for n in budgets), *(f"median {n}" for n in budgets)]
    head += [f"distinct of {max(budgets)}", "failures"]
    return runs.table(head, lines)


def _figures(rows: list[runs.Row], budgets: tuple[int, ...]) -> list[str]:
    means, medians = [], []
    for n in budgets:
        best = [runs.best_after(row["values"], n) for row in rows]
        mean, low, high = runs.interval(best)
        means.append(f"{mean:.2f} ({low:.2f} to {high:.2f})")
        medians.append(f"{statistics.median(best):.2f}")
    distinct = min(row["distinct"] for row in rows)
    failures = [row["values"].count(None) for row in rows]
    return [*means, *medians, f"{distinct}", f"{min(failures)}-{max(failures)}"]


def main() -> None:
    parser = runs.arguments(__doc__)
    parser.add_argument("--data", default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--strategies", help="separated by semicolons")
    args = parser.parse_args()
    names = runs.select(args.strategies, STRATEGIES, ";")
    if args.data is None or not (Path(args.data) / "scenarios").is_dir():
        raise SystemExit("no scenarios there: give --data DIR, or set BACO_LIKE_DATA")
    jobs = [(args.data, name, seed, args.budget) for seed in range(args.seeds) for name in names]

    def key(row: runs.Row) -> runs.Job:
        return args.data, row["strategy"], row["seed"], row["budget"]

    requested = set(jobs)
    rows = [
        r for r in runs.completed(work, jobs, key, args.out, args.processes) if key(r) in requested
    ]
    text = report(rows, runs.shown_budgets(args.budget))
    head = f"# BaCO's test problem rs_cot_1024, {args.seeds} seeds, optimum {OPTIMUM}\n\n{runs.provenance()}"
    explained = (
        "In brackets: 95 % bootstrap interval of the mean over seeds. Distinct: least over seeds."
    )
    runs.publish(f"{head}\n\n{text}\n\n{explained}", args.table)


if __name__ == "__main__":
    main()
