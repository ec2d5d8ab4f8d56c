"""Check that no result is lost with many workers, failures and killed processes.

Run it with: python examples/soak.py [EVALUATIONS [WORKERS]]

The default is 2,000 evaluations by 64 processes. A tenth of the configurations fail. In every 40th evaluation the
process is killed, as if its machine had died, and the trial is given to another worker. Every evaluation writes its
start to a file, so that repeated evaluations can be counted at the end.
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
from baco_like.evaluators.executors.evaluator import ExecutorEvaluator
from baco_like.evaluators.executors.lanes import ProcessLanes
from baco_like.evaluators.function.evaluator import FunctionEvaluator

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


def noted(log, number):
    """Append a line to a file that many processes write to."""
    with open(log, "ab", buffering=0) as file:
        file.write(f"{number}\n".encode())


def numbers(log):
    """Return the lines of the file with their counts."""
    return Counter(map(int, Path(log).read_text().split()) if Path(log).exists() else ())


def measure(log, trial):
    """Return a made-up value; build and run on another machine here."""
    noted(log, trial.id)
    time.sleep(0.02)
    if Path(log).read_bytes().count(b"\n") % KILL_EVERY == KILL_EVERY // 4:
        noted(f"{log}.killed", trial.id)
        os.kill(os.getpid(), signal.SIGKILL)
    if (trial["bx"] + 3 * trial["by"] + 7 * trial["unroll"]) % 10 == 3:
        raise Infeasible("out of registers", failed="compile")
    return abs(trial["bx"] - 64) + abs(trial["by"] - 8) + 16 / trial["unroll"]


def evaluator(log):
    """Return the evaluator of one worker; a real one would use a compiler and a GPU."""
    return FunctionEvaluator(partial(measure, log))


def main(evaluations, workers):
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ProcessLanes(workers) as lanes:
        log, journal = Path(folder) / "begun", Path(folder) / "run.jsonl"
        optimizer = Optimizer(space, strategy="random_search", storage=journal)
        fleet = ExecutorEvaluator(partial(evaluator, str(log)), lanes, lease=300)
        reason = run(optimizer, fleet, MaxEvals(evaluations))
        begun, killed = numbers(log), numbers(f"{log}.killed").total()
        kept = Optimizer.load(journal)
    seconds = time.monotonic() - started
    failures = sum(trial.failure is not None for trial in kept.trials)
    again = sum(begun.values()) - len(begun)
    print(f"{reason} by {workers} workers in {seconds:.0f} s; {failures} configurations failed")
    print(f"{killed} workers were killed, and {again} evaluations begun again for it")
    assert len(kept.trials) == evaluations, "results are lost"
    assert not kept.pending, "trials are left over"
    assert set(begun) == {trial.id for trial in kept.trials}, "results that were never measured"
    assert again == killed, "something was run twice without need"
    print(f"no result is lost; best {kept.best_value} with {kept.best_config}")


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    main(number, int(sys.argv[2]) if len(sys.argv) > 2 else max(2, min(64, number // 6)))
