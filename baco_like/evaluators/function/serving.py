"""The handlers of the worker processes of `baco_like.evaluators.function.isolated`.

A worker starts again after each crash, so this module imports neither spaces nor executors.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from baco_like.evaluators._processes.worker_main import Handler, Report
from baco_like.evaluators.function.call import DEFAULT_FAILURES, FunctionCall
from baco_like.journal.events import config_from_json, observed_event
from baco_like.records.trial import Outcome, Trial

if TYPE_CHECKING:
    from baco_like.evaluators.protocol import Evaluator

_FAILURES = (*DEFAULT_FAILURES, MemoryError)
"""A worker has a limit of memory, so that `MemoryError` is a failure of the configuration, not of the machine."""


def serve_function(settings: Mapping[str, Any]) -> Handler:
    """Return the worker's handler that calls the function."""
    function = _import(settings)

    def evaluate(trial: Trial, report: Report) -> Outcome:
        def call_with_limit(trial: Trial) -> Any:
            report.stage("run", settings["timeout"])
            return function(trial)

        objective, repeats = settings["objective"], settings["repeats"]
        return FunctionCall(call_with_limit, objective, _FAILURES, repeats, 0)(trial)

    return _make_handler(evaluate)


def serve_evaluator(settings: Mapping[str, Any]) -> Handler:
    """Return the worker's handler that passes configurations to the evaluator."""
    evaluator: Evaluator = _import(settings)(**settings["arguments"])

    def evaluate(trial: Trial, report: Report) -> Outcome:
        report.stage("run")
        evaluator.submit(trial)
        (outcome,) = evaluator.wait()
        return outcome

    return _make_handler(evaluate)


def _make_handler(evaluate: Callable[[Trial, Report], Outcome]) -> Handler:
    def handle(request: Any, report: Report) -> Any:
        config = config_from_json(request["config"])
        trial = Trial(request["id"], config, task=request.get("task"))
        outcome = evaluate(trial, report)
        row = observed_event([trial.with_outcome(outcome)])["outcomes"][0]
        return {"outcome": row, "problem": outcome.problem}

    return handle


def _import(settings: Mapping[str, Any]) -> Any:
    sys.path[:0] = settings["path"]
    module, _, name = settings["name"].partition(":")
    return getattr(importlib.import_module(module), name)
