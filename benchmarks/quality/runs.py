"""Shared by the quality benchmarks: resumable rows, a pool of processes, bootstrap intervals, versions."""

import argparse
import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.evaluators import Evaluator
from baco_like.strategies import Strategy

Row = dict[str, Any]
Job = tuple[Any, ...]
BUDGETS = (20, 40, 60)
RESULTS = Path(__file__).parent / "results"


def one_run(
    space: Space, strategy: Strategy[Any] | str, evaluator: Evaluator, seed: int, budget: int
) -> Row:
    """Return the values in order of evaluation (None for a failure) and the number of distinct configurations."""
    optimizer = Optimizer(space, seed=seed, strategy=strategy)
    run(optimizer, evaluator, MaxEvals(budget))
    trials = optimizer.trials
    distinct = len({json.dumps(dict(t.config), sort_keys=True) for t in trials})
    return {"values": [t.value for t in trials], "distinct": distinct}


def best_after(values: Sequence[float | None], n: int) -> float:
    """Return the lowest of the first n values, or infinity if all failed."""
    return min((v for v in values[:n] if v is not None), default=float("inf"))


def rows_of(out: Path | None) -> list[Row]:
    """Return the rows of an earlier run; an incomplete last line is removed from the file."""
    if out is None or not out.exists():
        return []
    whole, end, _ = out.read_text().rpartition("\n")
    out.write_text(whole + end)
    return [json.loads(line) for line in whole.splitlines()]


def completed(
    work: Callable[..., Row],
    jobs: Iterable[Job],
    key: Callable[[Row], Job],
    out: Path | None,
    processes: int,
) -> list[Row]:
    """Return the rows of all jobs. Jobs whose row is in ``out`` are skipped; new rows are appended to it."""
    rows = rows_of(out)
    done = {key(row) for row in rows}
    missing = [job for job in jobs if job not in done]
    for i, row in enumerate(worked(work, missing, processes), 1):
        rows.append(row)
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"\r{i}/{len(missing)}", end="", file=sys.stderr, flush=True)
    return rows


def worked(work: Callable[..., Row], jobs: Sequence[Job], processes: int) -> Iterator[Row]:
    if processes == 1:
        yield from (work(*job) for job in jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(work, *job) for job in jobs]):
            yield future.result()


def interval(values: Sequence[float], draws: int = 10_000) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval by the percentile bootstrap over seeds."""
    x = np.asarray(values, dtype=float)
    rng = np.random.default_rng(0)
    means = x[rng.integers(len(x), size=(draws, len(x)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(x.mean()), float(low), float(high)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns after the first are aligned as numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def provenance() -> str:
    """Return the command, the commit and the versions, for the head of a result file."""
    packages = ("numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    script = Path(sys.argv[0])
    command = shlex.join(["python", f"benchmarks/quality/{script.name}", *sys.argv[1:]])
    return f"`{command}`\n\nCommit {commit()}; Python {platform.python_version()}, {versions}; one thread a process."


@cache
def commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def arguments(
    doc: str | None, without_table: str = "standard output otherwise"
) -> argparse.ArgumentParser:
    """Return a parser with the options that every script has."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=max(BUDGETS), help="evaluations of one run")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, help="JSONL file of the rows; an existing one is continued"
    )
    parser.add_argument("--table", type=Path, help=f"Markdown file to write; {without_table}")
    return parser


def publish(text: str, path: Path | None) -> None:
    """Write the report to a file, or print it."""
    if path is None:
        print("\n" + text)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def shown_budgets(budget: int) -> tuple[int, ...]:
    """Return the numbers of evaluations that a report shows."""
    return tuple(n for n in BUDGETS if n <= budget) or (budget,)


def select(names: str | None, known: Iterable[str], separator: str = ",") -> list[str]:
    """Return the names in a separated list, or all known names.

    Raises:
        SystemExit: A name is unknown.
    """
    wanted = list(known) if names is None else names.split(separator)
    wrong = [name for name in wanted if name not in known]
    if wrong:
        raise SystemExit(f"{wrong[0]!r} is unknown; there are {f'{separator} '.join(known)}")
    return wanted
