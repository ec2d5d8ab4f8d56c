"""A Python function as an objective, called in this process or by an executor."""

from __future__ import annotations

import concurrent.futures
import os
import secrets
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._checks import whole_number
from baco_like.evaluators.executors.futures import (
    FuturesEvaluator,
    SubmitsCalls,
    WorkerCount,
    call_in_worker,
    lost_worker,
    without_tag,
)
from baco_like.exceptions import EvaluatorError, Infeasible
from baco_like.records.reading import finite_number, outcome_from, outcome_of_exception
from baco_like.records.trial import Outcome, Status, Trial

DEFAULT_FAILURES: tuple[type[BaseException], ...] = (
    Infeasible,
    subprocess.SubprocessError,
    TimeoutError,
    concurrent.futures.TimeoutError,  # a separate class in Python 3.10
)
"""Exceptions of these types are failures of the configuration by default."""

_TIMEOUTS = (subprocess.TimeoutExpired, TimeoutError, concurrent.futures.TimeoutError)

# Exceptions of GPU packages are identified by name, so that these packages need not be imported.
_COMPILE_ERRORS: Mapping[str, Set[str]] = {
    "cupy": {"CompileException"},
    "cupy_backends": {"NVRTCError"},
    "numba": {"LinkerError", "NvvmError"},
    "pycuda": {"CompileError"},
    "triton": {"CompilationError", "PTXASError"},
}
"""Names of exception classes that mean ``compile``, by top-level package."""

_RUNTIME_ERRORS: Mapping[str, Set[str]] = {
    "cupy": {"OutOfMemoryError"},
    "cupy_backends": {"CUDADriverError", "CUDARuntimeError"},
    "halide": {"HalideError"},
    "numba": {"CudaAPIError"},
    "pycuda": {"LaunchError", "LogicError", "MemoryError", "RuntimeError"},
    "pyopencl": {"LogicError", "MemoryError", "RuntimeError"},
    "torch": {"AcceleratorError", "OutOfMemoryError"},
    "triton": {"OutOfResources"},
}
"""Names of exception classes that mean ``runtime``, by top-level package."""


def failure_word(error: BaseException, failures: tuple[type[BaseException], ...]) -> str | None:
    """Return the failure word of an exception, or None if it is not a failure of the configuration.

    Args:
        error: The exception. GPU errors and `Infeasible` always count.
        failures: Additional types that count, subclasses included.
    """
    for base in type(error).__mro__:
        package = base.__module__.split(".", 1)[0]
        if base.__name__ in _COMPILE_ERRORS.get(package, ()):
            return "compile"
        if base.__name__ in _RUNTIME_ERRORS.get(package, ()):
            return "runtime"
    if isinstance(error, Infeasible):
        return error.failed
    if not isinstance(error, failures):
        return None
    if isinstance(error, _TIMEOUTS):
        return "timeout"
    return "compile" if "compil" in type(error).__name__.lower() else "runtime"


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
                seconds = {"run": time.perf_counter() - started}
                extra = {"seconds": seconds, **_numbers_so_far(values, self.objective)}
                return outcome_of_exception(trial.id, error, word, extra=extra)
        extra = {"seconds": {"run": time.perf_counter() - started}}
        return outcome_from(trial.id, _join(values, self.objective), self.objective, extra=extra)


def _numbers_so_far(values: list[Any], objective: str) -> dict[str, Any]:
    """Return the finite numbers that earlier repeats of a failed trial have returned."""
    joined = _join(values, objective)
    metrics = dict(joined) if isinstance(joined, Mapping) else {objective: joined}
    numbers = {str(name): _finite_numbers(value) for name, value in metrics.items()}
    numbers = {name: values for name, values in numbers.items() if values}
    extra = {"repeats": numbers.pop(objective, []), "metrics": numbers}
    return {key: kept for key, kept in extra.items() if kept}


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


class FunctionEvaluator(FuturesEvaluator):
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
        self._executor = executor
        self._queue: deque[Trial] = deque()
        self._session = secrets.token_hex(4)
        if max_pending is None and executor is not None:
            super().__init__(WorkerCount(executor))
        else:
            super().__init__(max_pending or 1)

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
            self._pending[trial.id] = self._executor.submit(
                call_in_worker, os.getpid(), self._session, self._call, without_tag(trial)
            )
        except concurrent.futures.BrokenExecutor as error:
            raise lost_worker(error) from error

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
        super().close()
