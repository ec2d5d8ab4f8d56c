"""Calls as jobs of Slurm, by submitit: one job for each call."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._optional import require
from baco_like.evaluators.executors.futures import LostWorker
from baco_like.exceptions import EvaluatorError

_RESULT_TIMEOUT = 15.0
"""Seconds after the end of a job in which its result may still appear: file systems of clusters are slow to show it."""


class SubmititExecutor(Executor):
    """Runs each call as a job of submitit; needs the extra ``submitit``.

    For evaluations of minutes or more: Slurm takes seconds to start a job. For shorter ones let ``dask-jobqueue`` start
    workers that evaluate many trials each. A job that is preempted, cancelled, killed or over
    its time limit raises `LostWorker`.

    Args:
        executor: ``submitit.AutoExecutor(folder)`` with the parameters of a job, one task each. Its folder is on a
            file system that the nodes share.
        workers: Number of jobs that are queued or running at a time.
        interval: Seconds between two looks for finished jobs.

    Raises:
        MissingExtra: submitit is not installed.
        EvaluatorError: A number is wrong.
    """

    cancels_running = True
    """Whether cancelling a future ends its job."""

    def __init__(self, executor: Any, workers: int, *, interval: float = 1.0) -> None:
        require("submitit", "submitit")
        if not callable(getattr(executor, "submit", None)):
            raise EvaluatorError(
                f"executor = {executor!r:.80}: expected one of submitit, such as submitit.AutoExecutor(folder)"
            )
        if not interval > 0:
            raise EvaluatorError(f"interval = {interval}: expected seconds above 0")
        self._jobs_executor, self._interval = executor, interval
        self._max_workers = whole_number("workers", workers, 1, EvaluatorError)
        self._lock = threading.Lock()
        self._jobs: dict[Future[Any], Any] = {}
        self._ended: dict[Future[Any], float] = {}  # jobs without a result so far, and since when
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a job.

        Raises:
            RuntimeError: The executor is shut down.
            EvaluatorError: The jobs have several tasks.
        """
        if self._closing.is_set():
            raise RuntimeError("the executor is shut down")
        job = self._jobs_executor.submit(_call, fn, args, kwargs)
        if getattr(job, "num_tasks", 1) != 1:
            job.cancel(check=False)
            raise EvaluatorError(
                f"a job has {job.num_tasks} tasks: set tasks_per_node=1 and nodes=1 by update_parameters"
            )
        future: Future[Any] = Future()
        future.add_done_callback(self._drop_cancelled)
        with self._lock:
            self._jobs[future] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="jobs", daemon=True)
                self._thread.start()
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; jobs that are submitted run to their end, unless they are cancelled."""
        self._closing.set()
        with self._lock:
            futures = list(self._jobs)
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait and self._thread is not None:
            self._thread.join()

    def _drop_cancelled(self, future: Future[Any]) -> None:
        if not future.cancelled():
            return
        with self._lock:
            job = self._jobs.pop(future, None)
            self._ended.pop(future, None)
        if job is not None:
            with contextlib.suppress(Exception):  # it may have ended meanwhile
                job.cancel(check=False)

    def _watch(self) -> None:
        """Look for finished jobs until the executor is shut down and no job is left."""
        while True:
            with self._lock:
                jobs = list(self._jobs.items())
                if not jobs and self._closing.is_set():
                    return
            for future, job in jobs:
                self._look_at(future, job)
            time.sleep(self._interval)

    def _look_at(self, future: Future[Any], job: Any) -> None:
        """Set the result of a future if its job has ended."""
        try:
            if not job.done():
                return
            if not job.paths.result_pickle.exists():
                # `job.result()` would wait for the file, and all other jobs with it.
                ended = self._ended.setdefault(future, time.monotonic())
                if time.monotonic() - ended < _RESULT_TIMEOUT:
                    return
                raise LostWorker(f"job {job.job_id} has ended without a result ({job.state})")
            value, error = job.result()
            if type(error).__name__ == "UncompletedJobError":
                # submitit raises it in the function when Slurm signals that the time limit of the job is near.
                raise LostWorker(f"job {job.job_id} was ended ({error})") from error
            if error is not None:
                raise error
        except BaseException as error:
            self._finish(future, lambda: future.set_exception(error))
        else:
            self._finish(future, lambda: future.set_result(value))

    def _finish(self, future: Future[Any], finish: Callable[[], None]) -> None:
        with self._lock:
            self._jobs.pop(future, None)
            self._ended.pop(future, None)
        if future.set_running_or_notify_cancel():
            finish()


def _call(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    """Return the result or the exception: submitit would return only the text of the exception."""
    try:
        return fn(*args, **kwargs), None
    except Exception as error:
        return None, error
