"""Shared by the quality benchmarks: resumable rows, a pool of processes, bootstrap intervals, versions."""

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from baco_like.benchmarking.studies.report import markdown_table

Row = dict[str, Any]
Job = tuple[Any, ...]
BUDGETS = (20, 40, 60)
table = markdown_table


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


def worked(work: Callable[..., Row], jobs: Sequence[Job], processes: int) -> Iterator[Row]:
    if processes == 1:
        yield from (work(*job) for job in jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(work, *job) for job in jobs]):
            yield future.result()


def resampled(values: Any, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Return the means of bootstrap samples of the rows (seeds), ``(draws, ...)``."""
    x = np.asarray(values, dtype=float)
    return x[rng.integers(len(x), size=(draws, len(x)))].mean(axis=1)


def ends(samples: Any) -> tuple[float, float]:
    """Return the ends of the 95 % percentile interval of bootstrapped statistics."""
    low, high = np.quantile(samples, [0.025, 0.975])
    return float(low), float(high)


def interval(values: Sequence[float], draws: int = 10_000) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval by the percentile bootstrap over seeds."""
    return float(np.mean(values)), *ends(resampled(values, np.random.default_rng(0), draws))


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
    doc: str | None,
    *,
    seeds: int | None = 20,
    budget: int = max(BUDGETS),
    processes: int = 2,
    **choices: Iterable[str],
) -> argparse.ArgumentParser:
    """Return a parser with the options that every script has, and one for each list of names to choose from."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"), help="the public data")
    add("--seeds", type=int, default=seeds)
    add("--budget", type=int, default=budget, help="evaluations of one run at most")
    add("--processes", type=int, default=processes)
    add("--out", type=Path, help="JSONL file of the rows; an existing one is continued")
    add("--table", type=Path, help="Markdown file to write; standard output otherwise")
    for name, known in choices.items():
        mark = ";" if any("," in each for each in known) else ","
        shown = f"{mark} ".join(known).replace("%", "%%")
        read = partial(select, known=list(known), separator=mark)
        add(f"--{name}", type=read, default=list(known), help=f"of {shown}, separated by {mark}")
    return parser


def finished(
    work: Callable[..., Row], jobs: Sequence[Job], names: Sequence[str], args: argparse.Namespace
) -> list[Row]:
    """Return the rows of the requested jobs, whose values they have under these names.

    Missing ones are run and appended to the file ``--out``.
    """

    def key(row: Row) -> Job:
        return tuple(row[name] for name in names)

    rows = rows_of(args.out)
    wanted, done = set(jobs), {key(row) for row in rows}
    missing = [job for job in jobs if job not in done]
    for i, row in enumerate(worked(work, missing, args.processes), 1):
        rows.append(row)
        if args.out is not None:
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"\r{i}/{len(missing)}", end="", file=sys.stderr, flush=True)
    return [row for row in rows if key(row) in wanted]


def publish(text: str, path: Path | None) -> None:
    """Write the report to a file, or print it."""
    if path is None:
        print("\n" + text)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def select(names: str, known: Iterable[str], separator: str = ",") -> list[str]:
    """Return the names in a separated list.

    Raises:
        argparse.ArgumentTypeError: A name is unknown.
    """
    wanted = names.split(separator)
    wrong = [name for name in wanted if name not in known]
    if wrong:
        there = f"{separator} ".join(known)
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is unknown; there are {there}")
    return wanted
