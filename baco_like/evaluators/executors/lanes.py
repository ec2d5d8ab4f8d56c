"""A pool of processes in which the death of one process costs only its own call.

`concurrent.futures.ProcessPoolExecutor` breaks as a whole when one of its processes dies, and loses all running calls.
Here every process is a separate pool with one worker (a lane), and a broken lane is replaced.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from functools import partial
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like.evaluators.executors.futures import LostWorker
from baco_like.exceptions import EvaluatorError

_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], "Future[Any]"]


class ProcessLanes(Executor):
    """Runs calls in processes, one call at a time in each.

    A call whose process dies raises `LostWorker`; other calls and the executor are not affected. A process starts with
    its first call.

    Args:
        workers: Number of processes.
    """

    def __init__(self, workers: int) -> None:
        self._max_workers = whole_number("workers", workers, 1, EvaluatorError)
        # A forked child could inherit a lock that another thread holds; a spawned one starts clean.
        self._context = multiprocessing.get_context("spawn")
        # Guards all attributes below. It is never held while a lane is called: a lane may run callbacks at once, in
        # this thread, and these take the lock again.
        self._changed = threading.Condition()
        self._idle = [self._new_lane() for _ in range(self._max_workers)]
        self._waiting: deque[_Call] = deque()
        self._busy = 0
        self._is_closed = self._is_awaited = False

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call, or queue it until a process is idle.

        Raises:
            RuntimeError: The executor is shut down.
        """
        future: Future[Any] = Future()
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the executor is shut down")
            self._waiting.append((fn, args, kwargs, future))
        self._start_calls()
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End each process when there are no more calls for it."""
        with self._changed:
            self._is_closed, self._is_awaited = True, wait
            dropped = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        for _, _, _, future in dropped:
            future.cancel()
        with self._changed:
            while wait and (self._waiting or self._busy):
                self._changed.wait()
        self._end_idle(wait)

    def _new_lane(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=self._context)

    def _start_calls(self) -> None:
        """Give waiting calls to idle lanes."""
        while True:
            with self._changed:
                if not self._waiting or not self._idle:
                    return
                fn, args, kwargs, future = self._waiting.popleft()
                if not future.set_running_or_notify_cancel():
                    self._changed.notify_all()  # `shutdown` may wait for the queue to be empty
                    continue
                lane = self._idle.pop()
                self._busy += 1
            try:
                running = lane.submit(fn, *args, **kwargs)
            except BrokenExecutor:  # its process died while it was idle
                lane.shutdown(wait=False)
                lane = self._new_lane()
                running = lane.submit(fn, *args, **kwargs)
            running.add_done_callback(partial(self._finish, lane, future))

    def _finish(self, lane: ProcessPoolExecutor, future: Future[Any], done: Future[Any]) -> None:
        """Return a lane to the idle ones and pass the result on; runs in a thread of the lane."""
        error = done.exception()
        if isinstance(error, BrokenExecutor):
            lane.shutdown(wait=False)
            lane = self._new_lane()
            error = LostWorker("the process died while it made this call")
        # First the lane, then the result: who gets the result may submit a call, for which the lane is free then.
        with self._changed:
            self._idle.append(lane)
            self._busy -= 1
            is_over = self._is_closed and not self._is_awaited and not self._waiting
            self._changed.notify_all()
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(error)
        if is_over:
            self._end_idle(wait=False)
        else:
            self._start_calls()

    def _end_idle(self, wait: bool) -> None:
        with self._changed:
            if self._waiting:
                return
            lanes, self._idle = self._idle, []
        for lane in lanes:
            lane.shutdown(wait=wait)
