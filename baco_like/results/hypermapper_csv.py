"""The columns of BaCO's and HyperMapper's messages, and the CSV files that both write and resume from.

A row has the parameters in the scenario's order, the objectives, whether the configuration ran, and a time stamp. Whole
numbers have no ``.0``, permutations look like ``(0, 1, 2)``, and a failed row may have any numbers as its objectives.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._output import replace_file
from baco_like.exceptions import ConfigError, RunFileError, SpaceError
from baco_like.parameters import (
    Categorical,
    Integer,
    Ordinal,
    Parameter,
    Permutation,
    Real,
    SteppedReal,
)
from baco_like.parameters.bases import first_own_value
from baco_like.parameters.protocol import is_sequence
from baco_like.parameters.values import is_number
from baco_like.records.objective_values import number_in
from baco_like.records.table import trial_times
from baco_like.records.trial import Outcome, Trial
from baco_like.results.files import check_table, read_text
from baco_like.results.recording import Recording, recording
from baco_like.spaces.formats.dataframe import explained_columns, whole_numbers

Cells = Mapping[str, str]
"""Cells of a row by column name."""

_MAX_OBJECTIVE = 1000
"""Most characters of the cell of an objective; the journal and every history keep the cells of failed rows."""

_SINGLE = 1e-6
"""Relative error of numbers in single precision, in which BaCO keeps its data."""


@dataclass(frozen=True)
class Feasibility:
    """The column that says whether a configuration ran.

    Attributes:
        name: Of the column.
        yes: The word for a configuration that ran.
        no: The word for a configuration that did not run.
        required: Whether every reply and every file must have the column.
    """

    name: str = "Valid"
    yes: str = "True"
    no: str = "False"
    required: bool = False

    def read(self, text: str) -> bool:
        """Return whether the configuration ran: by the two words in any case, or by true, 1, false and 0.

        Raises:
            ValueError: The word is unknown.
        """
        words = {"true": True, "1": True, "false": False, "0": False}
        words |= {self.yes.casefold(): True, self.no.casefold(): False}
        ran = {self.yes: True, self.no: False}.get(text, words.get(text.casefold()))
        if ran is None:
            raise ValueError(
                f"{self.name} = {text!r:.40} is neither {self.yes!r} nor {self.no!r}; "
                "feasible_output of the scenario has the two words"
            )
        return ran


@dataclass(frozen=True)
class Layout:
    """The columns of a message or file.

    Attributes:
        parameters: In the order of the columns.
        objective: Name of the objective's column.
        feasibility: The column that says what ran.
        timestamp: Name of the column of time stamps; readers find it in any case.
        further: Names of the columns of further objectives, which follow the first one.
        conditional: Parameters that a configuration may lack; their cell is then empty.

    Raises:
        SpaceError: Two columns have the same name, or a name or value contains characters with a meaning in CSV; UTF-8
            cannot encode a name.
    """

    parameters: Mapping[str, Parameter]
    objective: str = "Value"
    feasibility: Feasibility = field(default_factory=Feasibility)
    timestamp: str = "Timestamp"
    further: tuple[str, ...] = ()
    conditional: Collection[str] = ()

    def __post_init__(self) -> None:
        names = [*self.parameters, *self.objectives, self.feasibility.name, self.timestamp]
        for name in names:
            is_plain = name and name == name.strip() and name[0] not in '("'
            if not is_plain or set(name) & set(",\r\n") or not _is_encodable(name):
                raise SpaceError(
                    f"the name {name!r} cannot be written to a line of the protocol; leave out commas"
                )
            if names.count(name) > 1:
                raise SpaceError(f"two columns are named {name!r}; rename one of them")
        for name, parameter in self.parameters.items():
            _check_texts(name, parameter)

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of the columns of all objectives."""
        return (self.objective, *self.further)

    def write(self, config: Mapping[str, Any]) -> list[str]:
        """Return the cells of a configuration, in order."""
        return [
            "" if name not in config and name in self.conditional else write_value(p, config[name])
            for name, p in self.parameters.items()
        ]

    def read(self, cells: Cells) -> dict[str, Any]:
        """Return the configuration of a row.

        Raises:
            ConfigError: A column is missing, or its cell is not a value of the parameter.
        """
        config = {}
        for name, parameter in self.parameters.items():
            if name not in cells:
                raise ConfigError(f"there is no column {name!r}")
            try:
                config[name] = read_value(parameter, cells[name])
            except ConfigError as error:
                raise ConfigError(f"parameter {name!r}: {error}") from None
        return config

    def outcome(self, trial_id: int, cells: Cells, stamp: str) -> Outcome:
        """Return the outcome in a row.

        A row that did not run, or with an objective that is not a finite number, is a failure. ``extra["reported"]``
        keeps the objective's cell (with several objectives a list of their cells) and ``extra["timestamp"]`` the time
        stamp, all as text.

        Args:
            trial_id: Id of the trial.
            cells: The row, with the objectives.
            stamp: Its time stamp, or an empty text.

        Raises:
            ValueError: The word in the feasibility column is unknown, or an objective's cell is too long.
        """
        texts, ran = [cells[name] for name in self.objectives], cells.get(self.feasibility.name)
        for name, text in zip(self.objectives, texts, strict=True):
            if len(text) > _MAX_OBJECTIVE:
                raise ValueError(f"{name} = {text[:20]!r}... has {len(text)} characters")
        extra: dict[str, Any] = {"timestamp": stamp} if stamp else {}
        values = {name: number(text) for name, text in zip(self.objectives, texts, strict=True)}
        known = {name: value for name, value in values.items() if value is not None}
        if ran is not None and not self.feasibility.read(ran):
            reason = f"{self.feasibility.name} = {ran}"
        elif len(known) < len(values):
            name = next(name for name in values if name not in known)
            reason = f"{name} = {cells[name]!r:.200} is not a finite number"
        else:
            value = known.pop(self.objective)
            return Outcome.success(trial_id, (value,), metrics=known, extra=extra)
        reported = texts if self.further else texts[0]
        return Outcome.failure(trial_id, "runtime", reason, extra={"reported": reported, **extra})


def _check_texts(name: str, parameter: Parameter) -> None:
    """Refuse values that a reader could not distinguish or that break a line."""
    values: tuple[Any, ...] = ()
    if is_sequence(parameter):
        raise SpaceError(
            f"parameter {name!r}: the protocol has no sequences; use the journal or the table of `baco-like export`"
        )
    if isinstance(parameter, Permutation):
        values = parameter.elements
    elif isinstance(parameter, Categorical | Ordinal):
        values = parameter.values
    for text, times in Counter("" if value is None else str(value) for value in values).items():
        if text != text.strip() or not text or set(text) & set(',()"\r\n'):
            raise SpaceError(
                f"parameter {name!r}: the value {text!r} cannot be written to a line of the protocol; "
                "leave out commas, brackets, quotes and line ends"
            )
        if times > 1:
            raise SpaceError(f"parameter {name!r}: two values are written {text!r}; rename one")


def _is_encodable(text: str) -> bool:
    """Return whether UTF-8 can encode a text; JSON may contain halves of characters (surrogates)."""
    return text.encode("utf-8", "ignore").decode("utf-8") == text


def number(text: str) -> float | None:
    """Return the finite number in a text, or None; digits joined by underscores are text."""
    return None if "_" in text else number_in(text)


def write_value(parameter: Parameter, value: Any) -> str:
    """Return a value as BaCO and HyperMapper write it."""
    if isinstance(parameter, Permutation):
        inner = ", ".join(map(str, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(parameter, Real | SteppedReal):
        return repr(float(value))
    if isinstance(parameter, Ordinal) and not isinstance(value, str):
        whole = all(float(listed).is_integer() for listed in parameter.values)
        return str(int(value)) if whole else repr(float(value))
    return str(value)


def read_value(parameter: Parameter, text: str) -> Any:
    """Return the parameter's value in a cell.

    ``16.0`` is the whole number 16. A number may be off by the error of single precision, in which BaCO keeps its
    data: it is then the nearest value of an ordinal, and a real just outside its bounds is the bound.

    Raises:
        ConfigError: The cell is not a value of the parameter.
    """
    match parameter:
        case Permutation():
            return _read_order(parameter, text)
        case Real(low=low, high=high) | SteppedReal(low=low, high=high):
            real = float(_read_number(text))
            slack = _SINGLE * max(abs(low), abs(high))
            if not low - slack <= real <= high + slack:
                raise ConfigError(f"{real!r} is not in [{low!r}, {high!r}]")
            real = min(max(real, low), high)
            return real if isinstance(parameter, Real) else _nearest_step(parameter, real)
        case Integer():
            return parameter.decode(parameter.encode([_read_number(text)]))[0]
        case Ordinal() if not isinstance(parameter.values[0], str):
            return _nearest(parameter, text)
        case Categorical() | Ordinal():
            for value in parameter.values:
                if str(value) == text:
                    return value
    raise ConfigError(f"{text!r:.60} is not one of its values")


def _read_number(text: str) -> int | float:
    decimal = number(text)
    if decimal is None:
        raise ConfigError(f"{text!r:.60} is not a finite number")
    try:
        return int(text)
    except ValueError:
        return decimal


def _nearest(parameter: Ordinal, text: str) -> Any:
    exact = _read_number(text)
    own = first_own_value(parameter, [exact])
    if own is not None:
        return own
    numbers = [value for value in parameter.values if not isinstance(value, str)]
    nearest = min(numbers, key=lambda value: abs(value - exact))
    if not math.isclose(nearest, exact, rel_tol=_SINGLE):
        raise ConfigError(f"{text!r:.60} is not one of its values")
    return nearest


def _nearest_step(parameter: SteppedReal, real: float) -> float:
    (near,) = parameter.decode(np.rint([[(real - parameter.low) / parameter.step]]))
    if not math.isclose(near, real, rel_tol=_SINGLE, abs_tol=_SINGLE * parameter.step):
        raise ConfigError(f"{real!r} is not one of its values")
    return float(near)


def _read_order(parameter: Permutation, text: str) -> tuple[Any, ...]:
    elements = {str(element): element for element in parameter.elements}
    inner = text.strip().strip("()[]").rstrip(",")
    order = tuple(elements.get(part.strip()) for part in inner.split(","))
    if None in order or not parameter.contains(order):
        raise ConfigError(f"{text!r:.60} is not an order of its elements")
    return order


# Files ----------------------------------------------------------------------------------------------------------------

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
    if not names:
        raise RunFileError(
            f"its first line has no parameter before the objective {objective!r}; move that column behind them"
        )
    layout = Layout({}, objective, Feasibility(ran, required=True) if ran else Feasibility())
    parsed = [dict(zip(header, map(str.strip, line), strict=True)) for line in lines[1:]]
    columns = {name: [cells[name] for cells in parsed] for name in names}
    configs = read_configs({name: literals(texts) for name, texts in columns.items()})
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


def literals(texts: Sequence[str], read: Callable[[str], Any] = literal) -> list[Any]:
    """Return the values in the cells of a column.

    They are the texts themselves if two texts are one number, such as the versions ``1.1`` and ``1.10``.

    Args:
        texts: The cells.
        read: Reads a cell.
    """
    values = list(map(read, texts))
    written: dict[float, str] = {}
    for text, value in zip(texts, values, strict=True):
        shown = text.lstrip("+-").removesuffix(".0")
        if is_number(value) and written.setdefault(value, shown) != shown:
            return list(texts)
    return values


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
