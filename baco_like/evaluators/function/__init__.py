"""A Python function as an objective: called in this process, by an executor, or in isolated worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators.function.call import DEFAULT_FAILURES
    from baco_like.evaluators.function.evaluator import FunctionEvaluator
    from baco_like.evaluators.function.isolated import isolated_evaluator, isolated_function

__all__ = ["DEFAULT_FAILURES", "FunctionEvaluator", "isolated_evaluator", "isolated_function"]

_MODULES = (
    "call",
    "evaluator",
    "isolated",
)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
