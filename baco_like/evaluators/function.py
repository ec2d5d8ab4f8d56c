"""A Python function as an objective, called here or by an executor."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from baco_like.evaluators.failures import DEFAULT_FAILURES, failure_word
from baco_like.exceptions import EvaluatorError
from baco_like.records.reading import outcome_from, outcome_of_exception
from baco_like.records.trial import Outcome, Status, Trial

__all__ = ["DEFAULT_FAILURES", "FunctionEvaluator", "SubmitsCalls"]

_POLL = 0.01
"""Seconds between two looks at futures that are not of `concurrent.futures`."""


class SubmitsCalls(Protocol):
    """What is needed of an executor; its futures need ``done()``, ``result()`` and ``cancel()``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start a call and return its future."""


@dataclass(frozen=True)
class _Call:
    """What is done for a trial; it travels to the workers, which must be able to import ``fn``."""

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
                extra = {"seconds": {"run": time.perf_counter() - started}}
                return outcome_of_exception(trial.id, error, word, extra=extra)
        extra = {"seconds": {"run": time.perf_counter() - started}}
        return outcome_from(trial.id, _joined(values), self.objective, extra=extra)


def _joined(values: list[Any]) -> Any:
    """Return the results of several calls as one: a list of repeats, or a mapping of such."""
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, Mapping) for value in values):
        names = [name for name in values[0] if all(name in value for value in values)]
        return {name: _joined([value[name] for value in values]) for name in names}
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
    configuration becomes the outcome, any other comes out of `wait` and ends the run.

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
        self._call = _Call(fn, objective, tuple(failures), repeats, retries)
        self._executor = executor
        self._capacity = max_pending if max_pending is not None else _workers(executor)
        self._queue: deque[Trial] = deque()
        self._futures: dict[int, Any] = {}

    @property
    def capacity(self) -> int:
        """How many trials may be in flight at once."""
        return self._capacity

    def submit(self, trial: Trial) -> None:
        """Start the evaluation, or queue it where there is no executor."""
        shipped = replace(trial, config=dict(trial.config), tag=None, outcome=None)
        if self._executor is None:
            self._queue.append(shipped)
        else:
            self._futures[trial.id] = self._executor.submit(self._call, shipped)

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one trial is done; outcomes come in the order of trial numbers.

        Raises:
            EvaluatorError: Nothing was submitted, or the executor has lost a worker.
            Exception: What the function raised, if it is no failure of the configuration.
        """
        if self._queue:
            return [self._call(self._queue.popleft())]
        if not self._futures:
            raise EvaluatorError("wait() without a submitted trial")
        done = _some_done(self._futures)
        return [self._result(trial_id) for trial_id in done]

    def close(self) -> None:
        """Take back what has not started; the executor stays open."""
        self._queue.clear()
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()

    def _result(self, trial_id: int) -> Outcome:
        future = self._futures.pop(trial_id)
        try:
            outcome: Outcome = future.result()
        except concurrent.futures.BrokenExecutor as error:
            raise EvaluatorError(
                f"the executor has lost a worker ({error}); a function that can crash its process "
                "is better run as a command (evaluators.command)"
            ) from error
        return outcome


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


def _workers(executor: SubmitsCalls | None) -> int:
    if executor is None:
        return 1
    workers = getattr(executor, "_max_workers", None)
    return workers if isinstance(workers, int) and workers > 0 else os.cpu_count() or 1


def _some_done(futures: Mapping[int, Any]) -> list[int]:
    """Return the numbers of all trials that are done, in order, once there is one."""
    if all(isinstance(future, concurrent.futures.Future) for future in futures.values()):
        first = concurrent.futures.FIRST_COMPLETED
        concurrent.futures.wait(futures.values(), return_when=first)
    while True:
        done = sorted(trial_id for trial_id, future in futures.items() if future.done())
        if done:
            return done
        time.sleep(_POLL)
