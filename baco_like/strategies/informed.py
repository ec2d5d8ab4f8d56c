"""Which strategies can use what is known of related tasks, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from baco_like.exceptions import StrategyError
from baco_like.strategies.auto import Auto
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.transferred import Task, Transferred
from baco_like.strategies.composite.interleaved import Interleaved
from baco_like.strategies.composite.phased import Phased
from baco_like.strategies.protocol import Strategy


def informed(strategy: Strategy[Any], tasks: Sequence[Task]) -> Strategy[Any]:
    """Return the strategy that also knows related tasks; the same one where there are none.

    Raises:
        StrategyError: It has no Gaussian process that they could inform.
    """
    if not tasks:
        return strategy
    if isinstance(strategy, Auto):
        return replace(strategy, tasks=tuple(tasks))
    if isinstance(strategy, Phased | Interleaved):
        return replace(strategy, then=informed(strategy.then, tasks))
    if isinstance(strategy, Bayesian):
        return Transferred(strategy, tuple(tasks))
    raise StrategyError(
        f"strategy {type(strategy).__name__} has no Gaussian process that a related task could inform; "
        "take strategy='auto', or WarmStart(..., mode='configs') for the task's best configurations"
    )
