"""A Python function as an objective: called in this process, by an executor, or in isolated worker processes.

`FunctionEvaluator` calls a function object. A function that may crash, hang or run out of memory is given by its name,
``package.module:function``, and imported in a worker.
"""

from __future__ import annotations

import concurrent.futures
import os
import queue
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Annotated, Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._tables import Bytes, Count, Given, Group, Positive, Shape, Table
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.executors.base import (
    FuturesEvaluator,
    LostWorker,
    SubmitsCalls,
    WorkerCount,
    answer,
    call_in_worker,
    end_calls,
    lost_worker,
    submit_call,
    without_tag,
)
from baco_like.evaluators.executors.executors import adapt_executor
from baco_like.evaluators.function.call import DEFAULT_FAILURES, FunctionCall
from baco_like.evaluators.protocol import KIND, RunArguments
from baco_like.evaluators.repeats import ONCE, Repeats
from baco_like.evaluators.wrappers import RepeatedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import read_outcome
from baco_like.journal.fields import check_outcomes
from baco_like.records.trial import Outcome, Trial

_ATTEMPTS = 3
"""Number of times that a trial is sent to a worker that may die."""


class FunctionEvaluator(FuturesEvaluator):
    """Calls a function with a trial, a read-only mapping: ``trial["tile"]``, ``kernel(**trial)``.

    The function returns a number, a list of repeats, or a mapping of metrics that includes the objective; None and NaN
    are failures. An exception that is a failure of the configuration becomes the outcome. Any other exception is
    raised by `wait` and ends the run, after the outcomes of other finished trials were returned. With `ProcessLanes`, a
    trial whose process dies is sent again; after three processes it is a failure (``runtime``).

    Args:
        fn: The function.
        objective: The metric that counts if the function returns a mapping.
        failures: Exception types that are failures of the configuration, in addition to `Infeasible` and errors of
            GPU packages.
        repeats: Calls per trial; the median counts and all values are kept.
        retries: Number of further attempts before a trial counts as failed.
        executor: Runs the calls; with None, `wait` calls the function in this thread. The executor is not shut down.
        max_pending: Largest number of pending trials; by default the number of the executor's workers.
    """

    def __init__(
        self,
        fn: Callable[[Trial], Any],
        *,
        objective: str = "value",
        failures: tuple[type[BaseException], ...] = DEFAULT_FAILURES,
        repeats: int = 1,
        retries: int = 0,
        executor: SubmitsCalls | None = None,
        max_pending: int | None = None,
    ) -> None:
        if not callable(fn):
            raise EvaluatorError(f"fn = {fn!r} is not callable")
        repeats = whole_number("repeats", repeats, 1, EvaluatorError)
        retries = whole_number("retries", retries, 0, EvaluatorError)
        can_submit = callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
        if executor is not None and not can_submit:
            raise EvaluatorError(
                f"executor = {executor!r}: expected an executor such as ThreadPoolExecutor(4)"
            )
        if max_pending is not None:
            max_pending = whole_number("max_pending", max_pending, 1, EvaluatorError)
        kinds = failures if isinstance(failures, (tuple, list)) else [None]
        if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
            raise EvaluatorError(
                f"failures = {failures!r}: expected a tuple of exception types such as (ValueError,)"
            )
        self._call = FunctionCall(fn, objective, tuple(failures), repeats, retries)
        self._executor = adapt_executor(executor)
        self._queue: deque[Trial] = deque()
        self._sent: dict[int, tuple[Trial, int]] = {}  # with the number of the attempt
        self._session = secrets.token_hex(4)
        limit = max_pending or 1
        super().__init__(limit if executor is None else WorkerCount(executor, limit=max_pending))

    def submit(self, trial: Trial) -> None:
        """Start the evaluation, or queue it if there is no executor.

        Raises:
            EvaluatorError: The executor has lost a worker.
            Exception: An exception of an earlier trial; this trial is not started then.
        """
        self._raise_pending_error()
        if self._executor is None:
            self._queue.append(without_tag(trial))
            return
        try:
            self._send(without_tag(trial), 1)
        except concurrent.futures.BrokenExecutor as error:
            raise lost_worker(error) from error

    def _send(self, trial: Trial, attempt: int) -> None:
        assert self._executor is not None
        call = call_in_worker, os.getpid(), self._session, self._call, trial
        self._pending[trial.id] = submit_call(self._executor, *call)
        self._sent[trial.id] = trial, attempt

    @override
    def _handle_error(self, trial_id: int, error: BaseException) -> Outcome | None:
        """Send a trial again whose process has died, or give it up if the executor still works."""
        trial, attempt = self._sent[trial_id]
        if not isinstance(error, LostWorker) or attempt > _ATTEMPTS:
            return super()._handle_error(trial_id, error)
        try:
            if attempt < _ATTEMPTS:
                self._send(trial, attempt + 1)
            else:
                message = f"handed out {attempt} times: {error}"
                given_up = Outcome.failure(trial_id, "runtime", message)
                self._pending[trial_id] = submit_call(self._executor, answer, given_up)
                self._sent[trial_id] = trial, attempt + 1
        except Exception as refused:
            return super()._handle_error(trial_id, refused)
        return None

    @override
    def wait(self) -> Sequence[Outcome]:
        """Call the function in this thread, or return the outcomes of calls that have ended."""
        if self._queue:
            return [self._call(self._queue.popleft())]
        return super().wait()

    @override
    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Drop or cancel trials that have not started, and return the outcomes that come within the time."""
        self._queue.clear()
        return super().collect(timeout)

    @override
    def close(self) -> None:
        """Drop or cancel trials that have not started; the executor stays open."""
        self._queue.clear()
        self._sent.clear()
        super().close()


_NAME = Shape(title="'module:function'", type="string", pattern=":")

_SERVING = "baco_like.evaluators.function.call:serve_function"


class IsolatedEvaluator(FuturesEvaluator):
    """Calls a function in worker processes.

    A trial that crashes its process is the failure ``runtime`` with the signal; a trial over its limit is ``timeout``.
    An exception of the handler ends the run.

    Args:
        name: ``package.module:function``, imported in the workers.
        settings: Further settings of `serve_function`, as JSON values.
        timeout: Seconds for one call.
        memory: Limit of the address space of a worker in bytes, including Python's own memory; or None.
        workers: Number of processes, each of which handles one request at a time.
        environment: Environment variables of the workers, such as those of a device slot; or None.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        timeout: float,
        memory: int | None,
        workers: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise EvaluatorError(
                f"{name!r:.80}: expected a name such as 'package.module:function', which the worker processes import; "
                "write the function into a module, or evaluate the object by FunctionEvaluator"
            )
        if ":" not in name:
            raise EvaluatorError(f"{name!r}: expected 'package.module:function'")
        if not timeout > 0:
            raise EvaluatorError(f"timeout = {timeout}: expected seconds above 0")
        super().__init__(whole_number("workers", workers, 1, EvaluatorError))
        self._name, self._timeout = name, timeout
        served = {"name": name, "timeout": timeout, **settings}
        self._workers = [
            Worker(_SERVING, settings=served, memory=memory, environment=environment)
            for _ in range(workers)
        ]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, trial: Trial) -> None:
        """Send a trial to the next idle worker."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="isolated")
            # A new queue: threads of a closed pool may still return workers to the former one.
            self._idle = queue.SimpleQueue()
            for worker in self._workers:
                self._idle.put(worker)
        self._pending[trial.id] = self._pool.submit(self._evaluate, trial)

    @override
    def close(self) -> None:
        """End running requests with their processes."""
        end_calls(self._pending.values(), self._kill_all)
        super().close()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for worker in self._workers:
            worker.close()

    def _kill_all(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _evaluate(self, trial: Trial) -> Outcome:
        idle, worker = self._idle, self._idle.get()
        try:
            request: dict[str, Any] = {"id": trial.id, "config": dict(trial.config)}
            request |= {} if trial.task is None else {"task": dict(trial.task)}
            reply = worker.request(
                request,
                timeout=self._timeout,
                check=lambda reply: reply.ok and _read_answer(trial, reply.value),
            )
        finally:
            idle.put(worker)
        if reply.error is not None:
            raise EvaluatorError(
                f"{self._name} raised {reply.error} at {reply.place}, for {dict(trial.config)!r:.200}; where a "
                "configuration cannot run, raise baco_like.Infeasible"
            )
        if not reply.ok:
            return reply.failure(trial.id)
        return _read_answer(trial, reply.value)


def _read_answer(trial: Trial, answer: Any) -> Outcome:
    """Return the outcome in a worker's answer; the function may have written it past its handler.

    Raises:
        LookupError, TypeError, ValueError: The answer holds no outcome of an evaluation.
    """
    row = {**answer["outcome"], "id": trial.id, "config": dict(trial.config)}
    check_outcomes([row])
    if not isinstance(answer["problem"], str):
        raise ValueError(f"the problem is {answer['problem']!r:.80}")
    return replace(read_outcome(row), problem=answer["problem"])


def isolated_function(
    function: Annotated[str, _NAME],
    *,
    metric: str = "value",
    timeout: Positive = 60.0,
    repeats: Group[Repeats] = ONCE,
    workers: Count = 1,
    memory: Bytes | None = None,
    path: Given[Sequence[str]] = (),
    environment: Given[Mapping[str, str] | None] = None,
) -> IsolatedEvaluator | RepeatedEvaluator:
    """Return an evaluator that calls a function in worker processes.

    The function gets the trial, and its results and exceptions are read as by `FunctionEvaluator`.

    Args:
        function: The function; the folder of the run file is searched first for its module.
        metric: The number to tune, if the function returns several by name.
        timeout: Limit of one call, in seconds.
        repeats: How often each configuration is measured.
        workers: Worker processes, each with one call at a time.
        memory: Limit of the memory of a worker process, with Python's own; a number is in bytes; None: no limit.
        path: Folders that are searched first for the module.
        environment: Environment variables of the workers, such as those of a device slot; or None.

    Raises:
        EvaluatorError: An argument has a wrong value.
    """
    least = 1 if repeats.is_adaptive else repeats.repeats
    settings = {"repeats": least, "objective": metric, "path": list(path)}
    evaluator = IsolatedEvaluator(function, settings, timeout, memory, workers, environment)
    return RepeatedEvaluator(evaluator, repeats) if repeats.is_adaptive else evaluator


def from_table(table: Table, run: RunArguments) -> IsolatedEvaluator | RepeatedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as the arguments of `isolated_function`.
        run: Its folder is searched first for the function's module. Space and unit are not used: a function accepts any
            parameters, and returns values in any unit.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
    """
    return table.create(
        isolated_function, KIND, path=[str(run.folder)], environment=run.environment
    )
