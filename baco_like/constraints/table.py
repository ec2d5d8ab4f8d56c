"""A known constraint given as a table of the allowed combinations.

The distinct rows are numbered column by column, as in a trie: the number of a prefix is the position of its shorter
prefix and its last code in a sorted array. Membership needs one binary search for each column, and no number exceeds
the number of rows times the number of codes of a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from baco_like._typing import Codes, Column, Ints, Mask
from baco_like.constraints.language.exact import row_values
from baco_like.constraints.protocol import describe_values
from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter, is_permutation

WRITTEN = 2**22
"""Most codes of a table in JSON (about 10 MB)."""


@final
@dataclass(frozen=True, eq=False)
class TableConstraint:
    """Holds for the combinations of values that occur in a table.

    Attributes:
        parameters: The columns.
        text: Shown in messages.
        has_inactive: Whether rows may lack conditional parameters. They have the codes of resting values there, and the
            table also holds for configurations without these parameters.
    """

    parameters: tuple[str, ...]
    text: str
    _read: Mapping[str, Parameter] = field(repr=False)
    _levels: tuple[Ints, ...] = field(repr=False)
    """For every code column, the sorted numbers ``prefix * size + code`` of the prefixes that end there."""
    has_inactive: bool = False

    @classmethod
    def of(
        cls, parameters: Mapping[str, Parameter], codes: Codes, has_inactive: bool = False
    ) -> TableConstraint:
        """Return the constraint to these rows of legal codes, ``(n, w)``; duplicates are ignored.

        Raises:
            SpaceError: A parameter has several code columns and is not a permutation.
        """
        for name, parameter in parameters.items():
            if parameter.width > 1 and not is_permutation(parameter):
                raise SpaceError(
                    f"parameter {name!r} has {parameter.width} code columns, which a table of configurations cannot "
                    "limit; split it into one parameter for each, or write the constraint as a function"
                )
        columns = [column.astype(np.int64) for column in codes.T]
        levels = tuple(number_prefixes(columns, _sizes(parameters)))
        text = f"({', '.join(parameters)}) is one of {len(levels[-1])} rows of a table"
        return cls(tuple(parameters), text, dict(parameters), levels, has_inactive)

    @property
    def rows(self) -> int:
        """Number of distinct rows."""
        return len(self._levels[-1])

    @cached_property
    def codes(self) -> Ints:
        """The distinct rows of codes, sorted, ``(n, w)``."""
        number = np.arange(self.rows)
        columns: list[Ints] = []
        for size, keys in zip(_sizes(self._read)[::-1], self._levels[::-1], strict=True):
            number, code = np.divmod(keys[number], size)
            columns.append(code)
        return np.stack(columns[::-1], axis=1)

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether they occur in the table."""
        digits = [d for name, p in self._read.items() for d in _digits(p, columns[name])]
        number = np.zeros(len(digits[0]), dtype=np.int64)
        good = np.ones(len(number), dtype=np.bool_)
        for digit, size, keys in zip(digits, _sizes(self._read), self._levels, strict=True):
            key = number * size + digit
            number = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            good &= np.asarray(keys[number] == key) & (digit >= 0)
        return good

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the combination that is not in the table."""
        return describe_values(self.parameters, config)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description, by code columns; a table that is too large is only described by its text."""
        if self.rows * len(self._levels) > WRITTEN:
            return {"callable": self.text}
        written: dict[str, Any] = {"table": list(self.parameters), "codes": self.codes.T.tolist()}
        return {**written, "has_inactive": True} if self.has_inactive else written


def number_prefixes(columns: Sequence[Ints], sizes: Iterable[int]) -> list[Ints]:
    """Return, for every column, the sorted numbers ``prefix * size + digit`` of the distinct prefixes that end there.

    Args:
        columns: The digits of rows, ``(n,)`` each; ``prefix`` is the index of the shorter prefix among its numbers.
        sizes: Number of digits of each column.
    """
    levels: list[Ints] = []
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for size, column in zip(sizes, columns, strict=True):
        keys, number = np.unique(number * size + column, return_inverse=True)
        levels.append(keys)
    return levels


def table_from_dict(
    data: Mapping[str, Any], parameters: Mapping[str, Parameter]
) -> TableConstraint:
    """Return the constraint of a description by `TableConstraint.to_dict`.

    Raises:
        SpaceError: It does not name listed parameters of the space, or has codes that are not legal.
    """
    names, given = data.get("table"), data.get("codes")
    if not isinstance(names, list) or not names or len(set(map(repr, names))) < len(names):
        raise SpaceError(f"a table must name its parameters, each once, got {names!r:.60}")
    read: dict[str, Parameter] = {}
    for name in names:
        parameter = parameters.get(name) if isinstance(name, str) else None
        if parameter is None or (parameter.values is None and not is_permutation(parameter)):
            raise SpaceError(
                f"a table's column {name!r:.60} is not a listed parameter or a permutation"
            )
        read[name] = parameter
    codes = _checked_codes(given, sum(p.width for p in read.values()))
    start = 0
    for name, parameter in read.items():
        end = start + parameter.width
        if not parameter.legal(codes[:, start:end]).all():
            raise SpaceError(f"the table has codes that are not values of parameter {name!r}")
        start = end
    return TableConstraint.of(read, codes, data.get("has_inactive") is True)


def _checked_codes(given: Any, width: int) -> Codes:
    columns = given if isinstance(given, list) else []
    lists = all(isinstance(column, list) for column in columns)
    types = {type(code) for column in columns for code in column} if lists else set()
    if len(columns) != width or types != {int} or len(set(map(len, columns))) > 1:
        raise SpaceError(
            f"a table's codes must be {width} lists of as many whole numbers, one for each code column"
        )
    try:
        return np.array(given, dtype=np.float64).T
    except OverflowError:
        raise SpaceError("a table has a code beyond the largest double") from None


def _sizes(parameters: Mapping[str, Parameter]) -> list[int]:
    """Return the number of codes of each code column."""
    return [
        p.width if p.width > 1 else int(p.cardinality)
        for p in parameters.values()
        for _ in range(p.width)
    ]


def _digits(parameter: Parameter, column: Column) -> Sequence[Ints]:
    """Return a scalar's index among its values, -1 for other values, or the positions of a permutation's elements."""
    if column.ndim > 1:
        return list(column.T)
    count = int(parameter.cardinality)
    domain = parameter.column(np.arange(count, dtype=np.float64)[:, None])
    if domain.dtype == object or column.dtype == object:
        numbers = {(type(value), value): i for i, value in enumerate(row_values(parameter, domain))}
        values = row_values(parameter, column)
        indices = [numbers.get((type(value), value), -1) for value in values]
        return [np.array(indices, dtype=np.int64)]
    order = np.argsort(domain)
    at = order[np.minimum(np.searchsorted(domain, column, sorter=order), count - 1)]
    return [np.where(domain[at] == column, at, -1)]
