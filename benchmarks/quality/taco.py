"""Repeat BaCO's comparison on kernels of TACO (2023, Tables 5 to 8) on this machine; needs the program taco on PATH.

    OMP_NUM_THREADS=1 python benchmarks/quality/taco.py [--data DIR] [--out rows.jsonl] [--table results/taco.md]

The kernels are SpMM, SDDMM and MTTKRP, with a full budget of 60 evaluations. A figure is the time of the reference
configuration (the paper's expert) over the best time: above 1 is faster. Every run measures the reference again
before it begins.

With --data, all `.mtx` and `.tns` files of the folder are the sparse operands (the paper's are in the SuiteSparse and
FROSTT collections), each for the kernels with its number of dimensions. Without it, one is generated. Uniform and
biased sampling (a walk from the root of the chain of trees) also run. Kernels use all CPUs, so no other program
should run, and --processes stays 1.
"""

import argparse
import math
import os
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import runs

from baco_like.evaluators import CKernelEvaluator, CKernelSettings, Repeats
from baco_like.evaluators._processes.temporary import require_program
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Trial
from baco_like.strategies import create_strategy

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
sys.path.append(str(KERNELS))

import taco_tensors as tensors
from taco_kernels import TEMPLATES

PROBLEMS = ("spmm", "sddmm", "mttkrp")
MADE = "made"
CONTENDERS: Mapping[str, Mapping[str, Any]] = {
    "ours": {"name": "auto"},
    "preset baco": {"name": "baco"},
    "uniform sampling": {"name": "random_search"},
    "biased sampling": {"name": "bayesian", "design": "biased_walk"},
}


def strategy_of(name: str, budget: int) -> Any:
    settings = dict(CONTENDERS[name])
    if "design" in settings:
        settings["initial"] = budget
    return create_strategy(settings.pop("name"), settings)


def work(problem: str, tensor: str, name: str, seed: int, budget: int, options: str) -> runs.Row:
    size, threads, repeats, timeout = options.split(",")
    template = TEMPLATES[problem]
    file = "" if tensor == MADE else str(Path(tensor).resolve())
    settings = CKernelSettings(
        KERNELS / "taco_kernels.py",
        size=int(size),
        repeats=Repeats(int(repeats), int(repeats)),
        timeout=float(timeout),
        tolerance=1e-9,
        constants={"KERNEL": problem, "TENSOR": file},
    )
    space = template.space(threads=int(threads))
    evaluator = CKernelEvaluator(space, settings)
    try:
        reference = _reference(evaluator, template.reference(int(threads)))
        found = runs.one_run(space, strategy_of(name, budget), evaluator, seed, budget)
    finally:
        evaluator.close()
    keys = {"problem": problem, "tensor": tensor, "contender": name, "seed": seed}
    return {**keys, "budget": budget, "options": options, "reference": reference, **found}


def _reference(evaluator: Any, config: Mapping[str, Any]) -> float:
    """Return the median time of three evaluations of the reference configuration."""
    times = []
    for _ in range(3):
        evaluator.submit(Trial(0, config))
        (outcome,) = evaluator.wait()
        if outcome.value is None:
            raise EvaluatorError(f"the reference configuration fails: {outcome.message}")
        times.append(outcome.value)
    return statistics.median(times)


def operands(problems: list[str], data: Path | None) -> list[tuple[str, str]]:
    """Return the pairs of a kernel and a tensor to run."""
    if data is None:
        return [(problem, MADE) for problem in problems]
    files = sorted(path for path in data.iterdir() if path.suffix in (".mtx", ".tns"))
    pairs = []
    for path in files:
        order = len(tensors.read(path).shape)
        pairs += [(p, str(path)) for p in problems if len(TEMPLATES[p].formats["B"]) == order]
    if not pairs:
        raise SystemExit(f"no tensor in {data} is one of {', '.join(problems)}")
    return pairs


def speeds(rows: list[runs.Row], evaluations: int) -> list[float]:
    """Return the reference's time over the best time of each run; 0 for a run without a success."""
    return [row["reference"] / runs.best_after(row["values"], evaluations) for row in rows]


def report(rows: list[runs.Row], pairs: list[tuple[str, str]], budget: int) -> str:
    stages = [math.ceil(budget / 3), math.ceil(2 * budget / 3), budget]
    lines = []
    for problem, tensor in pairs:
        for name in CONTENDERS:
            keys = (problem, tensor, name)
            mine = [r for r in rows if (r["problem"], r["tensor"], r["contender"]) == keys]
            if mine:
                shown = tensor if tensor == MADE else Path(tensor).stem
                lines.append([f"{problem}, {shown}", name, *_figures(mine, stages)])
    head = [
        "",
        "",
        *(f"after {n}" for n in stages),
        "runs that reach it",
        "after (median)",
        "failures",
    ]
    return runs.table(head, lines)


def _figures(rows: list[runs.Row], stages: list[int]) -> list[str]:
    means = [np.exp(np.mean(np.log(np.maximum(speeds(rows, n), 1e-9)))) for n in stages]
    reached = [_evaluations_needed(row) for row in rows]
    late = statistics.median(math.inf if n is None else n for n in reached)
    share = f"{sum(n is not None for n in reached)} of {len(rows)}"
    failures = sum(row["values"].count(None) for row in rows) / len(rows)
    return [*(f"{mean:.2f}" for mean in means), share, f"{late:g}", f"{failures:.1f}"]


def _evaluations_needed(row: runs.Row) -> int | None:
    """Return the number of evaluations until the reference was reached, or None."""
    good = (n for n, v in enumerate(row["values"], 1) if v is not None and v <= row["reference"])
    return next(good, None)


def arguments() -> argparse.Namespace:
    parser = runs.arguments(__doc__)
    parser.set_defaults(processes=1, seeds=10)
    parser.add_argument("--problems", help=f"separated by commas, of {', '.join(PROBLEMS)}")
    parser.add_argument("--contenders", help=f"separated by commas, of {', '.join(CONTENDERS)}")
    parser.add_argument("--data", type=Path, help="folder with sparse operands")
    parser.add_argument("--size", type=int, default=3000, help="rows of an operand that is made")
    threads = 2 ** ((os.cpu_count() or 1).bit_length() - 1)
    parser.add_argument("--threads", type=int, default=threads, help="at most, a power of two")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--timeout", type=float, default=10.0, help="seconds for one run of a kernel"
    )
    return parser.parse_args()


def main() -> None:
    args = arguments()
    try:
        require_program("taco", Path(), "this comparison")
    except EvaluatorError as error:
        raise SystemExit(f"{error} (docs/kernels.md#taco says where it is from)") from None
    names = runs.select(args.contenders, CONTENDERS)
    pairs = operands(runs.select(args.problems, PROBLEMS), args.data)
    options = f"{args.size},{args.threads},{args.repeats},{args.timeout}"
    jobs = [  # runs of one seed are neighbours, so that other load on the machine affects all variants equally
        (problem, tensor, name, seed, args.budget, options)
        for problem, tensor in pairs
        for seed in range(args.seeds)
        for name in names
    ]

    def key(row: runs.Row) -> runs.Job:
        named = ("problem", "tensor", "contender", "seed", "budget", "options")
        return tuple(row[name] for name in named)

    wanted = set(jobs)
    rows = [
        r for r in runs.completed(work, jobs, key, args.out, args.processes) if key(r) in wanted
    ]
    head = f"# TACO's kernels, {args.seeds} seeds, {args.threads} threads\n\n{runs.provenance()}"
    explained = (
        "Geometric means over seeds of the reference configuration's time over the best time (above 1 is faster); "
        "how many runs reach the reference, and after how many evaluations; failed evaluations of a run."
    )
    runs.publish(f"{head}\n\n{report(rows, pairs, args.budget)}\n\n{explained}", args.table)


if __name__ == "__main__":
    main()
