"""Read the data of a warm start: files, optimizers, tables and lists."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from baco_like.exceptions import RunFileError, WarmStartWarning
from baco_like.optimizer.matching import ConfigOutcome
from baco_like.records.direction import Direction
from baco_like.records.history import History
from baco_like.records.reading import number_in, outcome_from
from baco_like.records.table import column
from baco_like.records.trial import Trial
from baco_like.results.formats import read
from baco_like.results.recording import Recording
from baco_like.spaces.space import Space


class SourceResults(NamedTuple):
    """The results in a source.

    Attributes:
        names: The parameters of the source.
        rows: Configurations with their outcomes.
        direction: Which values are better, if the source says so.
        objective: Name of the value, if the source says so.
    """

    names: set[str]
    rows: list[ConfigOutcome]
    direction: Direction | None = None
    objective: str | None = None


def read_source(
    name: str, data: Any, space: Space, given: str | None, objective: str
) -> SourceResults:
    """Return the results in the data of a warm start.

    Args:
        name: Name of the source, for messages.
        data: As in `WarmStart`.
        space: The space of the run.
        given: Name of the measurement that the user chose for the value, or None.
        objective: Name of the run's value.

    Raises:
        RunFileError: The file cannot be read.
        JournalError: The file is a damaged journal.
        ValueError: The data has an unknown type or lacks the objective.
    """
    if isinstance(data, str | os.PathLike):
        data = _read_file(data, given, objective)
    if isinstance(data, Recording):
        recorded: list[ConfigOutcome] = list(zip(data.configs, data.outcomes, strict=True))
        return SourceResults(set(data.names), recorded, data.direction, data.objective)
    history = getattr(data, "history", None)
    if isinstance(history, History):
        options = getattr(data, "options", None)
        measured = getattr(options, "objective", None)
        rows = _rows_of_trials(history.trials)
        return SourceResults(set(history.space.names), rows, history.direction, measured)
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        rows = _rows_of_table(name, data, space, given or objective)
    elif isinstance(data, Iterable) and not isinstance(data, Mapping):
        rows = _rows_of_pairs(name, list(data), given or objective)
    else:
        raise ValueError(
            f"warm_start = {data!r:.60}: give a path, an Optimizer, a DataFrame or a list of (configuration, value)"
        )
    return SourceResults({parameter for config, _ in rows for parameter in config}, rows)


def _read_file(path: str | os.PathLike[str], given: str | None, objective: str) -> Recording:
    """Read a file by the user's measurement, else by the run's objective, else by the file's own."""
    if given is not None:
        return read(path, given)
    try:
        return read(path, objective)
    except RunFileError:
        return read(path)


def _rows_of_trials(trials: Iterable[Trial]) -> list[ConfigOutcome]:
    return [(trial.config, trial.outcome) for trial in trials if trial.outcome is not None]


def _rows_of_table(source: str, table: Any, space: Space, objective: str) -> list[ConfigOutcome]:
    """Return the rows of a DataFrame, such as `Optimizer.to_dataframe` makes it; further columns are ignored."""
    columns = list(table.columns)
    value_column, failure_column = (
        column(objective, space.parameters),
        column("failed", space.parameters),
    )
    if value_column not in columns:
        raise ValueError(
            f"warm_start: the table has no column {value_column!r} for the objective; it has {columns!r:.200}"
        )
    rows: list[ConfigOutcome] = []
    records = table.to_dict("records")
    values = _read_numbers(source, [record[value_column] for record in records])
    for record, value in zip(records, values, strict=True):
        config = {name: record[name] for name in space.names if name in record}
        failure = record.get(failure_column)
        word = failure if isinstance(failure, str) else None
        outcome = outcome_from(len(rows), None if word else value, objective, word)
        rows.append((config, outcome))
    return rows


def _rows_of_pairs(source: str, pairs: Sequence[Any], objective: str) -> list[ConfigOutcome]:
    if pairs and all(isinstance(pair, Trial) for pair in pairs):
        return _rows_of_trials(pairs)
    for pair in pairs:
        if isinstance(pair, str | os.PathLike):
            raise ValueError(
                f"warm_start: {str(pair)!r:.80} is a path in a list; write [WarmStart(path), ...] for several files"
            )
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], Mapping):
            raise ValueError(f"warm_start: {pair!r:.80} is not (configuration, value)")
    values = _read_numbers(source, [value for _, value in pairs])
    return [
        (config, outcome_from(i, value, objective))
        for i, ((config, _), value) in enumerate(zip(pairs, values, strict=True))
    ]


def _read_numbers(source: str, values: Sequence[Any]) -> list[Any]:
    """Return the values, with texts of numbers as numbers; warn of other texts, which count as failures."""
    numbers = [number_in(value) if isinstance(value, str) else None for value in values]
    read = [v if number is None else number for v, number in zip(values, numbers, strict=True)]
    texts = [value for value in read if isinstance(value, str)]
    if texts:
        warnings.warn(
            f"warm start {source}: {len(texts)} of {len(values)} values are texts and count as failures, "
            f"such as {texts[0]!r:.100}",
            WarmStartWarning,
            stacklevel=8,
        )
    return read
