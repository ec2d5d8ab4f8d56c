"""A trial as a row of a table."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from baco_like.records.trial import Trial

OURS = ("status", "failed", "message", "bound", "sem", "repeats", "origin")
"""The columns between the objective and the metrics, in this order."""


MARK = "trial_"
"""Prefix of our columns whose name is also the name of a parameter."""


def column(name: str, parameters: Container[str]) -> str:
    """Return the name of one of our columns, with the prefix `MARK` if a parameter has the same name."""
    return f"{MARK}{name}" if name in parameters else name


def table_row(trial: Trial, objective: str) -> dict[str, Any]:
    """Return the row of an observed trial: id, parameters, value, status, failure, spread, origin and metrics."""
    ours = {
        objective: trial.value,
        "status": trial.status.value,
        "failed": trial.failure,
        "message": trial.message,
        "bound": trial.bound,
        "sem": trial.sem,
        "repeats": len(trial.repeats),
        "origin": trial.origin,
        **trial.metrics,
    }
    config = trial.config
    named = {column(name, config): value for name, value in ours.items()}
    return {column("id", config): trial.id, **config, **named}
