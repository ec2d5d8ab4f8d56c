"""The lines of the client-server protocol of HyperMapper and BaCO, as pure functions.

The server writes ``Request k``, a line with the parameters' names, and k rows; the client answers with one line of
names, in any order and with any further ones, and k rows. The last line of the server is ``End of HyperMapper``.
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
"""A quoted cell, one in brackets, whose commas belong to it, or anything up to the next comma."""

_PRINTED = 1e-5
"""Relative error of a real that a client has printed with six digits."""


def request(layout: Layout, configs: Sequence[Mapping[str, Any]]) -> str:
    """Return the lines that ask for evaluations."""
    lines = [f"Request {len(configs)}", ",".join(layout.parameters)]
    lines += [",".join(layout.write(config)) for config in configs]
    return "\n".join(lines) + "\n"


def best_point(names: Sequence[str], cells: Sequence[str]) -> str:
    """Return HyperMapper 2's lines on the best point, which stand before the last line where they are wanted."""
    return f"Best point found:\n{','.join(names)}\n{','.join(cells)}\n\n"


def split(line: str) -> list[str]:
    """Return the cells of a line without the blanks around them; a permutation is one cell, quoted or not."""
    cells, place = [], 0
    while True:
        found = _CELL.match(line, place)
        assert found is not None  # the last alternative matches anything
        cell, end = found.groups()
        cells.append(cell[1:-1].replace('""', '"') if cell.startswith('"') else cell)
        if not end:
            return cells
        place = found.end()


def read_names(line: str, layout: Layout) -> list[str]:
    """Return the names of the columns of a reply.

    Raises:
        ValueError: The objective, or a required word for what ran, is missing or stands there twice.
    """
    names = split(line)
    needed = [layout.objective]
    if layout.feasibility.required:
        needed.append(layout.feasibility.name)
    for name in needed:
        if name not in names:
            raise ValueError(
                f"the client's reply has no column {name!r}; its first line was {line!r:.200}"
            )
    for name in (*layout.parameters, layout.objective, layout.feasibility.name):
        if names.count(name) > 1:
            raise ValueError(f"the client's reply has two columns {name!r}: {line!r:.200}")
    return names


def read_cells(line: str, names: Sequence[str]) -> Cells:
    """Return a row of a reply.

    Raises:
        ValueError: It has not as many cells as there are names.
    """
    cells = split(line)
    if len(cells) != len(names):
        raise ValueError(
            f"the client's row {line!r:.200} has {len(cells)} cells for the {len(names)} columns {','.join(names):.200}"
        )
    return dict(zip(names, cells, strict=True))


def echoes(layout: Layout, cells: Cells, config: Mapping[str, Any]) -> bool:
    """Whether the row's parameters, as far as it has them, are those of a configuration, reals to five digits."""
    return all(
        _same(parameter, cells[name], config[name])
        for name, parameter in layout.parameters.items()
        if name in cells
    )


def _same(parameter: Parameter, text: str, asked: Any) -> bool:
    if isinstance(parameter, Real):
        told = number(text)
        return told is not None and math.isclose(told, asked, rel_tol=_PRINTED, abs_tol=1e-9)
    try:
        return bool(read_value(parameter, text) == asked)
    except ConfigError:
        return False
