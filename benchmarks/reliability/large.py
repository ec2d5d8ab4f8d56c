"""13. Open and continue runs of 10,000 and 200,000 trials.

    python benchmarks/reliability/large.py [--quick] [--trials 10000]

The large journal is also read as results, and opened once more with all its trials suggested before the first is
observed. Figures: seconds to open the journal (the check uses CPU seconds, because other work on the machine extends
wall time); milliseconds of one suggest (random search, so without a model) and one observe with fsync, at the 50th and
99th percentile; bytes per trial in the first and the last tenth; memory. A new process opens the file, so only the
disk's cache is warm.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from harness import SPACE, Report, arguments, chosen, observe, scratch, value

from baco_like import Optimizer, Outcome
from baco_like.journal.events import observed_event, suggested_event
from baco_like.journal.header import Header
from baco_like.journal.json_lines import write_journal
from baco_like.records.trial import Trial
from baco_like.strategies import STRATEGIES

OPENING = """
import resource, sys, time
from baco_like import Optimizer
from baco_like.results import read
import baco_like.strategies
open_run = read if sys.argv[2] == "read" else Optimizer.load
times = []
for _ in range(int(sys.argv[3])):
    started, used = time.perf_counter(), time.process_time()
    run = open_run(sys.argv[1])
    times.append((time.perf_counter() - started, time.process_time() - used))
    n = len(run.trials)
    del run
print(n, *min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def opening(path: Path, how: str = "load", times: int = 1) -> tuple[int, float, float, float]:
    """Return trials, seconds and CPU seconds of the fastest of some openings, and MB of the process."""
    command = [sys.executable, "-c", OPENING, str(path), how, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    n, least, used, memory = done.stdout.split()
    return int(n), float(least), float(used), float(memory)


def going_on(path: Path, steps: int) -> list[float]:
    """Return the milliseconds of each suggest and observe together."""
    opt, times = Optimizer.load(path), []
    for _ in range(steps):
        started = time.perf_counter()
        trial = opt.suggest()
        observe(opt, trial)
        times.append(1e3 * (time.perf_counter() - started))
    return times


def asked(path: Path, number: int) -> list[float]:
    """Make a journal as a run does: suggest and observe one trial at a time."""
    Optimizer(SPACE, strategy="random_search", storage=path)
    return going_on(path, number)


def written(path: Path, number: int, pending_first: bool = False) -> None:
    """Make a journal with the same records in one write; this is not timed.

    Args:
        path: The new journal.
        number: Number of trials.
        pending_first: Whether all trials are suggested before the first is observed.
    """
    opt = Optimizer(SPACE, strategy="random_search")
    events = [Header(SPACE.to_dict(), opt.options).event()]
    later = []
    for i, config in enumerate(SPACE.sample(number, seed=1)):
        trial = Trial(i, config, {"phase": "random"})
        found = value(config)
        repeats = () if found is None else (found, found * 1.5, found)
        outcome = Outcome.success(i, repeats) if repeats else Outcome.failure(i, "compile", "no")
        events.append(suggested_event([trial], 0))
        (later if pending_first else events).append(observed_event([trial], [outcome]))
    write_journal(path, events + later)


def measure_other_openings(report: Report, folder: Path, number: int, quick: bool) -> None:
    """Read the large journal as results, and open one whose trials were all pending at once."""
    n, least, used, memory = opening(folder / "large", "read")
    report.check(n == number, f"{n} of {number} results are read")
    report.figure(
        f"{number} trials read as results: {least:.2f} s ({used:.2f} s of CPU), {memory:.0f} MB"
    )
    (folder / "large").unlink()
    written(folder / "pending", number, pending_first=True)
    n, least, used, memory = opening(folder / "pending")
    report.check(n == number, f"{n} of {number} trials are there")
    report.figure(
        f"{number} trials, all suggested first: opened in {least:.2f} s ({used:.2f} s of CPU), {memory:.0f} MB"
    )
    report.check(quick or used < 0.001 * number, f"opening takes {used:.2f} s of CPU")


def percentiles(times: list[float]) -> tuple[float, float]:
    cut = statistics.quantiles(times, n=100, method="inclusive")
    return cut[49], cut[98]


def measured(report: Report, path: Path, number: int, steps: int) -> tuple[float, float]:
    """Open and continue; return the CPU seconds of opening and the 99th percentile of a step."""
    n, least, used, memory = opening(path, times=3 if number <= 10_000 else 1)
    report.check(n == number, f"{n} of {number} trials are there")
    middle, high = percentiles(going_on(path, steps))
    report.figure(
        f"{number} trials: opened in {least:.2f} s ({used:.2f} s of CPU), {memory:.0f} MB; then suggest and "
        f"observe {middle:.1f} ms median, {high:.1f} ms at the 99th percentile ({steps} steps)"
    )
    return used, high


def main() -> None:
    args = arguments(__doc__, trials=10_000)
    number, report = chosen(args.trials, args.quick, 100, 10_000), Report()
    assert "random_search" in STRATEGIES
    with scratch() as folder:
        times = asked(folder / "asked", number)
        middle, high = percentiles(times)
        lines = (folder / "asked").read_bytes().split(b"\n")[1:-1]
        tenth = 2 * (number // 10)
        sizes = [sum(map(len, part)) / (tenth / 2) for part in (lines[:tenth], lines[-tenth:])]
        report.figure(
            f"a run of {number}: suggest and observe {middle:.1f} ms median, {high:.1f} ms at the 99th percentile; "
            f"{sizes[0]:.0f} bytes per trial in the first tenth, {sizes[1]:.0f} in the last"
        )
        report.check(sizes[1] < 1.05 * sizes[0], "the file is not linear in trials")
        steps = 10 if args.quick else 1000
        seconds, later = measured(report, folder / "asked", number, steps)
        report.check(args.quick or seconds < 1, f"opening takes {seconds:.2f} s of CPU")
        report.check(
            args.quick or max(high, later) < 50, f"{max(high, later):.0f} ms at the 99th percentile"
        )
        written(folder / "large", 20 * number)
        measured(report, folder / "large", 20 * number, steps)
        measure_other_openings(report, folder, 20 * number + steps, args.quick)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report.figure(f"{os.cpu_count()} processors; this process has used {own:.0f} MB")
    report.end()


if __name__ == "__main__":
    main()
