"""A Python function as an objective, called here or by an executor."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baco_like.evaluators.executors.protocol import SubmitsCalls, workers_of
from baco_like.evaluators.function.failures import DEFAULT_FAILURES, failure_word
from baco_like.exceptions import EvaluatorError
from baco_like.records.reading import finite_number, outcome_from, outcome_of_exception
from baco_like.records.trial import Outcome, Status, Trial

__all__ = ["DEFAULT_FAILURES", "FunctionEvaluator", "SubmitsCalls"]

_POLL = 0.01
"""Seconds between two looks at futures that are not of `concurrent.futures`."""

_SLICE = 0.5
"""Seconds of one wait for the others: Ctrl-C that comes just before a wait is seen after it."""


@dataclass(frozen=True)
class Call:
    """What is done for a trial; it travels to the workers, which must be able to import ``fn``.

    Attributes:
        fn: Called with the trial.
        objective: Which metric counts where it returns a mapping.
        failures: Exception types that are failures of the configuration.
        repeats: Calls per trial.
        retries: How often a failed trial is tried again.
    """

    fn: Callable[[Trial], Any]
    objective: str
    failures: tuple[type[BaseException], ...]
    repeats: int
    retries: int

    def __call__(self, trial: Trial) -> Outcome:
        outcome = self._once(trial)
        for _ in range(self.retries):
            if outcome.status is not Status.FAILED:
                break
            outcome = self._once(trial)
        return outcome

    def _once(self, trial: Trial) -> Outcome:
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
                    **_kept(values, self.objective),
                }
                return outcome_of_exception(trial.id, error, word, extra=extra)
        extra = {"seconds": {"run": time.perf_counter() - started}}
        return outcome_from(trial.id, _joined(values, self.objective), self.objective, extra=extra)


def _kept(values: list[Any], objective: str) -> dict[str, Any]:
    """Return what earlier repeats of a failed trial have measured, as far as it is numbers."""
    flat = _joined(values, objective) if values else []
    metrics = dict(flat) if isinstance(flat, Mapping) else {objective: flat}
    numbers = {str(name): _numbers(value) for name, value in metrics.items()}
    repeats = numbers.pop(objective, [])
    others = {name: found for name, found in numbers.items() if found}
    return {**({"repeats": repeats} if repeats else {}), **({"metrics": others} if others else {})}


def _numbers(value: Any) -> list[float]:
    found = map(finite_number, value if isinstance(value, list) else [value])
    return [number for number in found if number is not None]


def _joined(values: list[Any], objective: str) -> Any:
    """Return the results of several calls as one: a list of repeats, or a mapping of such.

    A metric may be missing from some of them; where the objective is, there is None in its place.
    """
    if len(values) == 1:
        return values[0]
    if not all(isinstance(value, Mapping) for value in values):
        return _chained(values)
    names = dict.fromkeys(name for value in values for name in value)
    found = {name: _chained([v[name] for v in values if name in v]) for name in names}
    if objective in names:
        found[objective] = _chained([value.get(objective) for value in values])
    return found


def _chained(values: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            joined += value.tolist()
        else:
            joined += value if isinstance(value, (list, tuple)) else [value]
    return joined


class FunctionEvaluator:
    """Calls a function with a trial, a read-only mapping: ``trial["tile"]``, ``kernel(**trial)``.

    It returns what `outcome_from` reads: a number, a list of repeats, or a mapping of metrics with
    the objective among them; None and NaN are failures. An exception that is a failure of the
    configuration becomes the outcome, any other comes out of `wait` and ends the run; what other
    trials have returned comes first.

    Args:
        fn: The function.
        objective: Which metric counts where it returns a mapping.
        failures: Exception types that are failures of the configuration; errors of GPU packages
            always are, and `Infeasible` is.
        repeats: Calls per trial; the median counts and all values are kept.
        retries: How often a failed trial is tried again before it counts as failed.
        executor: Runs the calls; None calls here, one at a time, in `wait`. It is the caller's: it
            is not shut down.
        max_pending: How many trials are in flight at most; by default the number of the executor's
            workers.
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
        _check_counts(fn, repeats, retries, max_pending)
        _check_failures(failures)
        self._call = Call(fn, objective, tuple(failures), repeats, retries)
        self._executor = executor
        workers = _capacity(executor)
        self._capacity = workers if max_pending is None else max_pending
        self._queue: deque[Trial] = deque()
        self._futures: dict[int, Any] = {}
        self._error: BaseException | None = None

    @property
    def capacity(self) -> int:
        """How many trials may be in flight at once."""
        return self._capacity

    def submit(self, trial: Trial) -> None:
        """Start the evaluation, or queue it where there is no executor.

        Raises:
            EvaluatorError: The executor has lost a worker.
            Exception: What the next `wait` would raise; nothing is started then.
        """
        self._raise_kept()
        shipped = replace(trial, config=dict(trial.config), tag=None, outcome=None)
        if self._executor is None:
            self._queue.append(shipped)
            return
        try:
            self._futures[trial.id] = self._executor.submit(self._call, shipped)
        except concurrent.futures.BrokenExecutor as error:
            raise _lost_worker(error) from error

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one trial is done; outcomes come in the order of trial numbers.

        Raises:
            EvaluatorError: Nothing was submitted, or the executor has lost a worker.
            Exception: What the function raised, if it is no failure of the configuration. Where
                other trials are done at the same moment, their outcomes are returned and the next
                call raises.
        """
        self._raise_kept()
        if self._queue:
            return [self._call(self._queue.popleft())]
        if not self._futures:
            raise EvaluatorError("wait() without a submitted trial")
        outcomes = self._results(_some_done(self._futures))
        if not outcomes:
            self._raise_kept()
        return outcomes

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Take back what has not started, and return the outcomes not returned yet.

        Args:
            timeout: Seconds to wait for calls that are running; None is as long as they take.
        """
        self._queue.clear()
        self._futures = {i: f for i, f in self._futures.items() if not f.cancel()}
        deadline = None if timeout is None else time.monotonic() + timeout
        outcomes: list[Outcome] = []
        while self._futures:
            outcomes += self._results(_done(self._futures))
            if not self._futures or (deadline is not None and time.monotonic() >= deadline):
                break
            time.sleep(_POLL)
        return outcomes

    def close(self) -> None:
        """Take back what has not started; the executor stays open."""
        self._queue.clear()
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()
        self._error = None

    def _raise_kept(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _results(self, done: Sequence[int]) -> list[Outcome]:
        """Return the outcomes of these trials; the first exception among them is kept for later."""
        outcomes: list[Outcome] = []
        for trial_id in done:
            try:
                outcomes.append(_result(self._futures.pop(trial_id)))
            except BaseException as error:  # Ctrl-C in a worker too ends the run, but not before
                self._error = self._error or error
        return outcomes


def _result(future: Any) -> Outcome:
    try:
        outcome: Outcome = future.result()
    except concurrent.futures.BrokenExecutor as error:
        raise _lost_worker(error) from error
    return outcome


def _lost_worker(error: Exception) -> EvaluatorError:
    return EvaluatorError(
        f"the executor has lost a worker ({error}); what was in flight is pending and comes first when the run goes "
        "on, unless its failure is told: observe(trial, failed='runtime') for a trial of `pending`. A function that "
        "can crash its process is better run apart (evaluators.isolated)"
    )


def _check_counts(fn: object, repeats: int, retries: int, max_pending: int | None) -> None:
    if not callable(fn):
        raise EvaluatorError(f"fn = {fn!r} is not callable")
    for name, count, low in (
        ("repeats", repeats, 1),
        ("retries", retries, 0),
        ("max_pending", max_pending, 1),
    ):
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or count < low
        ):
            raise EvaluatorError(f"{name} = {count!r}: expected a whole number, {low} or more")


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
    return workers_of(executor)


def _some_done(futures: Mapping[int, Any]) -> list[int]:
    """Return the numbers of all trials that are done, in order, once there is one."""
    native = all(isinstance(future, concurrent.futures.Future) for future in futures.values())
    first = concurrent.futures.FIRST_COMPLETED
    while True:
        done = _done(futures)
        if done:
            return done
        if native:
            concurrent.futures.wait(futures.values(), _SLICE, return_when=first)
        else:
            time.sleep(_POLL)


def _done(futures: Mapping[int, Any]) -> list[int]:
    return sorted(trial_id for trial_id, future in futures.items() if future.done())
