"""Which recorded configurations are neighbours: pairs of rows that differ in one column.

The definitions of "Benchmarking optimization algorithms for auto-tuning GPU kernels" (Schoonhoven et al. 2022),
section III-B: Hamming (Eq. 2), any other value of one parameter; adjacent, a value next to it in the parameter's list.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from baco_like._typing import Codes, Ints, Mask
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.results.recording import Recording
from baco_like.spaces.space import Space

Neighbourhood = Literal["adjacent", "hamming"]

_WIDEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Column:
    """One parameter of all rows.

    Attributes:
        codes: Number of the value, ``(n,)``.
        near: Tells of pairs of different values, the lesser first, which are neighbours.
        reach: At most so many values further in the same run of rows can a neighbour be.
    """

    codes: Ints
    near: Callable[[Ints, Ints], Mask]
    reach: int = sys.maxsize


def columns(recorded: Recording, neighbourhood: Neighbourhood) -> list[Column]:
    """Return the parameters of a recorded table in the order of its entries.

    Numbers are ordered as their list is. Other values have no order: all of them are adjacent. Permutations differ
    by a swap, of two elements that stand side by side (adjacent) or of any two (Hamming).

    Raises:
        ValueError: The neighbourhood is unknown.
    """
    _check(neighbourhood)
    return [
        _column([row[i] for row in recorded.entries], recorded.domains[name], neighbourhood)
        for i, name in enumerate(recorded.names)
    ]


def space_columns(space: Space, codes: Codes, neighbourhood: Neighbourhood) -> list[Column]:
    """Return the parameters of rows of a space's codes, ``(n, w)``; without reals; neighbours as in `columns`.

    Raises:
        ValueError: The neighbourhood is unknown.
    """
    _check(neighbourhood)
    return [
        _space_column(space.parameters[name], codes[:, space.columns[name]], neighbourhood)
        for name in space.active
    ]


def pairs(table: Sequence[Column]) -> Iterator[tuple[Ints, Ints]]:
    """Yield blocks of neighbouring rows, each pair of rows once.

    For every column the rows are sorted so that those alike in all others stand together; the pairs within such a
    run are those at distance 1, 2, ... in it. The work is that of the pairs there are.
    """
    for number, column in enumerate(table):
        others = [other.codes for other in table[:number]] + [o.codes for o in table[number + 1 :]]
        rest = _joint(others, len(column.codes))
        order = np.lexsort((column.codes, rest))
        rest, codes = rest[order], column.codes[order]
        first = np.arange(len(order))
        for lag in range(1, min(len(order) - 1, column.reach) + 1):
            first = first[: np.searchsorted(first, len(order) - lag)]
            first = first[rest[first] == rest[first + lag]]
            if not len(first):
                break
            found = first[column.near(codes[first], codes[first + lag])]
            yield order[found], order[found + lag]


def _check(neighbourhood: Neighbourhood) -> None:
    if neighbourhood not in get_args(Neighbourhood):
        raise ValueError(f"neighbourhood = {neighbourhood!r}; it is 'adjacent' or 'hamming'")


def _column(values: Sequence[Any], domain: Sequence[Any], neighbourhood: Neighbourhood) -> Column:
    number = {value: i for i, value in enumerate(domain)}
    codes = np.array([number[value] for value in values], dtype=np.int64)
    if all(isinstance(value, tuple) for value in domain):
        return Column(codes, _swap_apart(domain, neighbourhood))
    return _scalar(codes, all(isinstance(value, int | float) for value in domain), neighbourhood)


def _space_column(parameter: Parameter, codes: Codes, neighbourhood: Neighbourhood) -> Column:
    if parameter.width > 1:
        orders, numbers = np.unique(codes, axis=0, return_inverse=True)
        domain = [tuple(order) for order in np.argsort(orders, axis=1).tolist()]
        return Column(numbers.reshape(-1), _swap_apart(domain, neighbourhood))
    return _scalar(
        codes[:, 0].astype(np.int64), parameter.kind is ParameterKind.ORDERED, neighbourhood
    )


def _scalar(codes: Ints, ordered: bool, neighbourhood: Neighbourhood) -> Column:
    if ordered and neighbourhood == "adjacent":
        return Column(codes, lambda low, high: high - low == 1, reach=1)
    return Column(codes, lambda low, high: low != high)


def _swap_apart(
    domain: Sequence[tuple[Any, ...]], neighbourhood: Neighbourhood
) -> Callable[[Ints, Ints], Mask]:
    """Return what tells which orders of a permutation are one swap apart."""
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


def _joint(codes: Sequence[Ints], n: int) -> Ints:
    """Return one number per row that is the same exactly for rows with the same codes, ``(n,)``."""
    key = np.zeros(n, dtype=np.int64)
    span = 1
    for column in codes:
        values = int(column.max()) + 1
        if span * values > _WIDEST_KEY:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            span = int(key.max()) + 1
        key = key * values + column
        span *= values
    return key
