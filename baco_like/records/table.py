"""A trial as a row of a table."""

from __future__ import annotations

from typing import Any

from baco_like.records.trial import Trial

OURS = ("status", "failed", "message", "bound", "sem", "repeats", "origin")
"""The columns between the objective and the metrics."""


def table_row(trial: Trial, objective: str) -> dict[str, Any]:
    """Return id, parameters, value, status, failure, spread, origin and metrics of an observed trial.

    A column of ours that has a parameter's name begins with ``trial_`` instead.
    """
    outcome = trial.outcome
    ours = {
        objective: trial.value,
        "status": trial.status.value,
        "failed": trial.failed,
        "message": trial.message,
        "bound": trial.bound,
        "sem": trial.sem,
        "repeats": len(trial.repeats),
        "origin": trial.origin,
        **(outcome.metrics if outcome is not None else {}),
    }

    def column(name: str) -> str:
        return f"trial_{name}" if name in trial.config else name

    return {column("id"): trial.id, **trial.config, **{column(k): v for k, v in ours.items()}}
