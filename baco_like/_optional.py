"""Import optional packages, and make tables with one of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from baco_like.exceptions import MissingExtra

if TYPE_CHECKING:
    import pandas as pd


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: Name of the module.
        extra: The extra of this package that installs it.

    Raises:
        MissingExtra: The module is not installed; the message names the extra.
    """
    with needs_extra(module, extra):
        return importlib.import_module(module)


@contextmanager
def needs_extra(module: str, extra: str) -> Iterator[None]:
    """Raise `MissingExtra` if an import within the ``with`` block fails; arguments as for `require`."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(module, extra) from error


def require_installed(module: str, extra: str) -> None:
    """Raise `MissingExtra` if a module is not installed, without importing it."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(module, extra)


def data_frame(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    conditional: Iterable[str] = (),
) -> pd.DataFrame:
    """Return rows as a DataFrame.

    Args:
        rows: The rows.
        columns: Names of the columns; None takes those of the rows.
        conditional: Columns that may have empty cells. One of whole numbers gets the type ``Int64``; as NumPy's floats,
            which pandas would choose, 16 would become 16.0.

    Raises:
        MissingExtra: pandas is not installed.
    """
    pandas = require("pandas", "dataframe")
    frame: pd.DataFrame = pandas.DataFrame(list(rows), columns=columns)
    for name in conditional:
        cells = [row.get(name) for row in rows]
        values = [cell for cell in cells if cell is not None]
        if 0 < len(values) < len(cells) and all(
            type(value) is int and -(2**63) <= value < 2**63 for value in values
        ):
            frame[name] = pandas.array(cells, dtype="Int64")
    return frame
