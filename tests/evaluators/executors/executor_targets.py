"""Evaluators that workers make; and, run by mpiexec, a tuning run on MPI processes."""

import os
import signal
import time
from collections import deque
from functools import partial
from pathlib import Path

from baco_like import Infeasible, Outcome, Trial
from baco_like.evaluators import FunctionEvaluator


def replay(path, seconds=0.0):
    """Return the recorded table; each answer takes so long."""
    from baco_like.evaluators import ReplayEvaluator
    from baco_like.evaluators.replay import load  # only where it is needed

    return Slow(ReplayEvaluator(load(path)), seconds)


class Slow:
    """Another evaluator after a while; it notes its start and its end in a folder."""

    def __init__(self, inner, seconds):
        self.inner, self.seconds = inner, seconds
        self.capacity = 1

    def submit(self, trial):
        self.inner.submit(trial)

    def wait(self):
        time.sleep(self.seconds)
        return self.inner.wait()

    def close(self):
        self.inner.close()


def noted(folder):
    """Return an evaluator that notes every trial it begins in a file, and does what the parameter says."""
    return FunctionEvaluator(partial(_noted, folder))


def _noted(folder, trial):
    with open(Path(folder) / "begun", "a") as file:
        file.write(f"{trial['x']} {os.getpid()}\n")
    if trial["does"] == "die" or (trial["does"] == "die once" and _first(folder, trial["x"])):
        os._exit(9)
    if trial["does"] == "fail":
        raise Infeasible("no", failed="compile")
    if trial["does"] == "wrong":
        raise TypeError("a mistake")
    return float(trial["x"])


def _first(folder, x):
    lines = (Path(folder) / "begun").read_text().splitlines()
    return sum(line.split()[0] == str(x) for line in lines) == 1


class Closing:
    """An evaluator that notes in a file that it was made and that it was closed."""

    capacity = 1

    def __init__(self, folder):
        self.folder, self.queue = Path(folder), deque[Trial]()
        self.note("made")

    def note(self, what):
        with open(self.folder / what, "a") as file:
            file.write("x")

    def submit(self, trial):
        self.queue.append(trial)

    def wait(self):
        return [Outcome.success(self.queue.popleft().id, (1.0,))]

    def close(self):
        self.note("closed")


def slot_number(trial):
    """Return the number in the environment of a device slot, after a while that lets other slots begin."""
    time.sleep(0.2)
    return float(os.environ["SLOT"])


def die_in_slot(folder, trial):
    """Return the number of the slot, but end its process for x = 0, and at the first trial with another x below 3."""
    with open(Path(folder) / "begun", "a") as file:
        file.write(f"{trial['x']} {os.getpid()}\n")
    if trial["x"] == 0 or (trial["x"] < 3 and _first(folder, trial["x"])):
        os.kill(os.getpid(), signal.SIGKILL)
    return float(os.environ["SLOT"])


def wait_for(path):
    """Return when a file exists."""
    while not Path(path).exists():
        time.sleep(0.01)


if __name__ == "__main__":
    import sys

    from mpi4py.futures import MPIPoolExecutor

    from baco_like import MaxEvals, Optimizer, Space, run
    from baco_like.evaluators import ExecutorEvaluator
    from baco_like.evaluators.replay import load

    table = load(sys.argv[1])
    with MPIPoolExecutor() as pool:
        evaluator = ExecutorEvaluator(partial(replay, sys.argv[1]), pool)
        optimizer = Optimizer(Space(dict(table.domains)), strategy="exhaustive")
        run(optimizer, evaluator, MaxEvals(60))
    results = sorted(f"{sorted(t.config.items())} {t.value} {t.failure}" for t in optimizer.trials)
    print(evaluator.capacity)
    print("\n".join(results))
