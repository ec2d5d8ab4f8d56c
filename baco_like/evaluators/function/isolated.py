"""Functions and evaluators apart: in processes of their own that they may crash, hang or fill with memory.

Other than with `FunctionEvaluator`, which calls a function here, what runs there is given by name:
``package.module:function``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes.worker_main import Report
from baco_like.evaluators.function.evaluator import Call
from baco_like.evaluators.function.failures import DEFAULT_FAILURES
from baco_like.evaluators.function.isolated_workers import WorkersEvaluator, answer
from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.repeats import KEYS as REPEATS_KEYS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.wrappers.repeated import RepeatedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import config_from_json
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

KEYS = ("kind", "function", "metric", "timeout", "memory", "workers", *REPEATS_KEYS)

_FAILURES = (*DEFAULT_FAILURES, MemoryError)
"""There is a limit of memory here, and nobody else's is short."""


def isolated_function(
    function: str,
    *,
    timeout: float,
    memory: int | None = None,
    workers: int = 1,
    repeats: int = 1,
    objective: str = "value",
    path: Sequence[str] = (),
) -> WorkersEvaluator:
    """Return an evaluator that calls a function in worker processes.

    The function gets the trial, as with `FunctionEvaluator`, and what it returns or raises is read likewise: a failure
    of the configuration is an outcome, any other exception ends the run.

    Args:
        function: ``package.module:function``.
        timeout: Seconds for one call.
        memory: Bytes of address space that a worker may have, what Python itself needs included; or None.
        workers: How many calls may run at once, each in a process of its own.
        repeats: Calls per trial; the median counts.
        objective: Which metric counts where the function returns a mapping.
        path: Folders to be searched for the module first.

    Raises:
        EvaluatorError: An argument has a wrong value.
    """
    if repeats < 1:
        raise EvaluatorError(f"repeats = {repeats}: expected 1 or more")
    settings = {
        "name": _named(function),
        "timeout": timeout,
        "repeats": repeats,
        "objective": objective,
        "path": list(path),
    }
    return WorkersEvaluator(
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
) -> WorkersEvaluator:
    """Return an evaluator that has other evaluators work in processes of their own: limits around any of them.

    Args:
        make: ``package.module:function`` that returns the evaluator; called once per process.
        arguments: Its keyword arguments, as JSON values.
        timeout: Seconds for one trial.
        memory: Bytes of address space that a worker may have, what Python itself needs included; or None.
        workers: How many trials may be evaluated at once, each in a process of its own.
        path: Folders to be searched for the module first.

    Raises:
        EvaluatorError: An argument has a wrong value.
    """
    settings = {"name": _named(make), "arguments": dict(arguments or {}), "path": list(path)}
    return WorkersEvaluator(
        f"{__name__}:serve_evaluator",
        settings,
        name=make,
        timeout=timeout,
        memory=memory,
        workers=workers,
    )


def serve_function(settings: Mapping[str, Any]) -> Callable[[Any, Report], Any]:
    """Return the handler that calls the function with configurations; this runs in the worker."""
    function = _imported(settings)

    def handle(request: Any, report: Report) -> Any:
        def limited(trial: Trial) -> Any:
            report.stage("run", settings["timeout"])
            return function(trial)

        trial = Trial(request["id"], config_from_json(request["config"]))
        call = Call(limited, settings["objective"], _FAILURES, settings["repeats"], 0)
        return answer(trial, call(trial))

    return handle


def serve_evaluator(settings: Mapping[str, Any]) -> Callable[[Any, Report], Any]:
    """Return the handler that hands configurations to the evaluator; this runs in the worker."""
    evaluator: Evaluator = _imported(settings)(**settings["arguments"])

    def handle(request: Any, report: Report) -> Any:
        report.stage("run")
        trial = Trial(request["id"], config_from_json(request["config"]))
        evaluator.submit(trial)
        (outcome,) = evaluator.wait()
        return answer(trial, outcome)

    return handle


def _named(function: str) -> str:
    if ":" not in function:
        raise EvaluatorError(f"{function!r}: expected 'package.module:function'")
    return function


def _imported(settings: Mapping[str, Any]) -> Any:
    sys.path[:0] = settings["path"]
    module, _, name = settings["name"].partition(":")
    return getattr(importlib.import_module(module), name)


def from_table(
    table: Table, space: Space, unit: str, folder: Path
) -> WorkersEvaluator | RepeatedEvaluator:
    """Make an evaluator from the ``[evaluator]`` table of a TOML file.

    Args:
        table: Keys as in `KEYS`.
        space: What the function is called with; not used.
        unit: The objective's unit; not used.
        folder: Searched first for the function's module.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
    """
    table.only(KEYS)
    function = table.text("function")
    if ":" not in function:
        raise table.wrong("function", function, "'module:function'")
    repeats = Repeats.from_table(table, 1)
    fixed = repeats.relative_error is None and repeats.slow_ratio is None
    evaluator = isolated_function(
        function,
        timeout=table.positive("timeout", 60.0),
        memory=table.bytes("memory") if table.has("memory") else None,
        workers=table.whole("workers", 1, low=1),
        repeats=repeats.least if fixed else 1,
        objective=table.text("metric", "value"),
        path=[str(folder)],
    )
    return evaluator if fixed else RepeatedEvaluator(evaluator, repeats)
