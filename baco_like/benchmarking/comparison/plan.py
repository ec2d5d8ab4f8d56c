"""Plan a comparison, and run in parallel the jobs that its store does not have yet."""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

import numpy as np

from baco_like.benchmarking.comparison import runs
from baco_like.benchmarking.comparison.figures import ComparisonFigures, compute_figures
from baco_like.benchmarking.comparison.runs import Contender, RunBudget, RunJob, StrategyRun
from baco_like.benchmarking.comparison.spaces import RecordedSpace
from baco_like.benchmarking.comparison.store import ComparisonSpecification, RunKey, RunStore
from baco_like.evaluators.executors.futures import exit_after
from baco_like.exceptions import BacoError, StrategyError
from baco_like.journal.lock import sole_runner
from baco_like.running.progress import Display


class KeyedJob(Protocol):
    """A job whose run a `RunStore` keeps."""

    @property
    def key(self) -> RunKey:
        """Space, label and seed of the run."""


J = TypeVar("J")
K = TypeVar("K", bound=KeyedJob)
R = TypeVar("R")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_LINE_INTERVAL = 10.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True, eq=False)
class ComparisonPlan:
    """Every contender on every space with every seed.

    Attributes:
        spaces: The recorded spaces.
        contenders: The strategies, with different labels.
        seeds: One run each. Runs with the same seed are not paired, since strategies draw differently.
        evaluations: Evaluations of every run; None uses the methodology's budget of each space, over evaluations and
            over time.
        draw: Whether each value is drawn from the recorded repeats (see `RunJob`).
    """

    spaces: Sequence[RecordedSpace]
    contenders: Sequence[Contender]
    seeds: Sequence[int]
    evaluations: int | None = None
    draw: bool = False

    @property
    def budgets(self) -> Mapping[str, RunBudget]:
        """The budget on each space, by the space's name."""
        return {space.name: budget_on(space, self.evaluations) for space in self.spaces}

    @property
    def jobs(self) -> list[RunJob]:
        """All runs, ordered by seed, so that an interrupted comparison has runs of all contenders and spaces."""
        budgets = self.budgets
        return [
            RunJob(space.source, contender, seed, budgets[space.name], self.draw)
            for seed in self.seeds
            for space in self.spaces
            for contender in self.contenders
        ]

    @property
    def specification(self) -> ComparisonSpecification:
        """Everything that decides the results of the runs."""
        budgets = self.budgets
        return ComparisonSpecification(
            {"draw": self.draw, "version": importlib.metadata.version("baco-like")},
            {
                space.name: {"digest": space.source.digest, **asdict(budgets[space.name])}
                for space in self.spaces
            },
            {
                c.label: {"strategy": c.strategy, "settings": dict(c.settings)}
                for c in self.contenders
            },
        )


def budget_on(space: RecordedSpace, evaluations: int | None) -> RunBudget:
    """Return the budget of a run; the methodology's if ``evaluations`` is None."""
    if evaluations is not None:
        return RunBudget(evaluations)
    baseline = space.baseline
    _, last = baseline.evaluations()
    if np.isnan(baseline.median_seconds):
        return RunBudget(last)
    return RunBudget(last, baseline.time_range()[1])


def compare(plan: ComparisonPlan, path: Path, processes: int = 1) -> ComparisonFigures:
    """Run a comparison, or the part of it that a file does not have yet, and return its figures.

    Progress is shown on the standard error. A second call with the same file continues; its plan may have more spaces,
    contenders or seeds.

    Args:
        plan: The requested runs, at least two seeds.
        path: A journal that keeps each run as it ends; created if it does not exist.
        processes: Number of parallel processes. A script that uses several needs ``if __name__ == "__main__":``.

    Raises:
        JournalError: The file is damaged, its runs differ from the plan, or another process uses it.
        NothingToScore: A space cannot be scored with this budget.
        StrategyError, RuntimeError: A run ended with an error; see `run_missing`.
        ValueError: The plan has fewer than two seeds.
    """
    with sole_runner(path):
        store = RunStore.open(path, plan.specification)
        finished = run_missing(plan.jobs, store, processes, sys.stderr)
    evaluations = {name: budget.evaluations for name, budget in plan.budgets.items()}
    return compute_figures(finished, plan.spaces, evaluations, np.random.default_rng(0))


def run_missing(
    jobs: Sequence[K],
    store: RunStore,
    processes: int,
    progress_stream: TextIO,
    work: Callable[[K], StrategyRun] = runs.run_job,  # type: ignore[assignment]
) -> list[StrategyRun]:
    """Run the jobs that a store does not have, store each run as it ends, and return the runs of all jobs.

    Args:
        jobs: The requested runs.
        store: Opened with a specification that covers the jobs.
        processes: Number of parallel processes.
        progress_stream: Shows the progress.
        work: Does one job; a function of a module, so that it can be pickled.

    Raises:
        JournalError: A finished run cannot be written.
        StrategyError: A run ended with an error of this package; the message names the run.
        RuntimeError: A run ended with another exception; the message names the run, and the cause is the exception.
    """
    missing = [job for job in jobs if job.key not in store.runs]
    if missing:
        done = len(jobs) - len(missing)
        display = Display(progress_stream, len(jobs), "run", done=done, interval=_LINE_INTERVAL)
        try:
            for run in run_parallel(partial(_run_named, work), missing, processes):
                store.add(run)
                done += 1
                display.show(done, f"{run.label} on {run.space}")
        finally:
            display.close()
    return [store.runs[job.key] for job in jobs]


def _run_named(work: Callable[[K], StrategyRun], job: K) -> StrategyRun:
    """Do a job, in any process; an error names it, in a form that can be pickled."""
    try:
        return work(job)
    except Exception as error:
        problem, label, seed = job.key
        where = f"strategy {label!r} on problem {problem!r} with seed {seed}"
        if isinstance(error, BacoError):
            raise StrategyError(f"{where}: {error}") from error
        raise RuntimeError(f"{where}: {type(error).__name__}: {error}") from error


def run_parallel(work: Callable[[J], R], jobs: Sequence[J], processes: int) -> Iterator[R]:
    """Yield the results of jobs as they finish.

    Args:
        work: Does one job; a function of a module, so that it can be pickled.
        jobs: Started in this order.
        processes: Number of processes; 1 runs all jobs in this process.

    Raises:
        Exception: ``work`` raised it; all finished results come before it, and running jobs are terminated.
    """
    if processes == 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # a fork would copy locked locks of threads
    with _single_thread(), ProcessPoolExecutor(processes, context, _initialise) as pool:
        try:
            waiting = iter(jobs)
            running = {pool.submit(work, job) for job in islice(waiting, 2 * processes)}
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(work, job) for job in islice(waiting, len(finished))}
                failed = {future for future in finished if future.exception() is not None}
                yield from (future.result() for future in [*(finished - failed), *failed])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


@contextmanager
def _single_thread() -> Iterator[None]:
    """Give new processes one numerical thread, unless the user has set the number."""
    unset = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]


def _initialise() -> None:
    """Leave Ctrl-C to the parent process, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=exit_after, args=(parent.sentinel,), daemon=True).start()
