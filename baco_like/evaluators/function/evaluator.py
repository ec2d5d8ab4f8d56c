"""A Python function as an objective, called in this process or by an executor."""

from __future__ import annotations

import concurrent.futures
import os
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like.evaluators.executors.futures import (
    FuturesEvaluator,
    LostWorker,
    SubmitsCalls,
    WorkerCount,
    answer,
    call_in_worker,
    lost_worker,
    submit_call,
    without_tag,
)
from baco_like.evaluators.executors.pools import adapt_executor
from baco_like.evaluators.function.call import DEFAULT_FAILURES, FunctionCall
from baco_like.exceptions import EvaluatorError
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
