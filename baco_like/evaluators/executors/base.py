"""What evaluators share whose trials are calls of an executor: the executor's interface, and the pending calls."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from baco_like._forks import exit_after
from baco_like.exceptions import EvaluatorError
from baco_like.records import Outcome, Trial
from baco_like.records.workers import WORKER, steady_time, worker_record

_WAIT_SLICE = 0.5
"""Seconds of one wait. Python handles a Ctrl-C that arrives just before a wait only after it."""

_POLL_INTERVAL = 0.01
"""Seconds between two checks of futures that are not from `concurrent.futures`."""

_STOP_INTERVAL = 0.02
"""Seconds between two calls of ``stop`` while calls are still running."""

_RECOUNT_INTERVAL = 1.0
"""Seconds between two questions to a cluster for the number of its workers."""


class SubmitsCalls(Protocol):
    """An executor; its futures need ``done()``, ``result()`` and ``cancel()``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start a call and return its future."""


_watching: set[int] = set()
"""The process that ends with its parent; after a fork it is the parent's number, so the child starts its own watch."""


_forking = threading.local()
"""The process whose thread submits a call, in ``owner``: what it forks meanwhile are workers."""


def submit_call(executor: SubmitsCalls, *call: Any) -> Any:
    """Submit a call; worker processes that the executor forks for it end with this process, though they have no call.

    Args:
        executor: The executor.
        call: A function and its arguments.
    """
    _forking.owner = os.getpid()
    try:
        return executor.submit(*call)
    finally:
        _forking.owner = None


def _watch_owner() -> None:
    """Let a forked worker end with the process that has forked it."""
    owner, _forking.owner = getattr(_forking, "owner", None), None
    # Without such descriptors (macOS) a worker ends with its owner from its first call on.
    if owner is not None and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            _start_watch(os.pidfd_open(owner))
        if os.getppid() != owner:
            os._exit(1)


os.register_at_fork(after_in_child=_watch_owner)


def _start_watch(sentinel: int) -> None:
    _watching.clear()
    _watching.add(os.getpid())
    threading.Thread(target=exit_after, args=(sentinel,), daemon=True).start()


def answer(outcome: Outcome) -> Outcome:
    """Return the outcome of a trial that is given up: a call that is lost only if the executor is broken."""
    return outcome


def call_in_worker(owner: int, session: str, call: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a worker, which from then on ends when the process ``owner`` ends.

    Workers of a process pool outlive a run that was killed: they wait for calls that never come. An outcome also gets
    the name of the worker and the time of the evaluation.

    Args:
        owner: The process of the run.
        session: Identifies the evaluator that sends the call.
        call: The function.
        args: Its arguments.
    """
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid == owner and os.getpid() not in _watching:
        _start_watch(parent.sentinel)
    start, clock = steady_time(), time.perf_counter()
    outcome = call(*args)
    if not isinstance(outcome, Outcome):
        return outcome
    record = worker_record(_worker_name(), session, start, time.perf_counter() - clock)
    return replace(outcome, extra={**outcome.extra, WORKER: record})


_thread_numbers: dict[tuple[int, int], int] = {}
"""By process and thread: the number of a thread that evaluates, in order of the first calls."""


def _worker_name() -> str:
    """Return host and process of this worker, and the number of the thread if several evaluate."""
    process = os.getpid()
    known = sum(number == process for number, _ in list(_thread_numbers))
    number = _thread_numbers.setdefault((process, threading.get_ident()), known)
    return f"{socket.gethostname()}:{process}" + (f".{number}" if number else "")


def count_workers(executor: Any) -> int:
    """Return the number of an executor's workers, of a Dask cluster's cores, or of this machine's CPUs.

    A Dask cluster whose workers have not arrived yet counts as one worker.
    """
    for name in ("_max_workers", "num_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    client: Any = getattr(executor, "_client", None)  # an executor of Dask
    # Also after the loss of the scheduler; its calls never end.
    if getattr(client, "status", "") == "closed":
        raise EvaluatorError(
            "the client of Dask is closed: its scheduler is gone; resume with a new one"
        )
    if hasattr(client, "ncores"):
        return max(1, int(sum(client.ncores().values())))
    return os.cpu_count() or 1


class WorkerCount:
    """The number of an executor's workers, which may come and go; a cluster is asked once a second.

    Args:
        executor: The executor.
        more: A number to add.
        limit: The number to return instead.
    """

    def __init__(self, executor: Any, more: int = 0, limit: int | None = None) -> None:
        self._executor, self._more, self._limit = executor, more, limit
        self._count, self._asked = count_workers(executor), time.monotonic()

    def __call__(self) -> int:
        """Return the number."""
        if time.monotonic() - self._asked >= _RECOUNT_INTERVAL:
            self._asked = time.monotonic()
            try:
                self._count = count_workers(self._executor)
            except Exception as error:  # a cluster that does not answer now keeps its number
                if isinstance(error, EvaluatorError):
                    raise
        return self._limit or self._count + self._more


def without_tag(trial: Trial) -> Trial:
    """Return a trial for the workers: they need only the configuration, and a tag may not be picklable."""
    return replace(trial, config=dict(trial.config), tag=None, outcome=None)


def wait_for_first(futures: Iterable[Any], timeout: float = _WAIT_SLICE) -> None:
    """Wait until a future is done, for a limited time."""
    # `concurrent.futures.wait` accepts only its own futures; those of Dask, for example, are polled.
    futures = list(futures)
    if all(isinstance(future, concurrent.futures.Future) for future in futures):
        first = concurrent.futures.FIRST_COMPLETED
        concurrent.futures.wait(futures, timeout, return_when=first)
    elif not any(future.done() for future in futures):
        time.sleep(min(timeout, _POLL_INTERVAL))


def end_calls(futures: Iterable[concurrent.futures.Future[Any]], stop: Callable[[], None]) -> None:
    """Cancel calls that have not started, and end the running ones.

    Args:
        futures: The calls.
        stop: Ends what the running calls have started. A call may start a process just after ``stop`` has ended all
            others; so ``stop`` is called again until all calls have returned.
    """
    running = [future for future in futures if not future.cancel()]
    while not all(future.done() for future in running):
        stop()
        concurrent.futures.wait(running, _STOP_INTERVAL)


class FuturesEvaluator:
    """Base of evaluators whose trials are calls of an executor.

    An exception of a call is raised by the next `wait`, after the outcomes of other finished trials were returned.
    Subclasses define ``submit``, which puts a future (or an object with its methods) into ``_pending``.

    Args:
        capacity: Largest number of pending trials, or a function that returns it.
    """

    def __init__(self, capacity: int | Callable[[], int]) -> None:
        self._capacity = capacity
        self._known = self._count()  # the caller has read this number last
        self._pending: dict[int, Any] = {}  # futures by trial number
        self._error: BaseException | None = None  # raised by the next call of `submit` or `wait`

    @property
    def capacity(self) -> int:
        """Largest number of pending trials; it changes as workers come and go, unless it was given."""
        self._known = self._count()
        return self._known

    def _count(self) -> int:
        return self._capacity() if callable(self._capacity) else self._capacity

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one trial is done; outcomes come in the order of trial numbers.

        It returns no outcome if workers have come meanwhile, so that they get trials at once.

        Raises:
            EvaluatorError: Nothing was submitted, the executor has lost a worker or accepts no more calls, or a
                worker's evaluator is broken.
            BaseException: An exception of a call that is not a failure of the configuration. If other trials are
                done at the same moment, their outcomes are returned and the next call raises.
        """
        self._raise_pending_error()
        if not self._pending:
            raise EvaluatorError("wait() without a submitted trial")
        outcomes: list[Outcome] = []
        while not outcomes:
            outcomes = self._receive(_WAIT_SLICE)
            if not outcomes:
                self._raise_pending_error()
                if self._count() > self._known:
                    return []
        return sorted(outcomes, key=lambda outcome: outcome.trial_id)

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Cancel trials that have not started, and return the outcomes that come within the time.

        Args:
            timeout: Seconds to wait for running trials; None to wait for their end.
        """
        self._pending = {i: call for i, call in self._pending.items() if not call.cancel()}
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        outcomes = self._receive(0.0)
        while self._pending and (remaining := deadline - time.monotonic()) > 0:
            outcomes += self._receive(min(remaining, _WAIT_SLICE))
        return outcomes

    def close(self) -> None:
        """Cancel trials that have not started; the executor stays open."""
        for call in self._pending.values():
            call.cancel()
        self._pending.clear()
        self._error = None

    def _raise_pending_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _receive(self, timeout: float) -> list[Outcome]:
        """Return the available outcomes, after waiting at most ``timeout`` seconds for the first."""
        wait_for_first(self._pending.values(), timeout)
        outcomes: list[Outcome] = []
        for trial_id, future in list(self._pending.items()):
            if not future.done():
                continue
            del self._pending[trial_id]
            try:
                outcomes += self._read_result(trial_id, future.result())
            except BaseException as error:  # also a KeyboardInterrupt in a worker
                outcome = self._handle_error(trial_id, error)
                outcomes += [] if outcome is None else [outcome]
        return outcomes

    def _read_result(self, trial_id: int, result: Any) -> list[Outcome]:
        """Return the outcomes in the result of a trial's call."""
        return [check_outcome(trial_id, result)]

    def _handle_error(self, trial_id: int, error: BaseException) -> Outcome | None:
        """Keep the error of a call for the next `wait`; a subclass may send the trial again, or return an outcome."""
        self._error = self._error or (lost_worker(error) if is_lost_worker(error) else error)
        return None


def check_outcome(trial_id: int, answer: Any) -> Outcome:
    """Return a worker's answer if it is an outcome of this trial, otherwise a failure that describes it."""
    if isinstance(answer, Outcome) and answer.trial_id == trial_id:
        return answer
    return Outcome.failure(
        trial_id,
        "runtime",
        f"its worker answered {answer!r:.200}, not an outcome of trial {trial_id}",
    )


def lost_worker(error: BaseException) -> EvaluatorError:
    """Return the error of an executor that is broken."""
    lost = EvaluatorError(
        f"the executor has lost a worker ({error}). Its trials are still pending and are suggested again when the run "
        "resumes, unless you report a failure: observe(trial, failed='runtime') for a trial of `pending`. Run a "
        "function that can crash its process by isolated_function of baco_like.evaluators"
    )
    lost.__cause__ = error
    return lost


_LOST_WORKERS: Mapping[str, str] = {
    "distributed": "KilledWorker CommClosedError FutureCancelledError NoValidWorkerError NoWorkerError",
    "mpi4py": "BrokenExecutor",
    "ray": "ActorDiedError LocalRayletDiedError NodeDiedError ObjectLostError OutOfMemoryError RayActorError RpcError "
    "WorkerCrashedError",
}
"""Classes of exceptions by top-level package; these packages need not be imported."""


class LostWorker(concurrent.futures.BrokenExecutor):
    """The process of a call has died; the executor still works."""


def is_lost_worker(error: BaseException) -> bool:
    """Whether an exception means that the worker is lost, and not that the call itself has failed."""
    if isinstance(error, (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError)):
        return True
    bases = ((base.__module__.split(".", 1)[0], base.__name__) for base in type(error).__mro__)
    return any(name in _LOST_WORKERS.get(package, "").split() for package, name in bases)
