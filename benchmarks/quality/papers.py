"""Rerun the claims of papers on recorded spaces, and print our figures beside the published ones.

    OMP_NUM_THREADS=1 python benchmarks/quality/papers.py --data DIR --out rows.jsonl [--table results/papers.md]

DIR (or the folder that BACO_LIKE_DATA names) holds `recorded`, a folder of T4 results and Kernel Tuner caches such as
those of the public repository AutoTuningAssociation/benchmark_hub. `--out` keeps every finished run and continues an
earlier call. A call that is ended early (Ctrl-C, SIGTERM) reports the finished runs. Seeds are run one at a time, so
that every entry has some runs. Slow entries (SMAC and the Bayesian packages) begin when the others have ten runs
each. `--parts` chooses among the claims. `--quick` makes a few runs of each and leaves out SMAC and two Bayesian
packages. The whole takes tens of hours of CPU, most of it for these packages, SMAC and the largest budgets.
scikit-optimize, bayesian-optimization and pyatf take part if they are installed.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import signal
import sys
from collections import Counter
from operator import itemgetter

import claims
import other_packages
import runs
from claims import BUDGETS, Entry, Evidence, Part

from baco_like.benchmarking.problems.recorded import RecordedProblem, find_recorded
from baco_like.benchmarking.studies.runs import RunJob, StrategyRun
from baco_like.benchmarking.studies.store import RunStore, Specification, run_missing
from baco_like.exceptions import BacoError
from baco_like.strategies import STRATEGIES, create_strategy

NEEDED = {
    "pyatf": "pyatf",
    "scikit-optimize": "skopt",
    "bayesian-optimization": "bayes_opt",
}
"""What must be importable for the other packages' strategies."""


_SLOW_WAIT = 9.5
"""So many seeds of the other entries are run before the first one of a slow entry."""


def arguments() -> argparse.Namespace:
    """Return the arguments; without ``--seeds`` there are as many runs of each as in the papers."""
    parser = runs.arguments(__doc__, seeds=None, budget=1600, parts=claims.PARTS)
    slow = "seeds of SMAC and the Bayesian packages"
    parser.add_argument("--slow-seeds", type=int, help=slow)
    quick = "3 runs of each, SMAC and the Bayesian packages left out"
    parser.add_argument("--quick", action="store_true", help=quick)
    args = parser.parse_args()
    if args.out is None:
        parser.error("--out is needed: the runs are kept there")
    return args


def available(entry: Entry) -> str | None:
    """Return the reason why an entry cannot run here, or None."""
    if entry.strategy in NEEDED:
        found = importlib.util.find_spec(NEEDED[entry.strategy]) is not None
        return None if found else f"{entry.strategy} is not installed"
    if entry.strategy not in STRATEGIES:
        return f"there is no strategy {entry.strategy}"
    create_strategy(entry.strategy, entry.settings)
    return None


def repeats_of(entry: Entry, part: Part, args: argparse.Namespace) -> int:
    limit = args.slow_seeds if entry.slow else None
    limit = limit if limit is not None else args.seeds
    if args.quick:
        return 0 if entry.slow else min(3, limit or 3)
    return part.repeats if limit is None else min(part.repeats, limit)


def planned_jobs(
    parts: list[Part], spaces: list[RecordedProblem], args: argparse.Namespace
) -> tuple[list[RunJob], dict[str, str]]:
    """Return the jobs (an entry of several parts once), and the omitted entries with their reasons."""
    largest = args.budget
    most: dict[Entry, int] = {}
    missing = {}
    for part in parts:
        for entry in part.entries:
            why = available(entry)
            if why is None and entry.evaluations in BUDGETS and entry.evaluations > largest:
                why = f"more than {largest} evaluations"
            repeats = repeats_of(entry, part, args)
            if why is None and repeats < 2:
                why = "left out by the options"
            if why is None:
                most[entry] = max(most.get(entry, 0), repeats)
            else:
                missing[entry.label] = why
    turns = [
        (seed + _SLOW_WAIT * entry.slow, seed, one, entry)
        for entry, repeats in most.items()
        for seed in range(repeats)
        for one in spaces
    ]
    turns.sort(
        key=itemgetter(0)
    )  # a stable sort keeps the papers' order among equally urgent entries
    jobs = [
        RunJob(
            one,
            entry.contender,
            seed,
            entry.budget(one),
            entry.draw,
        )
        for _, seed, one, entry in turns
    ]
    return jobs, missing


def counted(parts: list[Part], found: list[StrategyRun]) -> str:
    """Return the number of runs of the entries."""
    runs_of = Counter((run.label, run.problem) for run in found)
    slow = {entry.label for part in parts for entry in part.entries if entry.slow}
    said = []
    for title, some in (
        (
            "Runs of an entry on a space",
            [n for (label, _), n in runs_of.items() if label not in slow],
        ),
        (
            "of SMAC and the Bayesian packages",
            [n for (label, _), n in runs_of.items() if label in slow],
        ),
    ):
        said.append(f"{title}: {min(some)} to {max(some)}" if some else f"{title}: none")
    return "; ".join(said) + "."


def specification(jobs: list[RunJob]) -> Specification:
    return {
        "common": {"version": importlib.metadata.version("baco-like")},
        "problems": {job.problem.name: job.problem.digest for job in jobs},
        "contenders": {
            job.contender.label: [job.contender.strategy, dict(job.contender.settings), job.draw]
            for job in jobs
        },
    }


def main() -> None:
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if args.data is None or not (args.data / "recorded").is_dir():
        raise SystemExit("no recorded spaces there: give --data DIR, or set BACO_LIKE_DATA")
    parts = [claims.PARTS[name] for name in args.parts]
    try:
        spaces, _ = find_recorded(args.data / "recorded", "minimize")
        jobs, missing = planned_jobs(parts, spaces, args)
        store = RunStore.open(args.out, specification(jobs))
        with contextlib.suppress(KeyboardInterrupt):
            run_missing(jobs, store, args.processes, sys.stderr, other_packages.do)
    except BacoError as error:
        raise SystemExit(str(error)) from None
    resamples = 30 if args.quick else 300
    found = [store.runs[job.key] for job in jobs if job.key in store.runs]
    evidence = Evidence({one.name: one for one in spaces}, found, missing, resamples)
    text = [f"# The papers' claims on {len(spaces)} recorded spaces\n\n{runs.provenance()}"]
    text.append(claims.EXPLAINED)
    if len(found) < len(jobs):
        text.append(f"Not finished: {len(found)} of {len(jobs)} runs; the same command continues.")
    text.append(counted(parts, found))
    text += [f"## {part.title}\n\n{part.report(evidence)}" for part in parts]
    runs.publish("\n\n".join(text), args.table)


if __name__ == "__main__":
    main()
