"""CSV files of samples, which BaCO and HyperMapper write and resume from."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

from baco_like._output import replace_file
from baco_like.exceptions import RunFileError
from baco_like.records.table import trial_times
from baco_like.records.trial import Outcome, Trial
from baco_like.results.files import check_table, read_text
from baco_like.results.hypermapper_columns import Feasibility, Layout, number
from baco_like.results.recording import Recording, recording
from baco_like.spaces.formats.dataframe import explained_columns, whole_numbers

_ANY_NUMBER = "2147483647"
"""The objective of a failed row without a reported value: BaCO and HyperMapper need a finite number."""


def header(layout: Layout) -> list[str]:
    """Return the names of the columns: parameters, objectives, feasibility (if required), time stamp."""
    ran = [layout.feasibility.name] if layout.feasibility.required else []
    return [*layout.parameters, *layout.objectives, *ran, layout.timestamp]


def row(layout: Layout, trial: Trial) -> list[str]:
    """Return the cells of an observed trial.

    The objectives of a failed trial are the reported values, else 2147483647. Without a feasibility column they are
    ``nan``, so that readers cannot mistake them for values. The same holds for an objective that was not measured.
    """
    ran = trial.value is not None and all(name in trial.metrics for name in layout.further)
    word = layout.feasibility.yes if ran else layout.feasibility.no
    flag = [word] if layout.feasibility.required else []
    values = [trial.value, *map(trial.metrics.get, layout.further)]
    texts = list(map(repr, values)) if ran else _failed_values(layout, trial, bool(flag))
    return [*layout.write(trial.config), *texts, *flag, str(trial.extra.get("timestamp", ""))]


def _failed_values(layout: Layout, trial: Trial, flagged: bool) -> list[str]:
    """Return the cells of the objectives of a trial that did not run."""
    count = len(layout.objectives)
    if not flagged:
        return ["nan"] * count
    reported = trial.extra.get("reported", _ANY_NUMBER)
    texts = map(str, reported) if isinstance(reported, list | tuple) else [str(reported)]
    return [*texts, *[_ANY_NUMBER] * count][:count]


def csv_text(trials: Iterable[Trial], layout: Layout) -> str:
    """Return the text of a file: the header and one row per observed trial inside the space."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header(layout))
    table.writerows(row(layout, trial) for trial in trials if _is_writable(trial, layout))
    return text.getvalue()


def write_csv(path: str | os.PathLike[str], trials: Iterable[Trial], layout: Layout) -> None:
    """Write observed trials as a file, completely or not at all; one whose name ends in ``.gz`` is compressed.

    Imported trials with values outside the space are left out.

    Raises:
        OSError: The file cannot be written.
    """
    replace_file(Path(path), csv_text(trials, layout).encode("utf-8"))


def _is_writable(trial: Trial, layout: Layout) -> bool:
    return trial.outcome is not None and all(
        parameter.contains(trial.config[name])
        if name in trial.config
        else name in layout.conditional
        for name, parameter in layout.parameters.items()
    )


def read_csv(
    path: str | os.PathLike[str], layout: Layout, *, large: bool = False
) -> tuple[list[dict[str, Any]], list[Outcome]]:
    """Return the configurations of a file and their outcomes, which are numbered from 0.

    The columns may have any order, and additional columns are ignored. An incomplete last line is left out.

    Args:
        path: The file.
        layout: The columns.
        large: Whether the file may have more than 64 MiB, unpacked, or 150,000 lines.

    Raises:
        RunFileError: The file cannot be read, is too large, or lacks a column; a row has a wrong number of cells,
            or a value that its parameter cannot have. The message names the line.
    """
    file = Path(path)
    text = read_text(file, large)
    try:
        check_table(text, large)
    except RunFileError as error:
        raise RunFileError(f"{file}: {error}") from None
    whole = text[: text.rfind("\n") + 1]
    lines = csv.reader(io.StringIO(whole), skipinitialspace=True)
    configs: list[dict[str, Any]] = []
    outcomes: list[Outcome] = []
    try:
        names = [name.strip() for name in next(lines, [])]
        _check_columns(names, layout)
        stamp = _find_timestamp(names, layout.timestamp)
        for cells in filter(None, lines):
            if len(cells) != len(names):
                raise ValueError(f"{len(cells)} cells for {len(names)} columns")
            row = dict(zip(names, map(str.strip, cells), strict=True))
            configs.append(layout.read(row))
            outcomes.append(layout.outcome(len(outcomes), row, row.get(stamp, "")))
    except (csv.Error, ValueError) as error:  # csv.Error: a cell of more than 128 KiB
        raise RunFileError(f"{file}, line {lines.line_num}: {error}") from None
    return configs, outcomes


def _check_columns(names: Sequence[str], layout: Layout) -> None:
    for name in header(layout)[:-1]:
        if names.count(name) != 1:
            raise ValueError(
                f"the first line must have the column {name!r} once; it is {','.join(names):.200}"
            )


def _find_timestamp(names: Sequence[str], timestamp: str) -> str:
    """Return the name of the column of time stamps in a file, or an empty text."""
    return next((name for name in names if name.casefold() == timestamp.casefold()), "")


# Without the scenario ---------------------------------------------------------------------------------------------

_RAN = ("valid", "feasible", "feasibility", "feasible_output")


def from_samples(lines: Sequence[Sequence[str]], objective: str | None = None) -> Recording:
    """Return the recording in the lines of a file without its scenario, the header first.

    The columns are assumed to have the programs' own order: parameters, objective, further measurements, feasibility,
    time stamps; the last three may be missing. Numbers are read as numbers, ``(0, 1, 2)`` as a permutation, all other
    cells as text; for empty cells see `read_configs`. Further measurements become metrics.

    Args:
        lines: The cells.
        objective: Name of its column; None uses the last one before the feasibility column. If there are several
            objectives, name the first one.

    Raises:
        RunFileError: The column is missing, or the file has no rows.
        ValueError: A word in the feasibility column is unknown, or a line has a wrong number of cells.
    """
    header = [name.strip() for name in lines[0]]
    if len(set(header)) < len(header):
        raise ValueError("two columns have one name")
    stamp = _find_timestamp(header, Layout.timestamp)
    ran = _ran_column(header, lines[1:], stamp)
    others = [name for name in header if name not in (stamp, ran)]
    if len(others) < 2 or objective not in (None, *others):
        missing = "parameters and an objective" if objective is None else repr(objective)
        raise RunFileError(f"its first line lacks {missing}: {','.join(header):.200}")
    objective = objective or others[-1]
    names = tuple(others[: others.index(objective)])
    layout = Layout({}, objective, Feasibility(ran, required=True) if ran else Feasibility())
    parsed = [dict(zip(header, map(str.strip, line), strict=True)) for line in lines[1:]]
    configs = read_configs({name: [literal(cells[name]) for cells in parsed] for name in names})
    rows = []
    for config, cells in zip(configs, parsed, strict=True):
        outcome = layout.outcome(0, cells, cells.get(stamp, ""))
        if outcome.value is not None:
            measured = {name: number(cells[name]) for name in others[len(names) + 1 :]}
            metrics = {name: value for name, value in measured.items() if value is not None}
            outcome = replace(outcome, metrics=metrics)
        rows.append((config, outcome))
    return recording(rows, None, names, names=names, objective=objective)


def _ran_column(header: Sequence[str], lines: Sequence[Sequence[str]], stamp: str) -> str:
    """Return the name of the feasibility column, or an empty text."""
    known = [name for name in header if name.casefold() in _RAN]
    if known:
        return known[-1]
    last = [i for i, name in enumerate(header) if name != stamp][-1:]
    words = {line[i].strip().casefold() for line in lines for i in last if i < len(line)}
    return header[last[0]] if words and words <= {"true", "false"} else ""


def read_configs(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the configurations of a table.

    An empty cell is an inactive parameter. Among texts it is the empty text, unless other columns explain it: their
    values decide whether it is empty. Whole numbers beside empty cells are ints; pandas writes them as floats.

    Args:
        columns: The values of each parameter, and an empty text for an empty cell.
    """
    read = dict(columns)
    lacking = [name for name, cells in columns.items() if any(c == "" for c in cells)]
    for name in lacking:
        read[name] = whole_numbers([None if cell == "" else cell for cell in columns[name]])
    texts = [name for name in lacking if any(isinstance(cell, str) for cell in read[name])]
    if texts:
        explained = explained_columns(read)
        read |= {name: columns[name] for name in texts if name not in explained}
    rows = (zip(read, row, strict=True) for row in zip(*read.values(), strict=True))
    return [{name: value for name, value in row if value is not None} for row in rows]


def literal(text: str) -> Any:
    """Return the value in a cell: an integer, a number, a permutation such as ``(0, 1, 2)``, or the text."""
    if text[:1] == "(" and text[-1:] == ")":
        # Elements are not read as permutations, so nested brackets cannot exhaust the stack.
        return tuple(_scalar(part.strip()) for part in text[1:-1].rstrip(",").split(","))
    return _scalar(text)


def _scalar(text: str) -> Any:
    try:
        return int(text) if "_" not in text else text
    except ValueError:
        value = number(text)
    return text if value is None else value


def samples_bytes(recorded: Recording) -> bytes:
    """Return the content of a file that these programs resume from, with the column ``Valid``.

    Each objective has a column. Failure words and messages, repeats, other metrics and stage times are left out. The
    cell of an inactive parameter is empty; these programs have no conditional parameters.

    Raises:
        SpaceError: A name or value contains characters with a meaning in CSV.
    """
    return csv_text(_with_timestamps(recorded.trials), _layout_of(recorded)).encode("utf-8")


def _with_timestamps(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials with the milliseconds from the start of the run to their end, as these programs write them."""
    times = [trial_times(trial) for trial in trials]
    begin = min((time["started"] for time in times if time["started"] is not None), default=None)
    stamped = []
    for trial, time in zip(trials, times, strict=True):
        outcome, ended = trial.outcome, time["ended"]
        if outcome is not None and None not in (begin, ended) and "timestamp" not in outcome.extra:
            extra = {**outcome.extra, "timestamp": round(1000 * (ended - begin))}
            trial = replace(trial, outcome=replace(outcome, extra=extra))
        stamped.append(trial)
    return stamped


def writable(recorded: Recording) -> Recording:
    """Return the results inside the space; the file cannot hold others."""
    layout = _layout_of(recorded)
    kept = [_is_writable(trial, layout) for trial in recorded.trials]
    return replace(
        recorded,
        rows=tuple(compress(recorded.rows, kept)),
        outcomes=tuple(compress(recorded.outcomes, kept)),
    )


def _layout_of(recorded: Recording) -> Layout:
    return Layout(
        recorded.parameters,
        recorded.objective,
        Feasibility(required=True),
        further=recorded.further_objectives,
        conditional=recorded.conditional,
    )
