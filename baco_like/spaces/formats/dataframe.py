"""A space given as the table of its allowed configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from baco_like._typing import Column, Ints, Mask
from baco_like.exceptions import SpaceError
from baco_like.spaces.formats.description import SpaceDescription, named
from baco_like.spaces.formats.kernel_tuner import values_parameter
from baco_like.spaces.language.columns import plain_values
from baco_like.spaces.parameter import Parameter
from baco_like.spaces.permutation import Permutation
from baco_like.spaces.values import plain

if TYPE_CHECKING:
    import pandas as pd


def read_dataframe(table: pd.DataFrame | Iterable[Mapping[str, Any]]) -> SpaceDescription:
    """Return the space whose feasible configurations are the rows of a table.

    Numbers become an `Ordinal`, tuples that are orders of the same elements a `Permutation`, anything else a
    `Categorical`. A row that stands twice counts once.

    Args:
        table: A frame of pandas, or dictionaries with the same keys, one a row.

    Raises:
        SpaceError: There is no row, a row lacks a value, or a value is of a type that no domain takes.
    """
    columns = _columns(table)
    parameters = {name: _parameter(name, values) for name, values in columns.items()}
    varying = [name for name, parameter in parameters.items() if parameter.cardinality != 1]
    if len(varying) < 2:
        return SpaceDescription(parameters)
    return SpaceDescription(parameters, _tables(parameters, columns, varying))


def _columns(table: Any) -> dict[str, list[Any]]:
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        columns = {name: list(table[name]) for name in table.columns}
    else:
        rows = list(table)
        if not all(isinstance(row, Mapping) for row in rows):
            raise SpaceError("a table of configurations must be a frame or a list of dictionaries")
        names = list(rows[0]) if rows else []
        for number, row in enumerate(rows):
            if set(row) != set(names):
                raise SpaceError(
                    f"row {number} has the keys {sorted(map(str, row))}, the first has {names}"
                )
        columns = {name: [row[name] for row in rows] for name in names}
    if not columns or not next(iter(columns.values())):
        raise SpaceError("the table has no row; a space needs at least one configuration")
    for name in columns:
        if not isinstance(name, str):
            raise SpaceError(f"column {name!r} must have a string as its name")
    return {
        name: [_cell(name, i, one) for i, one in enumerate(given)]
        for name, given in columns.items()
    }


def _cell(name: str, row: int, value: Any) -> Any:
    value = plain(value)
    missing = value is None or (isinstance(value, float) and value != value)
    if missing:
        raise SpaceError(f"column {name!r} has no value in row {row}; fill it in or drop the row")
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def _parameter(name: str, values: Sequence[Any]) -> Parameter:
    try:
        distinct = list({(type(value), value): value for value in values}.values())
    except TypeError:
        raise SpaceError(
            f"column {name!r} has values that are neither numbers nor strings"
        ) from None
    if not all(isinstance(value, tuple) for value in distinct):
        return values_parameter(name, distinct)
    orders = [sorted(map(repr, value)) for value in distinct]
    if any(order != orders[0] for order in orders):
        raise SpaceError(f"column {name!r} has tuples that are not orders of the same elements")
    return named(name, Permutation, sorted(distinct[0], key=lambda one: (str(type(one)), one)))


@final
@dataclass(frozen=True, eq=False)
class TableConstraint:
    """Holds for the combinations of values that occur in a table.

    The distinct rows are numbered column by column: a prefix of a row has the number that its own prefix and its next
    value have in a sorted array. So membership needs one binary search a column, and no number grows beyond the
    count of rows times that of one column's values.

    Attributes:
        parameters: The columns.
        text: How it is shown.
    """

    parameters: tuple[str, ...]
    text: str
    _read: Mapping[str, Parameter] = field(repr=False)
    _levels: tuple[Ints, ...] = field(repr=False)

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether they occur in the table."""
        digits = [one for name, p in self._read.items() for one in _digits(p, columns[name])]
        number = np.zeros(len(digits[0].index), dtype=np.int64)
        good = np.ones(len(number), dtype=np.bool_)
        for digit, keys in zip(digits, self._levels, strict=True):
            key = number * digit.size + digit.index
            number = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            good &= np.asarray(keys[number] == key) & (digit.index >= 0)
        return good

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the combination that is not in the table."""
        return ", ".join(f"{name} = {config[name]!r}" for name in self.parameters)


def _tables(
    parameters: Mapping[str, Parameter], columns: Mapping[str, Sequence[Any]], names: Sequence[str]
) -> tuple[TableConstraint, ...]:
    """Return the table as constraints on its first two, three, ... columns, so that a search can prune early."""
    levels: list[Ints] = []
    number = np.zeros(len(columns[names[0]]), dtype=np.int64)
    found: list[TableConstraint] = []
    for i, name in enumerate(names):
        parameter = parameters[name]
        for digit in _digits(parameter, parameter.column(parameter.encode(columns[name]))):
            keys, number = np.unique(number * digit.size + digit.index, return_inverse=True)
            levels.append(keys)
        if i > 0:
            read = {one: parameters[one] for one in names[: i + 1]}
            text = f"({', '.join(read)}) is a row of the table"
            found.append(TableConstraint(tuple(read), text, read, tuple(levels)))
    return tuple(found)


@dataclass(frozen=True)
class _Digit:
    """Numbers in ``range(size)`` that tell values apart, or -1, ``(n,)``."""

    index: Ints
    size: int


def _digits(parameter: Parameter, column: Column) -> list[_Digit]:
    """Return a scalar's index among its values, or the positions of a permutation's elements."""
    if column.ndim > 1:
        return [_Digit(one.astype(np.int64), column.shape[1]) for one in column.T]
    count = int(parameter.cardinality)
    domain = parameter.column(np.arange(count, dtype=np.float64)[:, None])
    if domain.dtype == object or column.dtype == object:
        numbers = {(type(one), one): i for i, one in enumerate(plain_values(parameter, domain))}
        values = plain_values(parameter, column)
        found = [numbers.get((type(one), one), -1) for one in values]
        return [_Digit(np.array(found, dtype=np.int64), count)]
    order = np.argsort(domain)
    at = order[np.minimum(np.searchsorted(domain, column, sorter=order), count - 1)]
    return [_Digit(np.where(domain[at] == column, at, -1), count)]
