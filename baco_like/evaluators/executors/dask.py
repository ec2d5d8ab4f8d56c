"""Calls on a Dask cluster, whose results survive the death of a worker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from typing_extensions import override

from baco_like.evaluators.executors.futures import LostWorker


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
