"""The table of `Optimizer.to_dataframe`, as pandas writes it into a CSV file."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.journal.events import config_from_json, read_outcome
from baco_like.records.table import MARK, OURS
from baco_like.records.trial import Outcome
from baco_like.results.hypermapper_csv import literal
from baco_like.results.recording import Recording, recording


def is_frame(header: Sequence[str]) -> bool:
    """Whether these are the columns of such a table, with or without an index column."""
    return _places(header) is not None


def _places(header: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the columns ``id`` and ``status``; our other columns follow ``status``."""
    names = [name.removeprefix(MARK) for name in header]
    first = next((i for i, name in enumerate(names[:2]) if name == "id"), None)
    starts = range(3, len(names) - len(OURS) + 1)
    status = next((i for i in starts if tuple(names[i : i + len(OURS)]) == OURS), None)
    if first is None or status is None or (first == 1 and header[0]):
        return None
    return first, status


def from_frame(lines: Sequence[Sequence[str]]) -> Recording:
    """Return the recording in the lines of such a file, the header first. The file has only the number of repeats.

    Raises:
        RunFileError: The file has no rows.
        LookupError, TypeError, ValueError: The file is damaged.
    """
    header, places = lines[0], _places(lines[0])
    assert places is not None
    first, status = places
    names, objective = tuple(header[first + 1 : status - 1]), header[status - 1]
    found = []
    for line in lines[1:]:
        cells = dict(zip(header, line, strict=True))
        config = {name: _value(cells[name]) for name in names}
        ours = dict(zip(OURS, line[status : status + len(OURS)], strict=True))
        metrics = dict(zip(header[status + len(OURS) :], line[status + len(OURS) :], strict=True))
        found.append((config_from_json(config), _outcome(cells[objective], ours, metrics)))
    return recording(found, names=names, objective=objective)


def _outcome(value: str, ours: Mapping[str, str], metrics: Mapping[str, str]) -> Outcome:
    told: dict[str, Any] = {"id": 0, "status": ours["status"]}
    numbers = {"value": value, "bound": ours["bound"], "sem": ours["sem"]}
    told |= {name: float(text) for name, text in numbers.items() if text}
    told |= {name: ours[name] for name in ("failed", "message") if ours[name]}
    told["metrics"] = {name: float(text) for name, text in metrics.items() if text}
    return read_outcome(told)


def _value(text: str) -> Any:
    """Return the value in a cell: a tuple, a bool, a number or a text."""
    if text in ("True", "False"):
        return text == "True"
    if text[:1] == "(" and text[-1:] == ")":
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return text
    return literal(text)
