"""Recorded results as a plain CSV table, which spreadsheets open and which reads back exactly.

The columns are the parameters, the objective (with its unit in brackets), and those of `FIXED`. Numbers and texts are
written directly; ambiguous values (the text ``1``, a permutation) are written as JSON.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from baco_like.journal.events import config_from_json, read_outcome
from baco_like.records.trial import Outcome
from baco_like.results.recording import Recording, recording

FIXED = ("status", "failed", "message", "bound", "sem", "repeats", "metrics", "extra")
"""The last columns, in this order."""

_LONGEST = 30_000
"""Maximum number of characters of a message: CSV readers refuse cells above 128 KiB."""


def table_bytes(found: Recording) -> bytes:
    """Return the content of a file. It lacks direction, declared domains and the space.

    Raises:
        ValueError: A value has no JSON form.
    """
    unit = f" [{found.unit}]" if found.unit or found.objective.endswith("]") else ""
    lines = [[*map(_title, (*found.names, found.objective + unit)), *FIXED]]
    for row, outcome in zip(found.rows, found.outcomes, strict=True):
        lines.append([_cell(value) for value in (*row, outcome.value, *_fixed(outcome))])
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode("utf-8")


def _title(name: str) -> str:
    """Return a name as a cell of the first line, which must not look like the start of a JSON file."""
    return _cell(name) if name[:1] not in ("", "{", "[") else json.dumps(name)


def _fixed(outcome: Outcome) -> list[Any]:
    return [
        outcome.status.value,
        outcome.failed,
        outcome.message[:_LONGEST],
        outcome.bound,
        outcome.sem,
        list(outcome.repeats) or None,
        dict(outcome.metrics) or None,
        dict(outcome.extra) or None,
    ]


def _cell(value: Any) -> str:
    """Return a value as a cell; None and the empty text become an empty cell."""
    if value is None or value == "":
        return ""
    if isinstance(value, str) and _is_plain(value):
        return value
    return json.dumps(value, allow_nan=False)


def _is_plain(text: str) -> bool:
    return text.isprintable() and text == text.strip() and _read_cell(text) == text


def _read_cell(text: str) -> Any:
    """Return the value in a cell; the inverse of `_cell`."""
    if text == "":
        return None
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not valid JSON")


def is_table(header: Sequence[str]) -> bool:
    """Return whether these are the columns of such a table."""
    return len(header) > len(FIXED) + 1 and tuple(header[-len(FIXED) :]) == FIXED


def from_table(lines: Sequence[Sequence[str]]) -> Recording:
    """Return the recording in the lines of a table, the header first.

    Raises:
        RunFileError: The table has no rows.
        LookupError, TypeError, ValueError, AttributeError: The table is damaged.
    """
    header = [str(_read_cell(name)) for name in lines[0]]
    count = len(header) - len(FIXED) - 1
    named = re.fullmatch(r"(.*) \[([^\]]*)\]", header[count], re.DOTALL)
    objective, unit = (named[1], named[2]) if named else (header[count], "")
    found = [_pair(line, header) for line in lines[1:]]
    return recording(found, names=tuple(header[:count]), objective=objective, unit=unit)


def _pair(line: Sequence[str], header: Sequence[str]) -> tuple[dict[str, Any], Outcome]:
    if len(line) != len(header):
        raise ValueError(f"{len(line)} cells for {len(header)} columns")
    count = len(line) - len(FIXED) - 1
    config = config_from_json(dict(zip(header[:count], map(_value, line[:count]), strict=True)))
    told = {"id": 0, "value": _read_cell(line[count])}
    told |= dict(zip(FIXED, map(_read_cell, line[count + 1 :]), strict=True))
    for name in ("failed", "message"):
        told[name] = "" if told[name] is None else str(told[name])
    return config, read_outcome(
        {name: part for name, part in told.items() if part not in (None, "")}
    )


def _value(text: str) -> Any:
    found = _read_cell(text)
    return "" if found is None else found
