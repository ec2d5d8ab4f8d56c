"""Observed trials as rows of a table, for data frames and files."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from baco_like.records.objective_values import finite_number
from baco_like.records.trial import Trial
from baco_like.records.workers import WORKER

OURS = ("status", "failed", "message", "bound", "sem", "repeats", "origin")
"""The columns of a table between the objective and the times, in this order."""

TIMES = ("worker", "started", "ended")
"""The columns after `OURS`: who evaluated the trial, and when (Unix seconds). Seconds of stages and metrics follow."""

STAGE = "seconds_"
"""Prefix of the columns with the seconds of the stages."""

BUILD = "build_"
"""Prefix of the columns with the build metrics."""

MARK = "trial_"
"""Prefix of our columns whose name is also the name of a parameter, and of metrics with the name of any column."""


_CELL = (str, float, int)


def column(name: str, parameters: Container[str]) -> str:
    """Return the name of one of our columns, with the prefix `MARK` if a parameter has the same name."""
    return f"{MARK}{name}" if name in parameters else name


@lru_cache(maxsize=16)  # the rows of a table mostly have the same parameters
def own_columns(
    parameters: tuple[str, ...], objective: str, stages: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the columns of ``id``, `OURS`, `TIMES` and stages: with `MARK` until no parameter and no value has it."""
    taken = {*parameters, objective, column(objective, parameters)}
    names = ("id", *OURS, *TIMES, *(f"{STAGE}{stage}" for stage in stages))
    return {name: _unused(name, taken) for name in names}


def metric_column(name: str, parameters: tuple[str, ...], objective: str) -> str:
    """Return the name of a metric's column, with the prefix `MARK` until no other column has it."""
    own = own_columns(parameters, objective).values()
    return _unused(
        name, {*own, *parameters, objective, column(objective, parameters)}, (STAGE, BUILD)
    )


def _unused(name: str, taken: Container[str], prefix: str | tuple[str, ...] = ()) -> str:
    """Return the name with `MARK` before it until it is not taken and does not start with the prefix."""
    while name in taken or name.startswith(prefix):
        name = f"{MARK}{name}"
    return name


def table_rows(
    trials: Sequence[Trial], objective: str, names: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of observed trials: id, parameters, value, status, failure, spread, origin, times and metrics.

    Args:
        trials: The trials.
        objective: Name of the value.
        names: Parameters that get a cell even where they are inactive, None.
    """
    names = tuple(names)
    stages = tuple(dict.fromkeys(stage for trial in trials for stage in trial.seconds))
    return [_row(trial, objective, names, stages) for trial in trials]


def _row(
    trial: Trial, objective: str, names: tuple[str, ...], stages: tuple[str, ...]
) -> dict[str, Any]:
    config = {**dict.fromkeys(names), **trial.config}
    columns = own_columns(tuple(config), objective, stages)
    ours = {
        "status": trial.status.value,
        "failed": trial.failure,
        "message": trial.message,
        "bound": trial.bound,
        "sem": trial.sem,
        "repeats": len(trial.repeats),
        "origin": trial.origin,
        **trial_times(trial),
        **{f"{STAGE}{stage}": trial.seconds.get(stage) for stage in stages},
    }
    row = {columns["id"]: trial.id, **config, column(objective, config): trial.value}
    row |= {columns[name]: value for name, value in ours.items()}
    for name, value in trial.metrics.items():
        row[_unused(name, row, (STAGE, BUILD))] = value
    for name, value in trial.build.items():
        row[_unused(f"{BUILD}{name}", row)] = value
    return row


def trial_times(trial: Trial) -> dict[str, Any]:
    """Return the columns `TIMES` of a trial; unknown ones are None.

    A worker process notes the time of the evaluation itself. Else a trial begins with its suggestion and ends when its
    outcome is recorded.
    """
    record = trial.extra.get(WORKER)
    if not isinstance(record, Mapping):
        record = {}
    started, seconds = finite_number(record.get("start")), finite_number(record.get("seconds"))
    ended = None if started is None or seconds is None else started + seconds
    known = (record.get("name"), started, ended)
    noted = (trial.worker, trial.started, trial.ended)
    return {
        name: next((v for v in (own, other, trial.extra.get(name)) if isinstance(v, _CELL)), None)
        for name, own, other in zip(TIMES, known, noted, strict=True)
    }


def with_times(trial: Trial, extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the extra values of an outcome with the times of its trial, as files of results keep them."""
    times = {name: value for name, value in trial_times(trial).items() if value is not None}
    return {**times, **extra}
