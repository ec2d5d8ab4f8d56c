"""The CSV files of samples that BaCO and HyperMapper write and resume from."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from baco_like.exceptions import ConfigError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.storage.columns import Cells, Layout

_ANY_NUMBER = "2147483647"
"""The objective of a failed row where nothing was reported: BaCO and HyperMapper need a finite number there."""


def header(layout: Layout) -> list[str]:
    """Return the names of the columns: parameters, objective, what ran (where it is required), time stamp."""
    ran = [layout.feasibility.name] if layout.feasibility.required else []
    return [*layout.parameters, layout.objective, *ran, layout.timestamp]


def row(layout: Layout, trial: Trial) -> list[str]:
    """Return the cells of an observed trial.

    A failed one has what was reported as its objective, else 2147483647. Without the column that says what ran, its
    objective is ``nan``, so that nobody takes it for a value.
    """
    ran = trial.value is not None
    reported = trial.extra.get("reported", _ANY_NUMBER)
    flag = [layout.feasibility.write(ran)] if layout.feasibility.required else []
    failed = str(reported) if flag else "nan"
    objective = failed if trial.value is None else repr(trial.value)
    return [*layout.write(trial.config), objective, *flag, str(trial.extra.get("timestamp", ""))]


def csv_text(trials: Iterable[Trial], layout: Layout) -> str:
    """Return a file's text: the header and a row for each observed trial whose values the layout has."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header(layout))
    table.writerows(row(layout, trial) for trial in trials if _writable(trial, layout))
    return text.getvalue()


def write_csv(path: str | os.PathLike[str], trials: Iterable[Trial], layout: Layout) -> None:
    """Write observed trials as a file, all or nothing.

    Trials with values that no parameter has (imported ones) are left out.

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
    """Return the configurations of a file and what came of them; the outcomes are numbered from 0.

    The columns may stand in any order and there may be others; a line that a crash has cut off at the end of the file
    is left out.

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
    """Return how the file calls its time stamps; an empty text where it has none."""
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
