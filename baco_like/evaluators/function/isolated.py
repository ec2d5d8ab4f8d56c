"""Functions and evaluators in isolated worker processes, which may crash, hang or run out of memory.

`FunctionEvaluator` calls a function object in this process. Here the function is given by its name,
``package.module:function``, and imported in the worker.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baco_like._checks import whole_number
from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.function.evaluator import FunctionCall
from baco_like.evaluators.function.failures import DEFAULT_FAILURES
from baco_like.evaluators.function.isolated_workers import IsolatedEvaluator, to_answer
from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.repeats import REPEATS_KEYS, Repeats
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.wrappers.repeated import RepeatedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import config_from_json
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

KEYS = ("kind", "function", "metric", "timeout", "memory", "workers", *REPEATS_KEYS)

_FAILURES = (*DEFAULT_FAILURES, MemoryError)
"""A worker has a limit of memory, so that `MemoryError` is a failure of the configuration, not of the machine."""


def isolated_function(
    function: str,
    *,
    timeout: float,
    memory: int | None = None,
    workers: int = 1,
    repeats: int = 1,
    objective: str = "value",
    path: Sequence[str] = (),
) -> IsolatedEvaluator:
    """Return an evaluator that calls a function in worker processes.

    The function gets the trial, and its results and exceptions are read as by `FunctionEvaluator`.

    Args:
        function: ``package.module:function``.
        timeout: Limit of one call in seconds.
        memory: Limit of the address space of a worker in bytes, including Python's own memory; or None.
        workers: Number of processes, each of which runs one call at a time.
        repeats: Calls per trial; the median counts.
        objective: The metric that counts if the function returns a mapping.
        path: Folders that are searched first for the module.

    Raises:
        EvaluatorError: An argument has a wrong value.
    """
    settings = {
        "name": _check_name(function),
        "timeout": timeout,
        "repeats": whole_number("repeats", repeats, 1, EvaluatorError),
        "objective": objective,
        "path": list(path),
    }
    return IsolatedEvaluator(
        f"{__name__}:serve_function",
        settings,
        name=function,
        timeout=timeout,
        memory=memory,
        workers=workers,
    )


def isolated_evaluator(
    make: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    timeout: float,
    memory: int | None = None,
    workers: int = 1,
    path: Sequence[str] = (),
) -> IsolatedEvaluator:
    """Return an evaluator that runs another evaluator in worker processes, with limits of time and memory.

    Args:
        make: ``package.module:function`` that returns the evaluator; called once per process.
        arguments: Keyword arguments of this function, as JSON values.
        timeout: Limit of one trial in seconds.
        memory: Limit of the address space of a worker in bytes, including Python's own memory; or None.
        workers: Number of processes, each of which evaluates one trial at a time.
        path: Folders that are searched first for the module.

    Raises:
        EvaluatorError: An argument has a wrong value.
    """
    settings = {"name": _check_name(make), "arguments": dict(arguments or {}), "path": list(path)}
    return IsolatedEvaluator(
        f"{__name__}:serve_evaluator",
        settings,
        name=make,
        timeout=timeout,
        memory=memory,
        workers=workers,
    )


def serve_function(settings: Mapping[str, Any]) -> Callable[[Any, Report], Any]:
    """Return the worker's handler that calls the function."""
    function = _import(settings)

    def handle(request: Any, report: Report) -> Any:
        def call_with_limit(trial: Trial) -> Any:
            report.stage("run", settings["timeout"])
            return function(trial)

        trial = Trial(request["id"], config_from_json(request["config"]))
        call = FunctionCall(
            call_with_limit, settings["objective"], _FAILURES, settings["repeats"], 0
        )
        return to_answer(trial, call(trial))

    return handle


def serve_evaluator(settings: Mapping[str, Any]) -> Callable[[Any, Report], Any]:
    """Return the worker's handler that passes configurations to the evaluator."""
    evaluator: Evaluator = _import(settings)(**settings["arguments"])

    def handle(request: Any, report: Report) -> Any:
        report.stage("run")
        trial = Trial(request["id"], config_from_json(request["config"]))
        evaluator.submit(trial)
        (outcome,) = evaluator.wait()
        return to_answer(trial, outcome)

    return handle


def _check_name(function: str) -> str:
    if ":" not in function:
        raise EvaluatorError(f"{function!r}: expected 'package.module:function'")
    return function


def _import(settings: Mapping[str, Any]) -> Any:
    sys.path[:0] = settings["path"]
    module, _, name = settings["name"].partition(":")
    return getattr(importlib.import_module(module), name)


def from_table(
    table: Table, space: Space, unit: str, folder: Path
) -> IsolatedEvaluator | RepeatedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a TOML file describes.

    Args:
        table: Keys as in `KEYS`.
        space: Not used: a function accepts any parameters.
        unit: Not used: a function returns values in any unit.
        folder: Folder of the TOML file, which is searched first for the function's module.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
    """
    table.only(KEYS)
    function = table.text("function")
    if ":" not in function:
        raise table.error("function", function, "'module:function'")
    repeats = Repeats.from_table(table, 1)
    is_fixed = repeats.relative_error is None and repeats.slow_ratio is None
    evaluator = isolated_function(
        function,
        timeout=table.positive("timeout", 60.0),
        memory=table.bytes("memory") if table.has("memory") else None,
        workers=table.whole("workers", 1, low=1),
        repeats=repeats.least if is_fixed else 1,
        objective=table.text("metric", "value"),
        path=[str(folder)],
    )
    return evaluator if is_fixed else RepeatedEvaluator(evaluator, repeats)
