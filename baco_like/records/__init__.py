"""Frozen records of a run: proposals, trials, outcomes, observations, and the history of them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.records.aim import Aim
    from baco_like.records.confirmation import Confirmation, ConfirmationPlan, read_confirmation
    from baco_like.records.covering import Cover, Goal, read_goal
    from baco_like.records.history import History, Noise, StopRule
    from baco_like.records.limits import LIMIT, AnyLimit, Limits, RunLimits, SoftLimit
    from baco_like.records.objective import Direction, Measurement, Objective, sign_of
    from baco_like.records.race import Speedup
    from baco_like.records.reading import outcome_from, outcome_of_exception
    from baco_like.records.regression import Loss, RegressionRule
    from baco_like.records.rows import row_keys
    from baco_like.records.selector import TaskChoice, TaskRecommendation, TaskSelector
    from baco_like.records.trial import FAILURE_WORDS, Observation, Outcome, Proposal, Status, Trial
    from baco_like.records.workers import Utilisation, read_utilisation

__all__ = [
    "FAILURE_WORDS",
    "LIMIT",
    "Aim",
    "AnyLimit",
    "Confirmation",
    "ConfirmationPlan",
    "Cover",
    "Direction",
    "Goal",
    "History",
    "Limits",
    "Loss",
    "Measurement",
    "Noise",
    "Objective",
    "Observation",
    "Outcome",
    "Proposal",
    "RegressionRule",
    "RunLimits",
    "SoftLimit",
    "Speedup",
    "Status",
    "StopRule",
    "TaskChoice",
    "TaskRecommendation",
    "TaskSelector",
    "Trial",
    "Utilisation",
    "outcome_from",
    "outcome_of_exception",
    "read_confirmation",
    "read_goal",
    "read_utilisation",
    "row_keys",
    "sign_of",
]

_MODULES = (
    "trial",
    "reading",
    "objective",
    "limits",
    "race",
    "regression",
    "workers",
    "rows",
    "confirmation",
    "covering",
    "aim",
    "history",
    "selector",
)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
