"""Spaces given as a table of the allowed configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._typing import Ints
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import SpaceError
from baco_like.parameters import Parameter, Permutation
from baco_like.parameters.values import plain
from baco_like.spaces.formats.description import SpaceDescription
from baco_like.spaces.inputs import make_named, parameter_from_values

if TYPE_CHECKING:
    import pandas as pd


def read_dataframe(table: pd.DataFrame | Iterable[Mapping[str, Any]]) -> SpaceDescription:
    """Return the space whose feasible configurations are the rows of a table.

    Numbers become an `Ordinal`, tuples that are orders of the same elements a `Permutation`, anything else a
    `Categorical`. Duplicate rows are ignored.

    Args:
        table: A pandas frame, or one dictionary for each row, all with the same keys.

    Raises:
        SpaceError: The table is empty, a row lacks a value, two columns have the same name, or a value has a type that
            no domain accepts.
    """
    columns = {name: _distinct(name, given) for name, given in _columns(table).items()}
    parameters = {name: _parameter(name, values) for name, (values, _) in columns.items()}
    varying = {name: p for name, p in parameters.items() if p.cardinality != 1}
    if len(varying) < 2:
        return SpaceDescription(parameters)
    codes = [p.encode(columns[name][0])[columns[name][1]] for name, p in varying.items()]
    rows = TableConstraint.of(varying, np.concatenate(codes, axis=1))
    return SpaceDescription(parameters, (rows,))


def column_values(table: pd.DataFrame, name: str) -> list[Any]:
    """Return the cells of a column, None for empty ones: pandas has several marks for them."""
    column = table[name]
    cells = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if is_empty else value for value, is_empty in cells]


def _columns(table: Any) -> dict[str, list[Any]]:
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        if len(set(table.columns)) < len(table.columns):
            raise SpaceError(f"the names of the columns must differ, got {list(table.columns)}")
        columns = {name: column_values(table, name) for name in table.columns}
    else:
        rows = list(table)
        if not all(isinstance(row, Mapping) for row in rows):
            raise SpaceError("a table of configurations must be a frame or a list of dictionaries")
        names = list(rows[0]) if rows else []
        for number, row in enumerate(rows):
            if set(row) != set(names):
                raise SpaceError(
                    f"row {number} has keys {sorted(map(str, row))}, the first {names}"
                )
        columns = {name: [row[name] for row in rows] for name in names}
    if not columns or not next(iter(columns.values())):
        raise SpaceError("the table has no row; a space needs at least one configuration")
    for name in columns:
        if not isinstance(name, str):
            raise SpaceError(f"column {name!r} must have a string as its name")
    return columns


def _distinct(name: str, given: Sequence[Any]) -> tuple[list[Any], Ints]:
    """Return the distinct plain values of a column, and the index of each row's value, ``(n,)``."""
    try:
        distinct, number = _numbered(given)
        cells = [_cell(name, int(np.argmax(number == i)), v) for i, v in enumerate(distinct)]
        values, again = _numbered(cells)
    except TypeError:
        raise SpaceError(f"column {name!r} must have numbers or strings") from None
    return values, again[number]


def _numbered(given: Sequence[Any]) -> tuple[list[Any], Ints]:
    """Return the values that are distinct by type and value, in order of appearance, and each value's index."""
    nested = not {list, tuple}.isdisjoint(map(type, given))
    keys = map(_key, given) if nested else zip(map(type, given), given, strict=True)
    numbers: dict[Any, int] = {}
    number = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    _, first = np.unique(number, return_index=True)
    return [given[i] for i in first.tolist()], number


def _key(value: Any) -> Any:
    """Return a key that distinguishes 1, 1.0 and True, also inside tuples."""
    if isinstance(value, list | tuple):
        return tuple, tuple(map(_key, value))
    return type(value), value


def _cell(name: str, row: int, value: Any) -> Any:
    value = plain(value)
    if value is None or value != value:
        raise SpaceError(f"column {name!r} has no value in row {row}; fill it in or drop the row")
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def _parameter(name: str, distinct: Sequence[Any]) -> Parameter:
    if not all(isinstance(value, tuple) for value in distinct):
        return parameter_from_values(name, distinct)
    orders = [sorted(map(repr, value)) for value in distinct]
    if any(order != orders[0] for order in orders):
        raise SpaceError(f"column {name!r} has tuples that are not orders of the same elements")
    return make_named(
        name, Permutation, sorted(distinct[0], key=lambda element: (str(type(element)), element))
    )
