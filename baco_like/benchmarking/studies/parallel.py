"""Do independent jobs in several processes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from baco_like.evaluators.executors.base import exit_after

J = TypeVar("J")
R = TypeVar("R")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
