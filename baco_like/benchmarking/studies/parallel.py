"""Do independent jobs in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from baco_like._forks import end_with_parent

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
    with _single_thread(), ProcessPoolExecutor(processes, context, end_with_parent) as pool:
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
