"""One evaluation by a Python function: its calls, and which exceptions are failures of the configuration.

The workers of isolated functions import this module, so it does not import executors.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like.evaluators._processes.worker_main import Handler, Report
from baco_like.exceptions import Infeasible
from baco_like.journal.events import config_from_json, outcome_row
from baco_like.records.objective_values import finite_number, outcome_from, outcome_of_exception
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
_ERRORS: Mapping[str, Mapping[str, str]] = {
    "cupy": {"compile": "CompileException", "runtime": "OutOfMemoryError"},
    "cupy_backends": {"compile": "NVRTCError", "runtime": "CUDADriverError CUDARuntimeError"},
    "halide": {"runtime": "HalideError"},
    "numba": {"compile": "LinkerError NvvmError", "runtime": "CudaAPIError"},
    "pycuda": {
        "compile": "CompileError",
        "runtime": "LaunchError LogicError MemoryError RuntimeError",
    },
    "pyopencl": {"runtime": "LogicError MemoryError RuntimeError"},
    "torch": {"runtime": "AcceleratorError OutOfMemoryError"},
    "triton": {"compile": "CompilationError PTXASError", "runtime": "OutOfResources"},
}
"""Names of exception classes by top-level package and by the failure word that they mean."""


def failure_word(error: BaseException, failures: tuple[type[BaseException], ...]) -> str | None:
    """Return the failure word of an exception, or None if it is not a failure of the configuration.

    Args:
        error: The exception. GPU errors and `Infeasible` always count.
        failures: Additional types that count, subclasses included.
    """
    for base in type(error).__mro__:
        package = base.__module__.split(".", 1)[0]
        for word, names in _ERRORS.get(package, {}).items():
            if base.__name__ in names.split():
                return word
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


_FAILURES = (*DEFAULT_FAILURES, MemoryError)
"""A worker has a limit of memory, so that `MemoryError` is a failure of the configuration, not of the machine."""


def serve_function(settings: Mapping[str, Any]) -> Handler:
    """Return the worker's handler that calls the function."""
    function = _import(settings)

    def handle(request: Any, report: Report) -> Any:
        def call_with_limit(trial: Trial) -> Any:
            report.stage("run", settings["timeout"])
            return function(trial)

        objective, repeats = settings["objective"], settings["repeats"]
        call = FunctionCall(call_with_limit, objective, _FAILURES, repeats, 0)
        config = config_from_json(request["config"])
        trial = Trial(request["id"], config, task=request.get("task"))
        outcome = call(trial)
        return {"outcome": outcome_row(trial, outcome), "problem": outcome.problem}

    return handle


def _import(settings: Mapping[str, Any]) -> Any:
    sys.path[:0] = settings["path"]
    module, _, name = settings["name"].partition(":")
    return getattr(importlib.import_module(module), name)
