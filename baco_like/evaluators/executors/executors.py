"""Executors with the interface of `concurrent.futures`: processes that are replaced when they die, Dask and Ray.

`concurrent.futures.ProcessPoolExecutor` breaks as a whole when one of its processes dies, and loses all running calls.
In `ProcessLanes` every process is a separate pool with one worker (a lane), and a broken lane is replaced.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._optional import require
from baco_like.evaluators.executors.base import LostWorker
from baco_like.evaluators.slots import Slot, resolve_slots
from baco_like.exceptions import EvaluatorError


class ProcessLanes(Executor):
    """Runs calls in processes, one call at a time in each.

    A call whose process dies raises `LostWorker`; other calls and the executor are not affected. A process starts with
    its first call.

    Args:
        workers: Number of processes; with slots their number.
        slots: Device slots, see `resolve_slots`: each has one process with the environment variables of its device.
            They are set before the first call is unpacked, but after the main module is imported, so that module must
            not use the device during its import.

    Raises:
        EvaluatorError: The number is wrong, or the slots are; for example, they have different device types.
    """

    def __init__(self, workers: int | None = None, *, slots: Sequence[Any] | None = None) -> None:
        self.slots = None if slots is None else resolve_slots(slots)
        if self.slots is not None and workers not in (None, len(self.slots)):
            raise EvaluatorError(
                f"workers = {workers}: leave it out, each of the {len(self.slots)} slots has one process"
            )
        number = workers if self.slots is None else len(self.slots)
        self._max_workers = whole_number("workers", number, 1, EvaluatorError)
        # A forked child could inherit a lock that another thread holds; a spawned one starts clean.
        self._context = multiprocessing.get_context("spawn")
        # As many threads as lanes: each waits for one call. The lane used last is taken first, as its process runs.
        self._threads = ThreadPoolExecutor(self._max_workers, thread_name_prefix="lane")
        self._idle: queue.LifoQueue[tuple[ProcessPoolExecutor, Slot | None]] = queue.LifoQueue()
        for slot in reversed(self.slots or [None] * self._max_workers):
            self._idle.put((self._new_lane(slot), slot))

    @property
    def context(self) -> dict[str, str]:
        """The device type of the slots, for the context of an optimizer; empty without slots."""
        return {} if self.slots is None else {"device type": self.slots[0].type}

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call, or queue it until a process is idle.

        Raises:
            RuntimeError: The executor is shut down.
        """
        try:
            return self._threads.submit(self._call, fn, *args, **kwargs)
        except RuntimeError as error:
            raise RuntimeError(f"the executor is shut down ({error})") from None

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End each process when there are no more calls for it."""
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        ending = threading.Thread(target=self._end_lanes)
        ending.start()
        if wait:
            ending.join()

    def _new_lane(self, slot: Slot | None) -> ProcessPoolExecutor:
        variables = {} if slot is None else dict(slot.environment)
        return ProcessPoolExecutor(
            1, mp_context=self._context, initializer=_set_variables, initargs=(variables,)
        )

    def _call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        lane, slot = self._idle.get()
        try:
            try:
                running = lane.submit(fn, *args, **kwargs)
            except BrokenExecutor:  # its process died while it was idle
                lane.shutdown(wait=False)
                lane = self._new_lane(slot)
                running = lane.submit(fn, *args, **kwargs)
            return running.result()
        except BrokenExecutor:
            lane.shutdown(wait=False)
            lane = self._new_lane(slot)
            raise LostWorker("the process died while it made this call") from None
        finally:
            self._idle.put((lane, slot))

    def _end_lanes(self) -> None:
        self._threads.shutdown()  # waits for the calls
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait()[0].shutdown()


def _set_variables(variables: dict[str, str]) -> None:
    os.environ.update(variables)


_LONGEST_ABSENCE = 30.0
"""Seconds without a node after which a cluster of Ray that had nodes counts as gone: its calls would wait for ever."""


class RayExecutor(Executor):
    """Runs calls as Ray tasks, one per CPU of the cluster at a time; needs the extra ``ray``.

    Ray does not repeat a task whose worker is lost (``max_retries=0``), because `ExecutorEvaluator` decides that. It is
    ended by ``ray.shutdown()``.

    Args:
        options: Options of Ray's tasks, such as ``num_gpus=1``.

    Raises:
        MissingExtra: Ray is not installed.
    """

    cancels_running = True
    """Whether cancelling a future drops the result of a call that is running."""

    def __init__(self, **options: Any) -> None:
        self._ray = require("ray", "ray")
        if not self._ray.is_initialized():
            self._ray.init()
        # When the cluster had CPUs; one that starts without nodes may wait for them.
        self._seen = float("inf")
        self._options = {"max_retries": 0, **options}
        # One object for all calls: Ray pickles and publishes the function of each new one.
        self._task = self._ray.remote(_call).options(**self._options)

    @property
    def num_workers(self) -> int:
        """Number of tasks that fit on the cluster's CPUs at a time.

        Raises:
            EvaluatorError: All nodes of the cluster are gone, for half a minute.
        """
        cpus, now = self._ray.cluster_resources().get("CPU", 0.0), time.monotonic()
        if cpus:
            self._seen = now
        elif now - self._seen > _LONGEST_ABSENCE:
            raise EvaluatorError(
                f"the Ray cluster has had no CPU for {_LONGEST_ABSENCE:g} s. Pending trials are suggested again when "
                "the run resumes on a cluster with nodes"
            )
        return max(1, int(cpus / (self._options.get("num_cpus") or 1)))

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task."""
        future: Future[Any] = self._task.remote(fn, args, kwargs).future()
        return future


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


def adapt_executor(executor: Any) -> Any:
    """Return a `DaskExecutor` for an executor of Dask, and any other executor unchanged."""
    is_dask = type(executor).__module__.partition(".")[0] == "distributed"
    return DaskExecutor(executor) if is_dask else executor


class DaskExecutor(Executor):
    """Runs calls by the client of a Dask executor.

    The futures of Dask's own executor have two defects. It reads the state of a call after the result has arrived; if
    the worker dies in between, the state is "lost", and the result is unpacked as an exception: "cannot unpack
    non-iterable Outcome object". And an error while the result is fetched is only logged, so the future never ends.

    Args:
        executor: The executor of ``client.get_executor()``.
    """

    cancels_running = True
    """Whether cancelling a future drops the result of a call that is running."""

    def __init__(self, executor: Any) -> None:
        self._client, self._options = executor._client, executor._kwargs

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call, or queue it at the scheduler."""
        # Dask would answer a pure call that is sent again by its earlier result, also by a `KilledWorker`.
        options = {**self._options, **kwargs, "pure": False}
        call = self._client.submit(fn, *args, **options)
        future: Future[Any] = Future()
        future.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
        self._client.loop.add_callback(_forward, call, future)
        return future


async def _forward(call: Any, future: Future[Any]) -> None:
    """Set the result of a future when Dask's future of the call has one."""
    try:
        result = await call.result()
    except BaseException as error:
        # Neither the call nor the scheduler has failed, but the transport.
        if call.status != "error":
            reason = f"{type(error).__name__}: {error}"
            lost = LostWorker(f"Dask has no result of this call ({reason})")
            lost.__cause__ = error
            error = lost
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(result)
    finally:
        # The traceback of an error would keep them, and Dask would keep the result at the worker.
        del call, future
