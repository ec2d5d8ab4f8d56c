"""Tune several tasks together: one model of all tasks, and an acquisition function for the goal of the run."""

from baco_like.strategies.multi_task.strategy import MultiTask

__all__ = ["MultiTask"]
