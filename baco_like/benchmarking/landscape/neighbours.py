"""Find neighbours among recorded configurations: pairs of rows that differ in one column.

The definitions of "Benchmarking optimization algorithms for auto-tuning GPU kernels" (Schoonhoven et al. 2022),
section III-B. Hamming (Eq. 2): one parameter has any other value. Adjacent: one parameter has the next or the previous
value of its list.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from baco_like._typing import Codes, Ints, Mask
from baco_like.parameters.protocol import ParameterKind, is_permutation
from baco_like.results.recording import Recording
from baco_like.spaces.space import Space

Neighbourhood = Literal["adjacent", "hamming"]

_MAX_KEY = 2**62
"""Limit of the joint number of a row's values, below the largest 64-bit integer."""


@dataclass(frozen=True, eq=False)
class ValueColumn:
    """The values of one parameter in all rows.

    Attributes:
        codes: Number of the value, ``(n,)``.
        are_neighbours: For pairs of different values, the smaller first, returns which are neighbours.
        reach: Largest distance of neighbours among rows that are equal in all other columns and sorted by this one.
    """

    codes: Ints
    are_neighbours: Callable[[Ints, Ints], Mask]
    reach: int = sys.maxsize


def read_columns(recorded: Recording, neighbourhood: Neighbourhood) -> list[ValueColumn]:
    """Return the parameters of a recorded table in the order of its entries.

    Numbers have the order of their list. Other values have no order: all of them are adjacent. Neighbouring
    permutations differ by a swap of two consecutive elements (adjacent) or of any two elements (Hamming).

    Raises:
        ValueError: The neighbourhood is unknown.
    """
    columns = []
    for name, values in zip(recorded.names, zip(*recorded.entries, strict=True), strict=True):
        domain = recorded.domains[name]
        number = {value: i for i, value in enumerate((*domain, None))}  # None: inactive
        codes = np.array([number[value] for value in values], dtype=np.int64)
        ordered = all(isinstance(value, int | float) for value in domain)
        columns.append(_make_column(codes, domain, ordered, neighbourhood))
    return columns


def read_space_columns(
    space: Space, codes: Codes, neighbourhood: Neighbourhood
) -> list[ValueColumn]:
    """Return the parameters of encoded configurations, as `read_columns` does.

    Args:
        space: A space without real parameters.
        codes: The configurations, ``(n, w)``.
        neighbourhood: ``adjacent`` or ``hamming``.

    Raises:
        ValueError: The neighbourhood is unknown.
    """
    columns = []
    for name in space.active:
        parameter, part = space.parameters[name], codes[:, space.columns[name]]
        if parameter.width == 1:
            ordered = parameter.kind is ParameterKind.ORDERED
            columns.append(_make_column(part[:, 0].astype(np.int64), (), ordered, neighbourhood))
            continue
        distinct, numbers = np.unique(part, axis=0, return_inverse=True)
        domain: list[tuple[int, ...]] = []
        if is_permutation(parameter):
            domain = [tuple(order) for order in np.argsort(distinct, axis=1).tolist()]
        column = _make_column(numbers.reshape(-1), domain, False, neighbourhood)
        if parameter.kind is ParameterKind.ORDERED and neighbourhood == "adjacent":
            column = ValueColumn(column.codes, partial(_one_step_apart, distinct))
        columns.append(column)
    return columns


def neighbour_pairs(table: Sequence[ValueColumn]) -> Iterator[tuple[Ints, Ints]]:
    """Yield blocks of neighbouring rows, each pair of rows once.

    For each column the rows are sorted into groups that are equal in all other columns. The pairs of a group are the
    rows at distance 1, 2, ... in it. The effort is proportional to the number of pairs.
    """
    for number, column in enumerate(table):
        others = [other.codes for other in table[:number]] + [o.codes for o in table[number + 1 :]]
        rest = _joint_numbers(others, len(column.codes))
        order = np.lexsort((column.codes, rest))
        rest, codes = rest[order], column.codes[order]
        first = np.arange(len(order))
        for lag in range(1, min(len(order) - 1, column.reach) + 1):
            first = first[: np.searchsorted(first, len(order) - lag)]
            first = first[rest[first] == rest[first + lag]]
            if not len(first):
                break
            pairs = first[column.are_neighbours(codes[first], codes[first + lag])]
            yield order[pairs], order[pairs + lag]


def _make_column(
    codes: Ints, domain: Sequence[Any], ordered: bool, neighbourhood: Neighbourhood
) -> ValueColumn:
    if neighbourhood not in get_args(Neighbourhood):
        raise ValueError(f"neighbourhood = {neighbourhood!r}: expected 'adjacent' or 'hamming'")
    if domain and all(isinstance(value, tuple) for value in domain):
        return ValueColumn(codes, _one_swap_apart(domain, neighbourhood))
    if ordered and neighbourhood == "adjacent":
        return ValueColumn(codes, lambda low, high: high - low == 1, reach=1)
    return ValueColumn(codes, lambda low, high: low != high)


def _one_step_apart(distinct: Codes, a: Ints, b: Ints) -> Mask:
    return np.asarray(np.abs(distinct[a] - distinct[b]).sum(axis=1) == 1.0)


def _one_swap_apart(
    domain: Sequence[tuple[Any, ...]], neighbourhood: Neighbourhood
) -> Callable[[Ints, Ints], Mask]:
    """Return a function that finds orders of a permutation that are one swap apart."""
    number = {order: i for i, order in enumerate(domain)}
    near = np.zeros((len(domain), len(domain)), dtype=bool)
    for i, order in enumerate(domain):
        for a, b in combinations(range(len(order)), 2):
            if neighbourhood == "hamming" or b == a + 1:
                other = list(order)
                other[a], other[b] = other[b], other[a]
                near[i, number.get(tuple(other), i)] = True
    np.fill_diagonal(near, False)
    return lambda a, b: near[a, b]


def _joint_numbers(codes: Sequence[Ints], n: int) -> Ints:
    """Return a number per row; two rows have the same number exactly if their codes are equal, ``(n,)``."""
    key = np.zeros(n, dtype=np.int64)
    span = 1
    for column in codes:
        values = int(column.max()) + 1
        if span * values > _MAX_KEY:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            span = int(key.max()) + 1
        key = key * values + column
        span *= values
    return key
