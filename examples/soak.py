"""Many workers, failures and deaths: no result is lost, and a trial runs twice only if its worker died.

Run it with: python examples/soak.py [EVALUATIONS [WORKERS]]

By default 2,000 evaluations by 64 processes. A tenth of the configurations cannot run. In every 40th evaluation the
process is killed, as if its machine had failed; its trial is sent to another process. Every evaluation logs its start
in a file, so that the number of runs of each trial can be counted at the end.
"""

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from baco_like import Infeasible, MaxEvals, Optimizer, Space, run
from baco_like.evaluators import ExecutorEvaluator, FunctionEvaluator, ProcessLanes

KILL_EVERY = 40

space = Space(
    {
        "bx": [2**i for i in range(11)],
        "by": [2**i for i in range(11)],
        "unroll": list(range(1, 17)),
        "order": ["ij", "ji"],
    },
    constraints=["bx * by <= 65536"],
)


def log_start(log, number):
    """Add a line to a file that many processes write."""
    with open(log, "ab", buffering=0) as file:
        file.write(f"{number}\n".encode())


def count_trials(log):
    """Return how many times each trial is in a log."""
    return Counter(map(int, Path(log).read_text().split()) if Path(log).exists() else ())


def measure(log, trial):
    """Simulate a build and a run on another machine."""
    log_start(log, trial.id)
    time.sleep(0.02)
    if Path(log).read_bytes().count(b"\n") % KILL_EVERY == KILL_EVERY // 4:
        log_start(f"{log}.killed", trial.id)
        os.kill(os.getpid(), signal.SIGKILL)
    if (trial["bx"] + 3 * trial["by"] + 7 * trial["unroll"]) % 10 == 3:
        raise Infeasible("out of registers", failed="compile")
    return abs(trial["bx"] - 64) + abs(trial["by"] - 8) + 16 / trial["unroll"]


def evaluator(log):
    """Return the evaluator of a worker, in practice one with a compiler and a GPU."""
    return FunctionEvaluator(partial(measure, log))


def main(evaluations, workers):
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ProcessLanes(workers) as lanes:
        log, journal = Path(folder) / "started", Path(folder) / "run.jsonl"
        optimizer = Optimizer(space, strategy="random_search", storage=journal)
        fleet = ExecutorEvaluator(partial(evaluator, str(log)), lanes, lease=300)
        reason = run(optimizer, fleet, MaxEvals(evaluations))
        started_trials, killed = count_trials(log), count_trials(f"{log}.killed").total()
        loaded = Optimizer.load(journal)
    seconds = time.monotonic() - started
    failures = sum(trial.failure is not None for trial in loaded.trials)
    repeated = sum(started_trials.values()) - len(started_trials)
    print(f"{reason} by {workers} workers in {seconds:.0f} s; {failures} configurations failed")
    print(f"{killed} workers were killed, and {repeated} evaluations were repeated")
    assert len(loaded.trials) == evaluations, "results are lost"
    assert not loaded.pending, "trials are left over"
    assert set(started_trials) == {trial.id for trial in loaded.trials}, (
        "results that were never measured"
    )
    assert repeated == killed, "a trial was repeated although its worker lived"
    print(f"no result is lost; best {loaded.best_value} with {loaded.best_config}")


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    main(number, int(sys.argv[2]) if len(sys.argv) > 2 else max(2, min(64, number // 6)))
