"""Jobs in parallel processes. Each has one thread for numerics, and ends when this process does, however that ends."""

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

J = TypeVar("J")
R = TypeVar("R")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def done(work: Callable[[J], R], jobs: Sequence[J], processes: int) -> Iterator[R]:
    """Yield the results of jobs as they come.

    Args:
        work: Does one job; a function of a module, because it travels to other processes.
        jobs: Started in this order.
        processes: How many at once; with one all is done in this process.

    Raises:
        Exception: What ``work`` raised; the jobs that still run are ended.
    """
    if processes == 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    with _one_thread(), ProcessPoolExecutor(processes, context, _begin) as pool:
        try:
            waiting = iter(jobs)
            flying = {pool.submit(work, job) for job in islice(waiting, 2 * processes)}
            while flying:
                ended, flying = wait(flying, return_when=FIRST_COMPLETED)
                flying |= {pool.submit(work, job) for job in islice(waiting, len(ended))}
                yield from (future.result() for future in ended)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started meanwhile have one thread, unless the user has said how many."""
    new = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(new, "1"))
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _begin() -> None:
    """In a new process: leave Ctrl-C to the parent, and end with it even where it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
