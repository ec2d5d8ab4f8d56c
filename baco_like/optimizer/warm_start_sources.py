"""Warm starts as users give them, and the results in their data: files, optimizers, tables and lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from baco_like._output import warn_caller
from baco_like._tables import Count, Shape, check_values, whole
from baco_like.exceptions import RunFileError, WarmStartWarning
from baco_like.journal.header import UNIT, Mode
from baco_like.records import History, Trial
from baco_like.records.objective import Direction
from baco_like.records.objective_values import number_in, outcome_from
from baco_like.records.table import column, metric_column, own_columns
from baco_like.results import Recording, read
from baco_like.results.recording import ConfigOutcome
from baco_like.spaces.fidelity import add_fidelity
from baco_like.spaces.formats.dataframe import column_values
from baco_like.spaces.inputs import defaults_of
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import GivenTask, Tasks
from baco_like.strategies.protocol import FEWEST_RELATED, MOST_RELATED

_TASK = Shape(
    title="a name, or a table such as `{ n = 512 }`",
    anyOf=[{"type": "string"}, {"type": "object"}],
)


@dataclass(frozen=True)
class WarmStart:
    """Results of earlier runs and how to use them.

    Args:
        data: The path of a file of results (our journal, T4, Kernel Tuner's cache, KTT, CSV of BaCO and HyperMapper),
            an `Optimizer`, a DataFrame with a column for each parameter and one for the objective, or a list of
            ``(configuration, value)`` in which the value None is a failure.
        mode: ``data``: results of the same task, evaluator and machine; they count as if this run had observed them,
            but not against its budget. ``configs``: the best configurations are tried first. ``prior``: results of a
            related task (another program, device or input size); their model helps as far as it ranks this run's
            observations correctly.
        best: With ``configs``: number of configurations.
        rows: With ``prior``: largest number of results; half are the best ones, the others are drawn from the rest.
        objective: The measurement to use, if the source has several. If it has no such measurement, either the source
            or the run must have the unspecific objective ``value``; None: the run's; with ``prior`` and several
            objectives, the first one that the source has.
        large: Whether the file may have more than 64 MiB, unpacked.
        task: With ``[tasks]``: the task that the results belong to; without it, the results must have the descriptors
            among their parameters.

    Raises:
        ValueError: An argument has a wrong value.
    """

    data: Any
    mode: Mode = "data"
    best: Count = 5
    rows: Annotated[int, whole(FEWEST_RELATED)] = MOST_RELATED
    objective: str | None = None
    large: bool = False
    task: Annotated[GivenTask | None, _TASK] = None

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def source(self) -> str:
        """Name of the data in messages and in the journal."""
        if isinstance(self.data, str | os.PathLike):
            return Path(self.data).name
        return type(self.data).__name__


class SourceResults(NamedTuple):
    """The results in a source.

    Attributes:
        names: The parameters of the source.
        rows: Configurations with their outcomes.
        direction: Which values are better, if the source says so.
        objective: Name of the value, if the source says so, or if it lacks the first objective of the run.
        unit: Unit of the value, or an empty text.
        context: What else the values depend on, as far as the source says.
        defaults: Defaults of the parameters, without descriptors of tasks, as far as the source says.
        tasks: The tasks that were tuned together, or None.
    """

    names: set[str]
    rows: list[ConfigOutcome]
    direction: Direction | None = None
    objective: str | None = None
    unit: str = ""
    context: Mapping[str, Any] = MappingProxyType({})
    defaults: Mapping[str, Any] = MappingProxyType({})
    tasks: Tasks | None = None


def read_source(
    start: WarmStart, space: Space, objectives: Sequence[str], metrics: Sequence[str] = ()
) -> SourceResults:
    """Return the results in the data of a warm start.

    Args:
        start: The warm start.
        space: The space of the run.
        objectives: Names of the objectives that the value may be of; the first one that the source has is taken.
        metrics: Names of the metrics that the run needs: further objectives, and those that limits read.

    Raises:
        RunFileError: The file cannot be read.
        JournalError: The file is a damaged journal.
        SpaceError: The space that the file describes is wrong.
        ValueError: The data has an unknown type or lacks the objective.
    """
    data = start.data
    if isinstance(data, str | os.PathLike):
        if start.objective is None:
            data = read_by_objective(data, objectives[0], start.large)
        else:
            data = read(data, start.objective, large=start.large)
    if isinstance(data, Recording):
        described = {} if data.described is None else data.described["parameters"]
        recorded: list[ConfigOutcome] = list(zip(data.configs, data.outcomes, strict=True))
        if given := (data.described or {}).get("fidelity"):
            parameters, name = add_fidelity(data.parameters, given)
            assert name is not None
            levels = parameters[name].values or ()
            recorded = _comparable_levels(recorded, start, space, name, levels)
        listed = (data.described or {}).get("tasks")
        own = None if listed is None else Tasks.from_dict(listed)
        defaults = defaults_of({name: data.parameters[name] for name in described})
        origin = data.unit, data.context, defaults, own
        return SourceResults(set(data.names), recorded, data.direction, data.objective, *origin)
    history = getattr(data, "history", None)
    if isinstance(history, History):
        options = getattr(data, "options", None)
        measured = None if options is None else options.aim.first.name
        context = {} if options is None else options.context
        rows, unit = _rows_of_trials(history.trials), str(context.get(UNIT, ""))
        if fidelity := history.space.fidelity:
            rows = _comparable_levels(rows, start, space, fidelity.name, fidelity.levels)
        names = set(history.space.names)
        defaults, tasks = defaults_of(history.space.parameters), history.space.tasks
        defaults = defaults if tasks is None else tasks.configuration(defaults)
        origin = unit, context, defaults, tasks
        return SourceResults(names, rows, history.direction, measured, *origin)
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        columns = list(data.columns)
        known = [name for name in objectives if column(name, space.parameters) in columns]
        objective = start.objective or next(iter(known), objectives[0])
        others = [name for name in metrics if name != objective]
        rows, texts = _rows_of_table(data, space, objective, others)
    elif isinstance(data, Iterable) and not isinstance(data, Mapping):
        pairs = list(data)
        known = [name for name in objectives if _have_measurement(pairs, name)]
        objective = start.objective or next(iter(known), objectives[0])
        rows, texts = _rows_of_pairs(pairs, objective)
    else:
        raise ValueError(
            f"warm_start = {data!r:.60}: give a path, an Optimizer, a DataFrame or a list of (configuration, value)"
        )
    if texts:
        warn_caller(
            f"warm start {start.source}: {len(texts)} of {len(rows)} values are texts and count as failures, "
            f"such as {texts[0]!r:.100}",
            WarmStartWarning,
        )
    names = {parameter for config, _ in rows for parameter in config}
    is_first = start.objective is not None or objective == objectives[0]
    return SourceResults(names, rows, objective=None if is_first else objective)


def read_by_objective(
    path: str | os.PathLike[str], objective: str, large: bool = False
) -> Recording:
    """Read a file by the run's objective, else by the file's own."""
    try:
        return read(path, objective, large=large)
    except RunFileError:
        return read(path, large=large)


def _rows_of_trials(trials: Iterable[Trial]) -> list[ConfigOutcome]:
    return [(trial.config, trial.outcome) for trial in trials if trial.outcome is not None]


def _comparable_levels(
    rows: list[ConfigOutcome], start: WarmStart, space: Space, name: str, levels: Sequence[Any]
) -> list[ConfigOutcome]:
    """Return the results at the target of the source's fidelity; all if the run tells the levels apart.

    Args:
        rows: The results.
        start: The warm start.
        space: The space of the run.
        name: Name of the fidelity.
        levels: Its values, the target last.
    """
    if start.mode == "data" or (start.mode == "prior" and name in space.names):
        return rows
    return [row for row in rows if row[0].get(name) == levels[-1]]


def _rows_of_table(
    table: Any, space: Space, objective: str, metrics: Sequence[str]
) -> tuple[list[ConfigOutcome], list[str]]:
    """Return the rows of a DataFrame, such as `Optimizer.to_dataframe` makes it, and the texts among its numbers.

    Further columns than those of the parameters, the objective and the metrics are ignored.
    """
    value_column = column(objective, space.parameters)
    failure_column = own_columns(space.names, objective)["failed"]
    columns = list(table.columns)
    if value_column not in columns:
        raise ValueError(
            f"warm_start: the table has no column {value_column!r} for the objective; it has {columns!r:.200}"
        )
    records = table.to_dict("records")
    cells = {name: column_values(table, name) for name in space.names if name in columns}
    values, texts = _read_numbers([record[value_column] for record in records])
    written = {name: metric_column(name, space.names, objective) for name in metrics}
    named = {name: name for name in metrics if name in columns and name not in space.parameters}
    named |= {name: own for name, own in written.items() if own in columns}
    rows: list[ConfigOutcome] = []
    for i, (record, value) in enumerate(zip(records, values, strict=True)):
        config = {name: own[i] for name, own in cells.items() if own[i] is not None}
        failure = record.get(failure_column)
        word = failure if isinstance(failure, str) else None
        result = {objective: value, **{name: record[at] for name, at in named.items()}}
        rows.append((config, outcome_from(i, None if word else result, objective, word)))
    return rows, texts


def _have_measurement(pairs: Sequence[Any], name: str) -> bool:
    """Whether one of several (configuration, mapping of metrics) has a metric."""
    values = [p[1] for p in pairs if isinstance(p, Sequence) and len(p) == 2]
    return any(isinstance(value, Mapping) and name in value for value in values)


def _rows_of_pairs(pairs: Sequence[Any], objective: str) -> tuple[list[ConfigOutcome], list[str]]:
    """Return the rows of a list of trials or of (configuration, value), and the texts among its numbers."""
    if pairs and all(isinstance(pair, Trial) for pair in pairs):
        return _rows_of_trials(pairs), []
    for pair in pairs:
        if isinstance(pair, str | os.PathLike):
            raise ValueError(
                f"warm_start: {str(pair)!r:.80} is a path in a list; write [WarmStart(path), ...] for several files"
            )
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], Mapping):
            raise ValueError(f"warm_start: {pair!r:.80} is not (configuration, value)")
    values, texts = _read_numbers([value for _, value in pairs])
    outcomes = [outcome_from(i, value, objective) for i, value in enumerate(values)]
    return list(zip([config for config, _ in pairs], outcomes, strict=True)), texts


def _read_numbers(values: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return the values, with texts of numbers as numbers, and all other texts, which count as failures."""
    numbers = [number_in(value) if isinstance(value, str) else None for value in values]
    read = [v if number is None else number for v, number in zip(values, numbers, strict=True)]
    return read, [value for value in read if isinstance(value, str)]
