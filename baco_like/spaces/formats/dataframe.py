"""Spaces given as a table of the allowed configurations."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._typing import Codes, Ints, Mask
from baco_like.constraints.conditions import Conditions
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import SpaceError
from baco_like.parameters import Categorical, Ordinal, Parameter, Permutation
from baco_like.parameters.values import as_array, as_doubles, make_plain, value_keys
from baco_like.spaces.activity import Activity
from baco_like.spaces.formats.description import SpaceDescription
from baco_like.spaces.inputs import make_named, parameter_from_values
from baco_like.spaces.learned_conditions import learn_conditions

if TYPE_CHECKING:
    import pandas as pd


def read_dataframe(table: pd.DataFrame | Iterable[Mapping[str, Any]]) -> SpaceDescription:
    """Return the space whose feasible configurations are the rows of a table.

    Numbers become an `Ordinal`, tuples that are orders of the same elements a `Permutation`, anything else a
    `Categorical`. Duplicate rows are ignored. A parameter with empty cells is conditional: the other columns tell
    where it is active. None as a value needs a declared space.

    Args:
        table: A pandas frame, or one dictionary for each row. A missing key, None, and NaN are an empty cell.

    Raises:
        SpaceError: The table is empty, a column has no value, or empty cells that no other column explains; two columns
            have the same name, or a value has a type that no domain accepts.
    """
    columns = _columns(table)
    parameters, codes, active, cells_of = {}, {}, {}, {}
    for name, cells in columns.items():
        active[name] = np.ones(len(cells), dtype=np.bool_)
        if None in cells:
            active[name] = np.array([cell is not None for cell in cells])
        values, number = _distinct(name, cells, active[name])
        parameters[name] = _parameter(name, values)
        codes[name] = _codes(parameters[name], values)[number]
        cells_of[name] = [*values, None], number
    if not all(map(np.all, active.values())):
        columns = {n: list(map(v.__getitem__, i.tolist())) for n, (v, i) in cells_of.items()}
    conditions = _conditions(parameters, columns, active)
    for name, resting in conditions.resting.items():
        codes[name][~active[name]] = resting
    varying = {name: p for name, p in parameters.items() if p.cardinality != 1}
    if len(varying) < 2:
        return SpaceDescription(parameters, when=conditions.texts)
    kept = np.concatenate([codes[name] for name in varying], axis=1)
    rows = TableConstraint.of(varying, kept, has_inactive=bool(conditions))
    return SpaceDescription(parameters, (rows,), when=conditions.texts)


def _conditions(
    parameters: Mapping[str, Parameter],
    columns: Mapping[str, Sequence[Any]],
    active: Mapping[str, Mask],
) -> Conditions:
    """Return the conditions of the columns with empty cells.

    Raises:
        SpaceError: The other columns do not tell where a parameter is active.
    """
    conditions = Conditions.of(_learn(parameters, columns), parameters)
    seen = {}
    for name in {other for names in conditions.ancestors.values() for other in names}:
        cells, any_value = columns[name], columns[name][int(np.argmax(active[name]))]
        filled = [any_value if cell is None else cell for cell in cells]
        seen[name] = parameters[name].column(parameters[name].encode(filled))
    found = conditions.activity(seen)
    for name, own in active.items():
        wrong = np.flatnonzero(found.get(name, np.ones(len(own), dtype=np.bool_)) != own)
        if len(wrong):
            raise SpaceError(
                f"column {name!r} has no value in row {np.argmin(own)}, and the other columns do not tell where it has "
                "one; fill it in, drop the row, or write the space with the condition: "
                f"Space(..., when={{{name!r}: ...}}), or with None among its values"
            )
    return conditions


def _learn(
    parameters: Mapping[str, Parameter], columns: Mapping[str, Sequence[Any]]
) -> dict[str, str]:
    """Return the conditions of the columns with empty cells, as far as other columns explain them."""
    if not any(None in cells for cells in columns.values()):
        return {}
    rows = (zip(columns, row, strict=True) for row in zip(*columns.values(), strict=True))
    configs = [{name: value for name, value in row if value is not None} for row in rows]
    return learn_conditions(Activity(parameters, {}, Conditions.of(None, parameters)), configs)


def explained_columns(columns: Mapping[str, Sequence[Any]]) -> set[str]:
    """Return the names of the columns whose empty cells other columns explain: their values decide.

    Args:
        columns: Plain values, None for empty cells.
    """
    try:
        parameters = {
            name: _parameter(
                name, _number_distinct([cell for cell in cells if cell is not None])[0]
            )
            for name, cells in columns.items()
            if any(cell is not None for cell in cells)
        }
    except (SpaceError, TypeError):
        return set()
    return set(_learn(parameters, {name: columns[name] for name in parameters}))


def column_values(table: pd.DataFrame, name: str) -> list[Any]:
    """Return the cells of a column, None for empty ones: pandas has several marks for them."""
    column = table[name]
    values, empty = column.tolist(), column.isna().to_numpy()
    for row in np.flatnonzero(empty).tolist():
        values[row] = None
    return list(values)


def _columns(table: Any) -> dict[str, list[Any]]:
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        if len(set(table.columns)) < len(table.columns):
            raise SpaceError(f"the names of the columns must differ, got {list(table.columns)}")
        columns = {name: column_values(table, name) for name in table.columns}
    else:
        rows = list(table)
        if not all(isinstance(row, Mapping) for row in rows):
            raise SpaceError("a table of configurations must be a frame or a list of dictionaries")
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [_or_none(row.get(name)) for row in rows] for name in names}
    if not columns or not next(iter(columns.values())):
        raise SpaceError("the table has no row; a space needs at least one configuration")
    for name, cells in columns.items():
        if not isinstance(name, str):
            raise SpaceError(f"column {name!r} must have a string as its name")
        if None in cells:
            columns[name] = whole_numbers(cells)
    return columns


def _or_none(value: Any) -> Any:
    """Return None for NaN, and anything else unchanged."""
    return None if isinstance(value, float) and value != value else value


def whole_numbers(cells: Sequence[Any]) -> list[Any]:
    """Return the cells of a column, whole floats as ints if all are whole; beside empty cells pandas has no ints."""
    if all(cell is None or (isinstance(cell, float) and cell.is_integer()) for cell in cells):
        return [None if cell is None else int(cell) for cell in cells]
    return list(cells)


def _distinct(name: str, cells: Sequence[Any], active: Mask) -> tuple[list[Any], Ints]:
    """Return the distinct plain values of a column, and the index of each row's value, ``(n,)``; -1 for empty cells."""
    if not active.any():
        raise SpaceError(f"column {name!r} has no value; drop it")
    number = np.full(len(cells), -1, dtype=np.int64)
    filled = cells if active.all() else [cell for cell in cells if cell is not None]
    try:
        values, number[active] = _number_distinct(filled)
    except TypeError:
        raise SpaceError(f"column {name!r} must have numbers or strings") from None
    return values, number


def _number_distinct(given: Sequence[Any]) -> tuple[list[Any], Ints]:
    """Return the plain values that are distinct by type and value, and the index of each given one.

    Numbers are sorted, others stand as they appear.
    """
    values = make_plain(given)
    numbers = as_array(values)
    if numbers is not None:
        # With the first indices, the sort is stable: 0.0 stays before a later -0.0.
        sorted_numbers, _, places = np.unique(numbers, return_index=True, return_inverse=True)
        return sorted_numbers.tolist(), places
    if len(set(values)) == len(values):
        found, index = list(values), np.arange(len(values))
    else:
        keys = value_keys(values)
        first = dict(zip(reversed(keys), reversed(values), strict=True))  # of equal ones
        distinct = dict.fromkeys(keys)
        found = [first[key] for key in distinct]
        place = dict(zip(distinct, range(len(distinct)), strict=True))
        index = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    numbers = as_doubles(found)
    if numbers is None:
        return found, index
    order = np.argsort(numbers, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return list(map(found.__getitem__, order.tolist())), rank[index]


def _codes(parameter: Parameter, values: Sequence[Any]) -> Codes:
    """Return the codes of all values of a parameter, ``(n, w)``; they are indices where it lists them in this order."""
    if isinstance(parameter, (Categorical, Ordinal)) and all(
        map(operator.is_, parameter.values, values)
    ):
        return np.arange(len(values), dtype=np.float64)[:, None]
    return parameter.encode(values)


def _parameter(name: str, distinct: Sequence[Any]) -> Parameter:
    if set(map(type, distinct)) != {tuple}:
        return parameter_from_values(name, distinct)
    elements = sorted(map(repr, distinct[0]))
    if len(set(elements)) < len(elements) or any(
        sorted(map(repr, v)) != elements for v in distinct
    ):
        return parameter_from_values(name, distinct)
    return make_named(
        name, Permutation, sorted(distinct[0], key=lambda element: (str(type(element)), element))
    )
