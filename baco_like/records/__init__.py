"""Frozen records of a run: proposals, trials, outcomes, observations, and the history of them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.records.aim import Aim
    from baco_like.records.confirmation import Confirmation, read_confirmation
    from baco_like.records.confirmation_race import Speedup
    from baco_like.records.covering import Cover
    from baco_like.records.history import History, StopRule
    from baco_like.records.objective import Measurement, Objective
    from baco_like.records.regression import RegressionRule
    from baco_like.records.sources import read_sources
    from baco_like.records.task_selector import TaskRecommendation
    from baco_like.records.trial import FAILURE_WORDS, Observation, Outcome, Proposal, Status, Trial
    from baco_like.records.workers import Utilisation, read_utilisation

__all__ = [
    "FAILURE_WORDS",
    "Aim",
    "Confirmation",
    "Cover",
    "History",
    "Measurement",
    "Objective",
    "Observation",
    "Outcome",
    "Proposal",
    "RegressionRule",
    "Speedup",
    "Status",
    "StopRule",
    "TaskRecommendation",
    "Trial",
    "Utilisation",
    "read_confirmation",
    "read_sources",
    "read_utilisation",
]

_MODULES = (
    "trial",
    "objective_values",
    "objective",
    "confirmation_race",
    "regression",
    "workers",
    "rows",
    "confirmation",
    "covering",
    "aim",
    "history",
    "sources",
    "task_selector",
)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
