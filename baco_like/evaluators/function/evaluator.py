"""A Python function as an objective, called in this process or by an executor."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baco_like._checks import whole_number
from baco_like.evaluators.executors.protocol import SubmitsCalls, count_workers
from baco_like.evaluators.function.failures import DEFAULT_FAILURES, failure_word
from baco_like.exceptions import EvaluatorError
from baco_like.records.reading import finite_number, outcome_from, outcome_of_exception
from baco_like.records.trial import Outcome, Status, Trial

_POLL_INTERVAL = 0.01
"""Seconds between two checks of futures that are not from `concurrent.futures`."""

_WAIT_SLICE = 0.5
"""Seconds of one wait for other futures. Python handles a Ctrl-C that arrives just before a wait only after it."""


@dataclass(frozen=True)
class FunctionCall:
    """The evaluation of one trial. It is sent to the workers, which must be able to import ``fn``.

    Attributes:
        fn: Called with the trial.
        objective: The metric that counts if the function returns a mapping.
        failures: Exception types that are failures of the configuration.
        repeats: Number of calls per trial.
        retries: Number of further attempts after a failure.
    """

    fn: Callable[[Trial], Any]
    objective: str
    failures: tuple[type[BaseException], ...]
    repeats: int
    retries: int

    def __call__(self, trial: Trial) -> Outcome:
        """Return the outcome of a trial."""
        outcome = self._attempt(trial)
        for _ in range(self.retries):
            if outcome.status is not Status.FAILED:
                break
            outcome = self._attempt(trial)
        return outcome

    def _attempt(self, trial: Trial) -> Outcome:
        values = []
        started = time.perf_counter()
        for _ in range(self.repeats):
            try:
                values.append(self.fn(trial))
            except Exception as error:
                word = failure_word(error, self.failures)
                if word is None:
                    raise
                extra = {
                    "seconds": {"run": time.perf_counter() - started},
                    **_numbers_so_far(values, self.objective),
                }
                return outcome_of_exception(trial.id, error, word, extra=extra)
        extra = {"seconds": {"run": time.perf_counter() - started}}
        return outcome_from(trial.id, _join(values, self.objective), self.objective, extra=extra)


def _numbers_so_far(values: list[Any], objective: str) -> dict[str, Any]:
    """Return the finite numbers that earlier repeats of a failed trial have returned."""
    joined = _join(values, objective) if values else []
    metrics = dict(joined) if isinstance(joined, Mapping) else {objective: joined}
    numbers = {str(name): _finite_numbers(value) for name, value in metrics.items()}
    repeats = numbers.pop(objective, [])
    others = {name: values for name, values in numbers.items() if values}
    return {**({"repeats": repeats} if repeats else {}), **({"metrics": others} if others else {})}


def _finite_numbers(value: Any) -> list[float]:
    numbers = map(finite_number, value if isinstance(value, list) else [value])
    return [number for number in numbers if number is not None]


def _join(values: list[Any], objective: str) -> Any:
    """Join the results of several calls: a list of repeats, or a mapping of lists.

    A metric may be missing from some results. A missing objective becomes None, which counts as a failure.
    """
    if len(values) == 1:
        return values[0]
    if not all(isinstance(value, Mapping) for value in values):
        return _concatenate(values)
    names = dict.fromkeys(name for value in values for name in value)
    joined = {name: _concatenate([v[name] for v in values if name in v]) for name in names}
    if objective in names:
        joined[objective] = _concatenate([value.get(objective) for value in values])
    return joined


def _concatenate(values: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            joined += value.tolist()
        else:
            joined += value if isinstance(value, (list, tuple)) else [value]
    return joined


class FunctionEvaluator:
    """Calls a function with a trial, a read-only mapping: ``trial["tile"]``, ``kernel(**trial)``.

    The function returns a number, a list of repeats, or a mapping of metrics that includes the objective; None and NaN
    are failures. An exception that is a failure of the configuration becomes the outcome. Any other exception is
    raised by `wait` and ends the run, after the outcomes of other finished trials were returned.

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
        if max_pending is not None:
            max_pending = whole_number("max_pending", max_pending, 1, EvaluatorError)
        _check_failures(failures)
        self._call = FunctionCall(fn, objective, tuple(failures), repeats, retries)
        self._executor = executor
        workers = _capacity(executor)
        self._capacity = workers if max_pending is None else max_pending
        self._queue: deque[Trial] = deque()
        self._futures: dict[int, Any] = {}
        self._error: BaseException | None = None  # raised by the next call of `submit` or `wait`

    @property
    def capacity(self) -> int:
        """Largest number of pending trials."""
        return self._capacity

    def submit(self, trial: Trial) -> None:
        """Start the evaluation, or queue it if there is no executor.

        Raises:
            EvaluatorError: The executor has lost a worker.
            Exception: An exception of an earlier trial; this trial is not started then.
        """
        self._raise_pending_error()
        # Workers need only the configuration; a strategy's tag may not be picklable.
        sent = replace(trial, config=dict(trial.config), tag=None, outcome=None)
        if self._executor is None:
            self._queue.append(sent)
            return
        try:
            self._futures[trial.id] = self._executor.submit(self._call, sent)
        except concurrent.futures.BrokenExecutor as error:
            raise _lost_worker(error) from error

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one trial is done; outcomes come in the order of trial numbers.

        Raises:
            EvaluatorError: Nothing was submitted, or the executor has lost a worker.
            Exception: An exception of the function that is not a failure of the configuration. If other trials are
                done at the same moment, their outcomes are returned and the next call raises.
        """
        self._raise_pending_error()
        if self._queue:
            return [self._call(self._queue.popleft())]
        if not self._futures:
            raise EvaluatorError("wait() without a submitted trial")
        outcomes = self._take_results(_wait_for_some(self._futures))
        if not outcomes:
            self._raise_pending_error()
        return outcomes

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Cancel trials that have not started, and return the outcomes not returned yet.

        Args:
            timeout: Seconds to wait for running calls; None to wait for their end.
        """
        self._queue.clear()
        self._futures = {i: f for i, f in self._futures.items() if not f.cancel()}
        deadline = None if timeout is None else time.monotonic() + timeout
        outcomes: list[Outcome] = []
        while self._futures:
            outcomes += self._take_results(_list_done(self._futures))
            if not self._futures or (deadline is not None and time.monotonic() >= deadline):
                break
            time.sleep(_POLL_INTERVAL)
        return outcomes

    def close(self) -> None:
        """Cancel trials that have not started; the executor stays open."""
        self._queue.clear()
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()
        self._error = None

    def _raise_pending_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _take_results(self, done: Sequence[int]) -> list[Outcome]:
        """Return the outcomes of finished trials; keep the first exception for later, so that no outcome is lost."""
        outcomes: list[Outcome] = []
        for trial_id in done:
            try:
                outcomes.append(self._futures.pop(trial_id).result())
            except concurrent.futures.BrokenExecutor as error:
                self._error = self._error or _lost_worker(error)
            except BaseException as error:  # also a KeyboardInterrupt in a worker
                self._error = self._error or error
        return outcomes


def _lost_worker(error: Exception) -> EvaluatorError:
    lost = EvaluatorError(
        f"the executor has lost a worker ({error}). Its trials are still pending and are suggested again when the run "
        "resumes, unless you report a failure: observe(trial, failed='runtime') for a trial of `pending`. Run a "
        "function that can crash its process by isolated_function of baco_like.evaluators"
    )
    lost.__cause__ = error
    return lost


def _check_failures(failures: object) -> None:
    kinds = failures if isinstance(failures, (tuple, list)) else [None]
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise EvaluatorError(
            f"failures = {failures!r}: expected a tuple of exception types such as (ValueError,)"
        )


def _capacity(executor: SubmitsCalls | None) -> int:
    if executor is None:
        return 1
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise EvaluatorError(
            f"executor = {executor!r}: expected an executor such as ThreadPoolExecutor(4)"
        )
    return count_workers(executor)


def _wait_for_some(futures: Mapping[int, Any]) -> list[int]:
    """Wait until a trial is done; return the numbers of all finished trials in ascending order."""
    # `concurrent.futures.wait` accepts only its own futures; those of Dask, for example, are polled.
    native = all(isinstance(future, concurrent.futures.Future) for future in futures.values())
    first = concurrent.futures.FIRST_COMPLETED
    while True:
        done = _list_done(futures)
        if done:
            return done
        if native:
            concurrent.futures.wait(futures.values(), _WAIT_SLICE, return_when=first)
        else:
            time.sleep(_POLL_INTERVAL)


def _list_done(futures: Mapping[int, Any]) -> list[int]:
    return sorted(trial_id for trial_id, future in futures.items() if future.done())
