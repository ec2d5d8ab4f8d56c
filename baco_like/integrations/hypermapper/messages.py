"""Write and parse the messages of HyperMapper's and BaCO's client-server protocol.

The server writes ``Request k``, a line with the parameters' names, and k rows. The client answers with one line of
names, in any order and with any additional columns, and k rows. The last line of the server is ``End of HyperMapper``.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baco_like._output import escape_control_characters
from baco_like.exceptions import ConfigError
from baco_like.parameters import Parameter, Real, SteppedReal
from baco_like.results.hypermapper_csv import Cells, Layout, number, read_value

END = "End of HyperMapper\n"

MAX_LINE = 2**20
"""Most characters of a client's line; a permutation of 1,000 elements takes about 5,000."""

Report = Callable[[str], None]
"""Writes one line that is not part of the protocol."""

_BRACKET = re.compile(r"[()]")

_PRINT_ERROR = 1e-5
"""Relative error of a real number that a client prints with six digits."""


def format_request(layout: Layout, configs: Sequence[Mapping[str, Any]]) -> str:
    """Return the lines that request evaluations of configurations."""
    rows = [",".join(layout.write(config)) for config in configs]
    return "\n".join([f"Request {len(configs)}", ",".join(layout.parameters), *rows]) + "\n"


def split_cells(line: str) -> list[str]:
    """Return the cells of a line without surrounding blanks; a permutation is one cell, quoted or not.

    A cell is quoted, or in brackets (commas inside belong to it), or any text up to the next comma. Takes linear time.
    """
    cells, start = [], 0
    while True:
        start = _skip_blanks(line, start)
        end = _end_of_enclosed(line, start)
        after = _skip_blanks(line, end)
        if end == start or (after < len(line) and line[after] != ","):
            comma = line.find(",", start)
            after = comma if comma >= 0 else len(line)
            cells.append(line[start:after].rstrip())
        elif line[start] == '"':
            cells.append(line[start + 1 : end - 1].replace('""', '"'))
        else:
            cells.append(line[start:end])
        if after == len(line):
            return cells
        start = after + 1


def _skip_blanks(line: str, start: int) -> int:
    while start < len(line) and line[start].isspace():
        start += 1
    return start


def _end_of_enclosed(line: str, start: int) -> int:
    """Return the end of the quoted text, or text in brackets, at a position; the position itself if there is none."""
    if line.startswith('"', start):
        end = line.find('"', start + 1)
        while end >= 0 and line.startswith('""', end):  # a quote inside the text is doubled
            end = line.find('"', end + 2)
        return end + 1 or start
    if line.startswith("(", start):
        bracket = _BRACKET.search(line, start + 1)
        return bracket.end() if bracket and bracket[0] == ")" else start
    return start


def parse_names(line: str, layout: Layout) -> list[str]:
    """Return the names of the columns of a reply.

    Raises:
        ValueError: An objective or a required feasibility column is missing, or a column appears twice.
    """
    names = split_cells(line)
    columns = dict.fromkeys(layout.parameters, False) | dict.fromkeys(layout.objectives, True)
    columns[layout.feasibility.name] = layout.feasibility.required
    for name, required in columns.items():
        if required and name not in names:
            raise ValueError(
                f"the client's reply has no column {name!r}; its first line was {line!r:.200}"
            )
        if names.count(name) > 1:
            raise ValueError(f"the client's reply has two columns {name!r}: {line!r:.200}")
    return names


def parse_cells(line: str, names: Sequence[str]) -> Cells:
    """Return a row of a reply.

    Raises:
        ValueError: The number of cells differs from the number of names.
    """
    cells = split_cells(line)
    if len(cells) != len(names):
        raise ValueError(
            f"the client's row {line!r:.200} has {len(cells)} cells for the {len(names)} columns {','.join(names):.200}"
        )
    return dict(zip(names, cells, strict=True))


def matches_config(layout: Layout, cells: Cells, config: Mapping[str, Any]) -> bool:
    """Return whether all parameters in a row equal a configuration; reals are compared to five digits."""
    return all(
        _matches_value(parameter, cells[name], config[name])
        for name, parameter in layout.parameters.items()
        if name in cells
    )


def _matches_value(parameter: Parameter, text: str, value: Any) -> bool:
    if isinstance(parameter, Real | SteppedReal):
        replied = number(text)
        return replied is not None and math.isclose(
            replied, value, rel_tol=_PRINT_ERROR, abs_tol=1e-9
        )
    try:
        return bool(read_value(parameter, text) == value)
    except ConfigError:
        return False


def report_to_stderr(text: str) -> None:
    """Write a line to standard error.

    The line contains the word ``warning``: clients that read both streams as one skip such lines. Control characters
    and line ends are escaped.
    """
    line = f"baco-like: warning: {escape_control_characters(text)}"
    with contextlib.suppress(OSError):  # a closed terminal must not end the run
        print(line, file=sys.stderr, flush=True)
