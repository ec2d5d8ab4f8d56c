"""Evaluators around evaluators: each adds one feature to any other evaluator, and they can be nested."""

from baco_like.evaluators.wrappers.cached import CachedEvaluator
from baco_like.evaluators.wrappers.checked import CheckedEvaluator
from baco_like.evaluators.wrappers.repeated import RepeatedEvaluator
from baco_like.evaluators.wrappers.slotted import SlotsEvaluator

__all__ = ["CachedEvaluator", "CheckedEvaluator", "RepeatedEvaluator", "SlotsEvaluator"]
