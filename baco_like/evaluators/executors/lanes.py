"""A pool of processes in which a death costs one call.

`concurrent.futures.ProcessPoolExecutor` breaks as a whole when one of its processes dies, and all calls in flight are
lost with it. Here every worker is such a pool of its own, of one process, and is replaced alone.
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

from baco_like.evaluators.executors.lost import LostWorker
from baco_like.exceptions import EvaluatorError

_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], "Future[Any]"]


class ProcessLanes(Executor):
    """Runs calls in processes, one at a time in each.

    A call whose process dies raises `LostWorker`; the others go on, and so does the executor. Processes start with
    their first call.

    Args:
        workers: How many processes.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise EvaluatorError(f"workers = {workers}: expected 1 or more")
        self._max_workers = workers
        self._context = multiprocessing.get_context("spawn")
        self._changed = threading.Condition()
        self._idle = [self._lane() for _ in range(workers)]
        self._waiting: deque[_Call] = deque()
        self._busy = 0
        self._closed = self._awaited = False

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call, or queue it until a process is free.

        Raises:
            RuntimeError: The executor is shut down.
        """
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the executor is shut down")
            self._waiting.append((fn, args, kwargs, future))
        self._serve()
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End each process when there are no more calls for it."""
        with self._changed:
            self._closed, self._awaited = True, wait
            dropped = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        for _, _, _, future in dropped:
            future.cancel()
        with self._changed:
            while wait and (self._waiting or self._busy):
                self._changed.wait()
        self._end_idle(wait)

    def _lane(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=self._context)

    def _serve(self) -> None:
        """Give waiting calls to idle processes."""
        while True:
            with self._changed:
                if not self._waiting or not self._idle:
                    return
                fn, args, kwargs, future = self._waiting.popleft()
                if not future.set_running_or_notify_cancel():
                    self._changed.notify_all()
                    continue
                lane = self._idle.pop()
                self._busy += 1
            lane, running = self._started(lane, fn, args, kwargs)
            running.add_done_callback(partial(self._finish, lane, future))

    def _started(
        self,
        lane: ProcessPoolExecutor,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[ProcessPoolExecutor, Future[Any]]:
        try:
            return lane, lane.submit(fn, *args, **kwargs)
        except BrokenExecutor:  # it died when nobody called
            lane.shutdown(wait=False)
            lane = self._lane()
            return lane, lane.submit(fn, *args, **kwargs)

    def _finish(self, lane: ProcessPoolExecutor, future: Future[Any], done: Future[Any]) -> None:
        error = done.exception()
        if isinstance(error, BrokenExecutor):
            lane.shutdown(wait=False)
            lane = self._lane()
            error = LostWorker("the process died while it made this call")
        with self._changed:
            self._idle.append(lane)
            self._busy -= 1
            over = self._closed and not self._awaited and not self._waiting
            self._changed.notify_all()
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(error)
        self._end_idle(wait=False) if over else self._serve()

    def _end_idle(self, wait: bool) -> None:
        with self._changed:
            if self._waiting:
                return
            lanes, self._idle = self._idle, []
        for lane in lanes:
            lane.shutdown(wait=wait)
