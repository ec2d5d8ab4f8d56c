"""A Python function as an objective: called in this process, by an executor, or in isolated worker processes."""

from baco_like.evaluators.function.evaluator import DEFAULT_FAILURES, FunctionEvaluator
from baco_like.evaluators.function.isolated import isolated_evaluator, isolated_function

__all__ = ["DEFAULT_FAILURES", "FunctionEvaluator", "isolated_evaluator", "isolated_function"]
