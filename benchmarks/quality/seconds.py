"""How many seconds until a configuration within 5 % of the optimum is found, on recorded build and run times?

    OMP_NUM_THREADS=1 python benchmarks/quality/seconds.py --data DIR --out rows.jsonl --seeds 5 --table seconds.md

A replayed device has a clock: each evaluation takes the recorded time of its build, its check and the repeats that it
used. A run ends when the value of the best configuration so far, by its recorded value of all repeats, is within 5 % of
the optimum of the table (least time / 0.95). The figure is the clock at that moment. A run that does not get there
within `--evaluations` counts with the clock at its end.

`default` uses all recorded repeats and counts evaluations, as an earlier version did. The other variants add one part
each. Ratios are geometric means over seeds, of the same seeds side by side; the interval is a bootstrap over seeds
(and for the mean over spaces, of each space's seeds).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import runs
from peers import problems

from baco_like import Optimizer
from baco_like.evaluators import ReplayEvaluator
from baco_like.evaluators.replay import load
from baco_like.results.recording import Recording

SPACES = (
    "convolution_milo/A4000",
    "convolution_milo/MI250X",
    "convolution_milo/W7800",
    "dedispersion_milo/A4000",
    "dedispersion_milo/MI250X",
    "loop_nest",
    "halide",
    "hidden",
    "blur",
)
SHARE = 0.95
FIRST = 3
"""The setting ``first_repeats``."""

REFERENCE = "default"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    REFERENCE: {},
    "repeats": {"first_repeats": FIRST},
}
RESAMPLES = 2000


@cache
def recording_of(name: str, data: Path) -> Recording:
    return load(path_of(name, data))


def path_of(name: str, data: Path) -> Path:
    if name in problems.COMPILER:
        return problems.RECORDED / f"{name}.json.gz"
    folder, device = name.split("/")
    return data / "recorded" / folder / f"{device}_T4.json.gz"


def one_run(name: str, data: Path, variant: str, seed: int, evaluations: int) -> runs.Row:
    """Return the simulated seconds of a run until it is within 5 %, and how it got there."""
    options = dict(VARIANTS[variant])
    space, recorded = problems.problem(name, data).space, recording_of(name, data)
    first = options.pop("first_repeats", None)
    device = ReplayEvaluator(recorded, first_repeats=first)
    goal = min(o.value for o in recorded.outcomes if o.value is not None) / SHARE
    optimizer = Optimizer(space, seed=seed, **options)
    started, reached = time.process_time(), False
    while len(optimizer.trials) < evaluations and not reached:
        device.submit(optimizer.suggest())
        optimizer.complete(device.wait())
        best = optimizer.best
        if best is not None:
            true = recorded.find(best.config)
            assert true is not None
            assert true.value is not None
            reached = true.value <= goal
    return {
        "space": name,
        "variant": variant,
        "seed": seed,
        "seconds": device.clock,
        "evaluations": len(optimizer.trials),
        "reached": reached,
        "cpu": time.process_time() - started,
    }


def ratios(rows: Sequence[runs.Row], variant: str, space: str) -> np.ndarray:
    """Return log(seconds of the variant / seconds of the reference) of each seed that has both."""
    known = {(r["variant"], r["seed"]): r["seconds"] for r in rows if r["space"] == space}
    seeds = [s for v, s in known if v == variant and (REFERENCE, s) in known]
    return np.array([np.log(known[variant, s] / known[REFERENCE, s]) for s in seeds])


def report(rows: Sequence[runs.Row]) -> str:
    """Return a table of seconds, and of the ratios to the reference with 95 % intervals."""
    variants = [v for v in VARIANTS if any(r["variant"] == v for r in rows)]
    head = [
        "space",
        *(f"{v}: s (evaluations)" for v in variants),
        *(f"{v} / {REFERENCE}" for v in variants[1:]),
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    rng = np.random.default_rng(0)
    drawn: dict[str, list[np.ndarray]] = {v: [] for v in variants[1:]}
    for space in dict.fromkeys(r["space"] for r in rows):
        line = [space]
        for v in variants:
            own = [r for r in rows if r["space"] == space and r["variant"] == v]
            missed = sum(not r["reached"] for r in own)
            mark = f", {missed} of {len(own)} not reached" if missed else ""
            mean = np.exp(np.mean(np.log([r["seconds"] for r in own])))
            count = np.mean([r["evaluations"] for r in own])
            line.append(f"{mean:.1f} ({count:.0f}{mark})")
        for v in variants[1:]:
            logs = ratios(rows, v, space)
            means = logs[rng.integers(len(logs), size=(RESAMPLES, len(logs)))].mean(axis=1)
            drawn[v].append(means)
            low, high = np.exp(np.quantile(means, [0.025, 0.975]))
            line.append(f"{np.exp(logs.mean()):.2f} ({low:.2f} to {high:.2f})")
        lines.append("| " + " | ".join(line) + " |")
    line = ["geometric mean", *([""] * len(variants))]
    for v in variants[1:]:
        means = np.mean(drawn[v], axis=0)
        low, high = np.exp(np.quantile(means, [0.025, 0.975]))
        line.append(f"**{np.exp(means.mean()):.2f}** ({low:.2f} to {high:.2f})")
    return "\n".join([*lines, "| " + " | ".join(line) + " |"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument(
        "--out", type=Path, help="JSONL with one row per run; a later call continues it"
    )
    parser.add_argument("--table", type=Path, help="write the table to this file")
    parser.add_argument("--spaces", default=",".join(SPACES))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--evaluations", type=int, default=150, help="most evaluations of a run")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    jobs = [
        (space, args.data, variant, seed, args.evaluations)
        for seed in range(args.seeds)
        for space in args.spaces.split(",")
        for variant in args.variants.split(",")
    ]
    rows = runs.completed(
        one_run,
        jobs,
        lambda row: (row["space"], args.data, row["variant"], row["seed"], args.evaluations),
        args.out,
        args.processes,
    )
    table = report(rows)
    print(table)
    if args.table:
        args.table.write_text(f"{runs.header() if hasattr(runs, 'header') else ''}{table}\n")


if __name__ == "__main__":
    main()
