"""Evaluate on other machines: any executor with the interface of `concurrent.futures` runs evaluators."""

from baco_like.evaluators.executors.evaluator import ExecutorEvaluator
from baco_like.evaluators.executors.futures import LostWorker
from baco_like.evaluators.executors.jobs import SubmititExecutor
from baco_like.evaluators.executors.pools import ProcessLanes, RayExecutor

__all__ = ["ExecutorEvaluator", "LostWorker", "ProcessLanes", "RayExecutor", "SubmititExecutor"]
