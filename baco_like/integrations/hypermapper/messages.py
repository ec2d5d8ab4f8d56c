"""Write and parse the messages of HyperMapper's and BaCO's client-server protocol.

The server writes ``Request k``, a line with the parameters' names, and k rows. The client answers with one line of
names, in any order and with any additional columns, and k rows. The last line of the server is ``End of HyperMapper``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.exceptions import ConfigError
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.results.hypermapper_columns import Cells, Layout, number, read_value

END = "End of HyperMapper\n"

_CELL = re.compile(r'\s*("(?:[^"]|"")*"|\([^()]*\)|[^,]*?)\s*(,|$)')
"""A quoted cell, a cell in brackets (commas inside belong to it), or any text up to the next comma."""

_PRINT_ERROR = 1e-5
"""Relative error of a real number that a client prints with six digits."""


def format_request(layout: Layout, configs: Sequence[Mapping[str, Any]]) -> str:
    """Return the lines that request evaluations of configurations."""
    rows = [",".join(layout.write(config)) for config in configs]
    return "\n".join([f"Request {len(configs)}", ",".join(layout.parameters), *rows]) + "\n"


def format_best(names: Sequence[str], cells: Sequence[str]) -> str:
    """Return HyperMapper 2's lines on the best point, which precede the last line."""
    return f"Best point found:\n{','.join(names)}\n{','.join(cells)}\n\n"


def split_cells(line: str) -> list[str]:
    """Return the cells of a line without surrounding blanks; a permutation is one cell, quoted or not."""
    cells, position = [], 0
    while True:
        match = _CELL.match(line, position)
        assert match is not None  # the last alternative matches any text
        cell, separator = match.groups()
        cells.append(cell[1:-1].replace('""', '"') if cell.startswith('"') else cell)
        if not separator:
            return cells
        position = match.end()


def parse_names(line: str, layout: Layout) -> list[str]:
    """Return the names of the columns of a reply.

    Raises:
        ValueError: The objective or a required feasibility column is missing, or a column appears twice.
    """
    names = split_cells(line)
    required = [layout.objective]
    if layout.feasibility.required:
        required.append(layout.feasibility.name)
    for name in required:
        if name not in names:
            raise ValueError(
                f"the client's reply has no column {name!r}; its first line was {line!r:.200}"
            )
    for name in (*layout.parameters, layout.objective, layout.feasibility.name):
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
    if isinstance(parameter, Real):
        replied = number(text)
        return replied is not None and math.isclose(
            replied, value, rel_tol=_PRINT_ERROR, abs_tol=1e-9
        )
    try:
        return bool(read_value(parameter, text) == value)
    except ConfigError:
        return False
