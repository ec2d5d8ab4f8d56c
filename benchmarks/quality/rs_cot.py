"""Run BaCO's own test problem: 10 ordinals, 339,724,440 feasible configurations; 57 % violate a hidden constraint.

    OMP_NUM_THREADS=1 python benchmarks/quality/rs_cot.py --data DIR [--out runs.jsonl] [--table rs_cot.md]

The space is scenarios/rs_cot_1024_scenario.json of the public repository baco-authors/baco, in --data or in the folder
named by BACO_LIKE_DATA. The objective comes from the repository's test; its exact optimum is -16.3496. The original's
figures are from 10 seeds with its unchanged scenario.
"""

import math
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import runs

from baco_like import Infeasible, Space
from baco_like.benchmarking import study
from baco_like.benchmarking.problems import FunctionProblem
from baco_like.benchmarking.studies import Contender, StudyResult

NAME, OPTIMUM = "rs_cot_1024", -16.3496
ORIGINAL = {20: "-2.55", 40: "-10.94", 60: "-13.72"}
"""Mean best value of the BaCO program, 20 first points."""

CONTENDERS = [
    *(Contender(f"ours, {n} first points", "bayesian", {"initial": n}) for n in (10, 20)),
    *(Contender(f"preset baco, {n} first points", "baco", {"initial": n}) for n in (10, 20)),
    Contender("uniform sampling", "random_search"),
]


def objective(v: Mapping[str, Any]) -> float:
    x = {name.removeprefix("tuned_"): value for name, value in v.items()}
    if x["v3"] <= 8:
        raise Infeasible("v3 <= 8")
    waves = 10 * math.sin(x["v7"] / 100) * math.sin(x["v8"] / 100)
    logs = [math.log(x[name] + 1) for name in ("ls0", "ls1", "gs0", "gs1")]
    balance = x["v3"] + x["v5"] + x["v7"] - x["ls0"] - x["gs1"]
    squares = (x["v5"] + x["v6"] - 800) ** 2 + balance**2 + x["v3"] * x["v4"]
    return float(1e-5 * squares - waves + logs[0] - logs[1] + logs[2] - logs[3])


def report(result: StudyResult, budgets: tuple[int, ...]) -> str:
    lines = [
        [
            "BaCO (its own program)",
            *(ORIGINAL.get(n, "") for n in budgets),
            *[""] * (len(budgets) + 1),
        ]
    ]
    for label, curves in result.figures.curves.items():
        best = {n: curves[NAME][:, n - 1] for n in budgets}
        means = ["{:.2f} ({:.2f} to {:.2f})".format(*runs.interval(x)) for x in best.values()]
        medians = [f"{statistics.median(x.tolist()):.2f}" for x in best.values()]
        failures = [int(np.isnan(run.costs).sum()) for run in result.runs if run.label == label]
        lines.append([label, *means, *medians, f"{min(failures)}-{max(failures)}"])
    head = ["", *(f"mean best after {n}" for n in budgets), *(f"median {n}" for n in budgets)]
    return runs.table([*head, "failures"], lines)


def main() -> None:
    args = runs.arguments(__doc__).parse_args()
    if args.data is None or not (args.data / "scenarios").is_dir():
        raise SystemExit("no scenarios there: give --data DIR, or set BACO_LIKE_DATA")
    space = Space.from_baco(args.data / "scenarios" / "rs_cot_1024_scenario.json")
    problem = FunctionProblem(NAME, space, objective, optimum=OPTIMUM)
    result = study(
        *(CONTENDERS, [problem], args.seeds, args.budget), path=args.out, processes=args.processes
    )
    head = f"# BaCO's test problem {NAME}, {args.seeds} seeds, optimum {OPTIMUM}\n\n{runs.provenance()}"
    explained = "In brackets: 95 % bootstrap interval of the mean over seeds."
    text = report(result, tuple(n for n in runs.BUDGETS if n <= args.budget) or (args.budget,))
    runs.publish(f"{head}\n\n{text}\n\n{explained}", args.table)


if __name__ == "__main__":
    main()
