"""CSV files of samples, which BaCO and HyperMapper write and resume from."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco_like.exceptions import ConfigError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.results.hypermapper_columns import Cells, Feasibility, Layout, number
from baco_like.results.recording import Recording, recording

_ANY_NUMBER = "2147483647"
"""The objective of a failed row without a reported value: BaCO and HyperMapper need a finite number."""


def header(layout: Layout) -> list[str]:
    """Return the names of the columns: parameters, objective, feasibility (if required), time stamp."""
    ran = [layout.feasibility.name] if layout.feasibility.required else []
    return [*layout.parameters, layout.objective, *ran, layout.timestamp]


def row(layout: Layout, trial: Trial) -> list[str]:
    """Return the cells of an observed trial.

    The objective of a failed trial is the reported value, else 2147483647. Without a feasibility column it is ``nan``,
    so that readers cannot mistake it for a value.
    """
    ran = trial.value is not None
    reported = trial.extra.get("reported", _ANY_NUMBER)
    flag = [layout.feasibility.write(ran)] if layout.feasibility.required else []
    failed = str(reported) if flag else "nan"
    objective = failed if trial.value is None else repr(trial.value)
    return [*layout.write(trial.config), objective, *flag, str(trial.extra.get("timestamp", ""))]


def csv_text(trials: Iterable[Trial], layout: Layout) -> str:
    """Return the text of a file: the header and one row per observed trial inside the space."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header(layout))
    table.writerows(row(layout, trial) for trial in trials if _writable(trial, layout))
    return text.getvalue()


def write_csv(path: str | os.PathLike[str], trials: Iterable[Trial], layout: Layout) -> None:
    """Write observed trials as a file, completely or not at all.

    Imported trials with values outside the space are left out.

    Raises:
        OSError: The file cannot be written.
    """
    place = Path(path)
    other = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        other.write_text(csv_text(trials, layout), encoding="utf-8")
        os.replace(other, place)
    finally:
        other.unlink(missing_ok=True)


def _writable(trial: Trial, layout: Layout) -> bool:
    return trial.outcome is not None and all(
        name in trial.config and parameter.contains(trial.config[name])
        for name, parameter in layout.parameters.items()
    )


def read_csv(
    path: str | os.PathLike[str], layout: Layout
) -> tuple[list[dict[str, Any]], list[Outcome]]:
    """Return the configurations of a file and their outcomes, which are numbered from 0.

    The columns may have any order, and additional columns are ignored. An incomplete last line is left out.

    Raises:
        RunFileError: The file cannot be read, or lacks a column; a row has a wrong number of cells, or a value that
            its parameter cannot have. The message names the line.
    """
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFileError(f"{place} cannot be read: {error}") from None
    whole = text[: text.rfind("\n") + 1]
    reader = csv.reader(io.StringIO(whole), skipinitialspace=True)
    lines = _readable(reader, place)
    names = [name.strip() for name in next(lines, [])]
    stamp = _checked(names, layout, place)
    configs: list[dict[str, Any]] = []
    outcomes: list[Outcome] = []
    for cells in filter(None, lines):
        where = f"{place}, line {reader.line_num}"
        if len(cells) != len(names):
            raise RunFileError(f"{where}: {len(cells)} cells for {len(names)} columns")
        found = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
        config, outcome = _read_row(found, layout, len(configs), found.get(stamp, ""), where)
        configs.append(config)
        outcomes.append(outcome)
    return configs, outcomes


def _readable(reader: Any, place: Path) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:  # a cell of more than 128 KiB
        raise RunFileError(f"{place}, line {reader.line_num}: {error}") from None


def _checked(names: Sequence[str], layout: Layout, place: Path) -> str:
    """Check the columns; return the name of the time stamp column, or an empty text."""
    ran = [layout.feasibility.name] if layout.feasibility.required else []
    for name in (*layout.parameters, layout.objective, *ran):
        if names.count(name) != 1:
            raise RunFileError(
                f"{place}: its first line must have the column {name!r} once; it is {','.join(names):.200}"
            )
    stamps = [name for name in names if name.casefold() == layout.timestamp.casefold()]
    return stamps[0] if stamps else ""


def _read_row(
    cells: Cells, layout: Layout, number: int, stamp: str, where: str
) -> tuple[dict[str, Any], Outcome]:
    try:
        return layout.read(cells), layout.outcome(number, cells, stamp)
    except (ConfigError, ValueError) as error:
        raise RunFileError(f"{where}: {error}") from None


# Without the scenario ---------------------------------------------------------------------------------------------

_RAN = ("valid", "feasible", "feasibility", "feasible_output")
_TIMESTAMP = "timestamp"
_YES_OR_NO = {"true", "false"}


def from_samples(lines: Sequence[Sequence[str]], objective: str | None = None) -> Recording:
    """Return the recording in the lines of a file without its scenario, the header first.

    The columns are assumed to have the programs' own order: parameters, objective, further measurements, feasibility,
    time stamps; the last three may be missing. Numbers are read as numbers, ``(0, 1, 2)`` as a permutation, all other
    cells as text.

    Args:
        lines: The cells.
        objective: Name of its column; None uses the last one before the feasibility column.

    Raises:
        RunFileError: The column is missing, or the file has no rows.
        ValueError: A word in the feasibility column is unknown, or a line has a wrong number of cells.
    """
    header = [name.strip() for name in lines[0]]
    if len(set(header)) < len(header):
        raise ValueError("two columns have one name")
    stamp = next((name for name in header if name.casefold() == _TIMESTAMP), "")
    ran = _ran_column(header, lines[1:], stamp)
    others = [name for name in header if name not in (stamp, ran)]
    if len(others) < 2 or objective not in (None, *others):
        wanted = "parameters and an objective" if objective is None else repr(objective)
        raise RunFileError(f"its first line lacks {wanted}: {','.join(header):.200}")
    chosen = objective or others[-1]
    names = others[: others.index(chosen)]
    feasibility = Feasibility(ran, required=True) if ran else Feasibility()
    layout = Layout({}, chosen, feasibility)
    found = []
    for line in lines[1:]:
        cells = {name: cell.strip() for name, cell in zip(header, line, strict=True)}
        config = {name: literal(cells[name]) for name in names}
        found.append((config, layout.outcome(0, cells, cells.get(stamp, ""))))
    return recording(found, names=tuple(names), objective=chosen)


def _ran_column(header: Sequence[str], lines: Sequence[Sequence[str]], stamp: str) -> str:
    """Return the name of the feasibility column, or an empty text."""
    known = [name for name in header if name.casefold() in _RAN]
    if known:
        return known[-1]
    last = [i for i, name in enumerate(header) if name != stamp][-1:]
    words = {line[i].strip().casefold() for line in lines for i in last if i < len(line)}
    return header[last[0]] if words and words <= _YES_OR_NO else ""


def literal(text: str) -> Any:
    """Return the value in a cell: an integer, a number, a permutation such as ``(0, 1, 2)``, or the text."""
    if text[:1] == "(" and text[-1:] == ")":
        inner = text[1:-1].rstrip(",")
        return tuple(literal(part.strip()) for part in inner.split(","))
    try:
        return int(text) if "_" not in text else text
    except ValueError:
        found = number(text)
    return text if found is None else found


def samples_bytes(found: Recording) -> bytes:
    """Return the content of a file that these programs resume from, with the column ``Valid``.

    Failure words and messages, repeats and stage times are left out.

    Raises:
        SpaceError: A name or value contains characters with a meaning in CSV.
    """
    return csv_text(found.trials, _layout_of(found)).encode("utf-8")


def writable(found: Recording) -> Recording:
    """Return the results inside the space; the file cannot hold others."""
    layout = _layout_of(found)
    kept = [i for i, trial in enumerate(found.trials) if _writable(trial, layout)]
    return replace(
        found,
        rows=tuple(found.rows[i] for i in kept),
        outcomes=tuple(found.outcomes[i] for i in kept),
    )


def _layout_of(found: Recording) -> Layout:
    return Layout(found.parameters, found.objective, Feasibility(required=True))
