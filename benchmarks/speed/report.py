"""How long does the report of a long run take to write and to open, and how large is it?

    OMP_NUM_THREADS=1 python benchmarks/speed/report.py [--trials 120,5000] [--table results/report.md]

The run is made here: 24 switches, 4 numbers and an order of 4 elements, proposed by the genetic algorithm. Each trial
has three noisy repeats and a metric, and some fail. A new process writes the page, its imports included. A headless
Chromium opens it, if there is one, until all charts are drawn; the time of an empty page is subtracted, and the fastest
of five times counts, because other programs disturb the others. On a busy machine the CPU seconds say more.
"""

import argparse
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from baco_like import Integer, Optimizer, Permutation, Space

LIMIT_BYTES, LIMIT_SECONDS = 2 * 10**6, 2.0
"""The aims at 5,000 trials."""

OPENINGS = 5


def make_run(path: Path, trials: int) -> None:
    """Write the journal of a run."""
    rng = np.random.default_rng(0)
    effects = rng.normal(0.0, 0.05, 24)
    flags = {f"flag_{i}": [False, True] for i in range(len(effects))}
    numbers = {f"number_{i}": Integer(1, 64, log=True, default=8) for i in range(4)}
    space = Space({**flags, **numbers, "order": Permutation(["i", "j", "k", "l"])})
    optimizer = Optimizer(
        space, strategy="genetic_algorithm", storage=path, objective="time", budget=trials
    )
    while len(optimizer.trials) < trials:
        for trial in optimizer.suggest(min(100, trials - len(optimizer.trials))):
            if trial["flag_3"] and trial["number_1"] > 40:
                optimizer.observe(trial, failed="compile", message="internal compiler error")
                continue
            cost = sum(e * trial[name] for e, name in zip(effects, flags, strict=True))
            cost += 0.1 * abs(np.log2(trial["number_0"]) - 4) + 0.05 * trial["order"].index("k")
            times = [10.0 * np.exp(cost) * rng.lognormal(0.0, 0.02) for _ in range(3)]
            metrics = {"time": times, "size": 2e4 + 100.0 * trial["number_2"]}
            optimizer.observe(trial, metrics, extra={"seconds": {"run": 0.01}})


def timed(command: list[str]) -> tuple[float, float, str]:
    """Run a command; return its CPU seconds, its wall seconds and its output."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, done.stdout


def seconds_to_open(page: Path) -> tuple[float, float] | None:
    """Return how much more CPU and wall seconds the page takes than an empty one; None without a browser."""
    browser = next((p for p in map(shutil.which, ("chromium", "google-chrome")) if p), None)
    if browser is None:
        return None
    empty = page.with_name("empty.html")
    empty.write_text("<!DOCTYPE html><html data-drawn><title>empty</title></html>")
    # Virtual time: the browser waits for nothing, and ends when all work is done.
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --virtual-time-budget=20000 --dump-dom"
    fastest = {}
    for file in (empty, page):
        times = []
        for n in range(OPENINGS):
            profile = f"--user-data-dir={page.parent / f'{file.stem}-{n}'}"
            cpu, wall, text = timed([browser, *flags.split(), profile, file.as_uri()])
            times.append((cpu, wall))
            assert re.search("<html[^>]* data-drawn", text), "not all charts are drawn"
        fastest[file] = np.min(times, axis=0)
    cpu, wall = (fastest[page] - fastest[empty]).tolist()
    return cpu, wall


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", default="120,5000", help="lengths of the runs")
    parser.add_argument("--table", type=Path, help="Markdown file of the results")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1] / "quality"))
    import runs

    rows = []
    for trials in map(int, args.trials.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            journal, page = Path(folder, "run.jsonl"), Path(folder, "run.html")
            make_run(journal, trials)
            command = [sys.executable, "-m", "baco_like", "report", str(journal), "-o", str(page)]
            cpu, wall, _ = timed(command)
            opened = seconds_to_open(page)
            size = page.stat().st_size
        shown = ["-", "-"] if opened is None else [f"{seconds:.1f} s" for seconds in opened]
        cells = [f"{trials:,}", f"{cpu:.1f} s", f"{wall:.1f} s", f"{size / 1e6:.2f} MB", *shown]
        rows.append(cells)
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    head = ["trials", "CPU to write", "wall time", "size", "CPU to open", "wall time"]
    machine = f"{os.cpu_count()} cores of {platform.machine()}, load {os.getloadavg()[0]:.0f}"
    parts = [
        "# The report of a run",
        f"`OMP_NUM_THREADS=1 python benchmarks/speed/report.py --trials {args.trials}`",
        f"Commit {runs.commit()}; Python {platform.python_version()}, {machine}.",
        f"The aims at 5,000 trials are {LIMIT_BYTES / 1e6:g} MB and {LIMIT_SECONDS:g} s to open.",
        runs.table(head, rows),
    ]
    runs.publish("\n\n".join(parts), args.table)


if __name__ == "__main__":
    main()
