"""Recorded results as a CSV table, which spreadsheets open: the one of `Optimizer.to_dataframe`, as pandas writes it.

A file of `write` also has the unit of the objective, in brackets, and a last column `OWN`. Where the other cells of a
row lose something, such as repeats or the text ``1``, this one has all of it as JSON: the file reads back exactly.
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

from baco_like.journal.events import config_from_json, outcome_row, read_outcome
from baco_like.records.table import BUILD, MARK, OURS, STAGE, TIMES, table_rows
from baco_like.results.hypermapper_csv import literal, literals, read_configs
from baco_like.results.recording import OWN, ConfigOutcome, Recording, is_same, recording

_FIXED = (*OURS, *TIMES)
"""The columns behind the objective."""

_LONGEST = 30_000
"""Maximum number of characters of a message: CSV readers refuse cells above 128 KiB."""


def table_bytes(recorded: Recording) -> bytes:
    """Return the content of a file. It lacks direction, declared domains and the space.

    Raises:
        ValueError: A value has no JSON form.
    """
    trials = [
        trial.with_outcome(replace(outcome, message=outcome.message[:_LONGEST]))
        for trial, outcome in zip(recorded.trials, recorded.outcomes, strict=True)
    ]
    rows = table_rows(trials, recorded.objective, recorded.names)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    titles, objective = list(map(_cell, columns)), _cell(recorded.objective)
    unit = f" [{recorded.unit}]" if recorded.unit or objective.endswith("]") else ""
    titles[len(recorded.names) + 1] = objective + unit
    lines = [[*titles, OWN], *([*(_cell(row.get(n)) for n in columns), ""] for row in rows)]
    read = _read_rows(lines)
    for line, trial, pair in zip(lines[1:], trials, read, strict=True):
        assert trial.outcome is not None
        if not is_same(pair, (trial.config, trial.outcome)):
            line[-1] = json.dumps(outcome_row(trial, trial.outcome), allow_nan=False)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode("utf-8")


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    is_plain = text.isprintable() and text == text.strip() and text[:1] not in ('"', "{", "[")
    return text if is_plain else json.dumps(text)


def _read_title(cell: str) -> str:
    return str(json.loads(cell)) if cell[:1] == '"' else cell


def is_table(header: Sequence[str]) -> bool:
    """Whether these are the columns of a table of `Optimizer.to_dataframe`, with or without an index column."""
    return _places(header) is not None


def _places(header: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the columns ``id`` and ``status``; our other columns follow ``status``."""
    names = [re.sub(f"^({MARK})+", "", name) for name in header]
    first = next((i for i, name in enumerate(names[:2]) if name == "id"), None)
    starts = range(3, len(names) - len(_FIXED) + 1)
    status = next((i for i in starts if tuple(names[i : i + len(_FIXED)]) == _FIXED), None)
    if first is None or status is None or (first == 1 and header[0]):
        return None
    return first, status


def from_table(lines: Sequence[Sequence[str]]) -> Recording:
    """Return the recording in the lines of a table, the header first.

    Of the repeats, a table of pandas has only the number. For empty cells see `read_configs`.

    Raises:
        RunFileError: The file has no rows.
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    header, places = lines[0], _places(lines[0])
    assert places is not None
    *names, objective = header[places[0] + 1 : places[1]]
    unit = ""
    if header[-1] == OWN:
        if titled := re.fullmatch(r"(.*) \[([^\]]*)\]", objective, re.DOTALL):
            objective, unit = titled.groups()
        *names, objective = map(_read_title, (*names, objective))
    pairs = _read_rows(lines)
    return recording(pairs, None, names, names=names, objective=objective, unit=unit)


def _read_rows(lines: Sequence[Sequence[str]]) -> list[ConfigOutcome]:
    """Return the configurations and outcomes in the lines of a table."""
    header, places = lines[0], _places(lines[0])
    assert places is not None
    first, status = places
    end = status + len(_FIXED)
    columns = zip(*(line[first + 1 : status - 1] for line in lines[1:]), strict=True)
    titles = map(_read_title, header[first + 1 : status - 1])
    configs = read_configs(
        {title: literals(c, _read_literal) for title, c in zip(titles, columns, strict=True)}
    )
    rows: list[ConfigOutcome] = []
    for config, line in zip(configs, lines[1:], strict=True):
        cells = dict(zip(header[end:], line[end:], strict=True))
        if own := cells.pop(OWN, "") if header[-1] == OWN else "":
            row = json.loads(own)
            rows.append((config_from_json(row["config"]), read_outcome(row)))
            continue
        ours = dict(zip(_FIXED, line[status:end], strict=True))
        numbers = {"value": line[status - 1], "bound": ours["bound"], "sem": ours["sem"]}
        parts: dict[str, Any] = {name: ours[name] for name in ("failed", "message") if ours[name]}
        parts |= {name: float(text) for name, text in numbers.items() if text}
        known = {name: float(text) for name, text in cells.items() if text}
        seconds, build = (
            {n.removeprefix(p): known.pop(n) for n in list(known) if n.startswith(p)}
            for p in (STAGE, BUILD)
        )
        extra: dict[str, Any] = {"seconds": seconds} if seconds else {}
        extra |= {n: ours[n] if n == "worker" else float(ours[n]) for n in TIMES if ours[n]}
        parts |= {"metrics": known, "extra": extra, "build": build}
        outcome = read_outcome({"id": 0, "status": ours["status"], **parts})
        rows.append((config_from_json(config), outcome))
    return rows


def _read_literal(text: str) -> Any:
    """Return the value in a cell: a tuple, a bool, a number or a text."""
    if text in ("True", "False") or (text[:1] == "(" and text[-1:] == ")"):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return text
    return literal(text)
