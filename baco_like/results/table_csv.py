"""Recorded results as a plain CSV table, which spreadsheets open and which reads back exactly.

The columns are the parameters, the objective (with its unit in brackets), and those of `FIXED`. Numbers and texts are
written directly; ambiguous values (the text ``1``, a permutation) are written as JSON, and an inactive parameter as
``null``.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from baco_like._checks import reject_constant
from baco_like.journal.events import config_from_json, outcome_row, read_outcome
from baco_like.records.table import BUILD, MARK, OURS, STAGE, TIMES
from baco_like.records.trial import Trial
from baco_like.results.hypermapper import literal, read_configs
from baco_like.results.recording import Recording, recording

FIXED = ("status", "failed", "message", "bound", "sem", "repeats", "metrics", "extra")
"""The last columns, in this order."""

_OF_METRICS = ("metric_repeats", "metric_sems")
"""Columns behind them if a metric has repeats or a standard error."""

_BUILD = "build"
"""The last column if a build has metrics."""

_INACTIVE = "null"

_LONGEST = 30_000
"""Maximum number of characters of a message: CSV readers refuse cells above 128 KiB."""


def table_bytes(recorded: Recording) -> bytes:
    """Return the content of a file. It lacks direction, declared domains and the space.

    Raises:
        ValueError: A value has no JSON form.
    """
    unit = f" [{recorded.unit}]" if recorded.unit or recorded.objective.endswith("]") else ""
    titles = [  # the first one must not look like the start of a JSON file
        _cell(name) if name and name[0] not in "{[" else json.dumps(name)
        for name in (*recorded.names, recorded.objective + unit)
    ]
    has_more = any(o.metric_repeats or o.metric_sems for o in recorded.outcomes)
    fixed = (*FIXED, *_OF_METRICS) if has_more else FIXED
    fixed = (*fixed, _BUILD) if any(o.build for o in recorded.outcomes) else fixed
    lines = [[*titles, *fixed]]
    for values, outcome in zip(recorded.rows, recorded.outcomes, strict=True):
        row = (_INACTIVE if value is None else _cell(value) for value in values)
        parts = outcome_row(Trial(0, {}), replace(outcome, message=outcome.message[:_LONGEST]))
        lines.append([*row, *map(_cell, map(parts.get, ("value", *fixed)))])
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode("utf-8")


def _cell(value: Any) -> str:
    """Return a value as a cell; None and the empty text become an empty cell."""
    if value is None or value == "":
        return ""
    plain = isinstance(value, str) and value.isprintable() and value == value.strip()
    return value if plain and _read_cell(value) == value else json.dumps(value, allow_nan=False)


def _read_cell(text: str) -> Any:
    """Return the value in a cell; the inverse of `_cell`."""
    if text == "":
        return None
    try:
        return json.loads(text, parse_constant=reject_constant)
    except (ValueError, RecursionError):
        return text


def is_table(header: Sequence[str]) -> bool:
    """Return whether these are the columns of such a table."""
    return bool(fixed := _fixed_columns(header)) and len(header) > len(fixed) + 1


def _fixed_columns(header: Sequence[str]) -> tuple[str, ...]:
    """Return the last columns of a table, or nothing if these are not the columns of one."""
    known = [(*FIXED, *more, *last) for more in (_OF_METRICS, ()) for last in ((_BUILD,), ())]
    return next((names for names in known if tuple(header[-len(names) :]) == names), ())


def from_table(lines: Sequence[Sequence[str]]) -> Recording:
    """Return the recording in the lines of a table, the header first.

    Raises:
        RunFileError: The table has no rows.
        LookupError, TypeError, ValueError, AttributeError: The table is damaged.
    """
    header = [str(_read_cell(name)) for name in lines[0]]
    fixed = _fixed_columns(header)
    count = len(header) - len(fixed) - 1
    with_unit = re.fullmatch(r"(.*) \[([^\]]*)\]", header[count], re.DOTALL)
    objective, unit = with_unit.groups() if with_unit else (header[count], "")
    rows = []
    for line in lines[1:]:
        if len(line) != len(header):
            raise ValueError(f"{len(line)} cells for {len(header)} columns")
        cells = list(map(_read_cell, line))
        values = zip(header[:count], line[:count], cells[:count], strict=True)
        active = {
            name: "" if value is None else value
            for name, cell, value in values
            if cell != _INACTIVE
        }
        config = config_from_json(active)
        parts = dict(zip(("value", *fixed), cells[count:], strict=True))
        parts |= {
            name: "" if parts[name] is None else str(parts[name]) for name in ("failed", "message")
        }
        present = {name: part for name, part in parts.items() if part not in (None, "")}
        rows.append((config, read_outcome({"id": 0, **present})))
    names = tuple(header[:count])
    lacking = [name for name in names if any(name not in config for config, _ in rows)]
    return recording(rows, None, lacking, names=names, objective=objective, unit=unit)


# The table of `Optimizer.to_dataframe`, as pandas writes it --------------------------------------------------------


def is_frame(header: Sequence[str]) -> bool:
    """Whether these are the columns of a table of `Optimizer.to_dataframe`, with or without an index column."""
    return _places(header) is not None


def _places(header: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the columns ``id`` and ``status``; our other columns follow ``status``."""
    names = [name.removeprefix(MARK) for name in header]
    first = next((i for i, name in enumerate(names[:2]) if name == "id"), None)
    fixed = (*OURS, *TIMES)
    starts = range(3, len(names) - len(fixed) + 1)
    status = next((i for i in starts if tuple(names[i : i + len(fixed)]) == fixed), None)
    if first is None or status is None or (first == 1 and header[0]):
        return None
    return first, status


def from_frame(lines: Sequence[Sequence[str]]) -> Recording:
    """Return the recording in the lines of a table of `Optimizer.to_dataframe`, the header first.

    Of the repeats, the file has only the number. For empty cells see `read_configs`.

    Raises:
        RunFileError: The file has no rows.
        LookupError, TypeError, ValueError: The file is damaged.
    """
    header, places = lines[0], _places(lines[0])
    assert places is not None
    first, status = places
    end = status + len(OURS) + len(TIMES)
    names, objective = tuple(header[first + 1 : status - 1]), header[status - 1]
    parsed = [dict(zip(header, line, strict=True)) for line in lines[1:]]
    columns = {name: [_read_literal(cells[name]) for cells in parsed] for name in names}
    configs = read_configs(columns)
    rows = []
    for config, cells, line in zip(configs, parsed, lines[1:], strict=True):
        ours = dict(zip((*OURS, *TIMES), line[status:end], strict=True))
        numbers = {"value": cells[objective], "bound": ours["bound"], "sem": ours["sem"]}
        parts: dict[str, Any] = {name: ours[name] for name in ("failed", "message") if ours[name]}
        parts |= {name: float(text) for name, text in numbers.items() if text}
        cells = dict(zip(header[end:], line[end:], strict=True))
        stages = {name: cells.pop(name) for name in list(cells) if name.startswith(STAGE)}
        seconds = {name.removeprefix(STAGE): float(text) for name, text in stages.items() if text}
        builds = {name: cells.pop(name) for name in list(cells) if name.startswith(BUILD)}
        build = {name.removeprefix(BUILD): float(text) for name, text in builds.items() if text}
        extra: dict[str, Any] = {"seconds": seconds} if seconds else {}
        extra |= {n: ours[n] if n == "worker" else float(ours[n]) for n in TIMES if ours[n]}
        parts |= {"metrics": {n: float(text) for n, text in cells.items() if text}, "extra": extra}
        parts |= {"build": build}
        outcome = read_outcome({"id": 0, "status": ours["status"], **parts})
        rows.append((config_from_json(config), outcome))
    return recording(rows, None, names, names=names, objective=objective)


def _read_literal(text: str) -> Any:
    """Return the value in a cell: a tuple, a bool, a number or a text."""
    if text in ("True", "False") or (text[:1] == "(" and text[-1:] == ")"):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return text
    return literal(text)
