"""Which recorded configurations are neighbours: pairs of rows that differ in one column.

The definitions of "Benchmarking optimization algorithms for auto-tuning GPU kernels" (Schoonhoven et al. 2022),
section III-B: Hamming (Eq. 2), any other value of one parameter; adjacent, a value next to it in the parameter's list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from baco_like._typing import Ints, Mask
from baco_like.evaluators.recorded import Recorded

Neighbourhood = Literal["adjacent", "hamming"]

_WIDEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Column:
    """One parameter of all rows.

    Attributes:
        codes: Number of the value, ``(n,)``.
        near: Which values are neighbours, ``(values, values)``, or None where all are.
    """

    codes: Ints
    near: Mask | None


def columns(recorded: Recorded, neighbourhood: Neighbourhood) -> list[Column]:
    """Return the parameters of a recorded table in the order of its entries.

    Numbers are ordered as their list is. Other values have no order: all of them are adjacent. Permutations differ
    by a swap, of two elements that stand side by side (adjacent) or of any two (Hamming).

    Raises:
        ValueError: The neighbourhood is unknown.
    """
    if neighbourhood not in get_args(Neighbourhood):
        raise ValueError(f"neighbourhood = {neighbourhood!r}; it is 'adjacent' or 'hamming'")
    rows = list(zip(*recorded.entries, strict=True))
    return [
        _column(values, recorded.domains[name], neighbourhood)
        for name, values in zip(recorded.names, rows, strict=True)
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
        for lag in range(1, len(order)):
            first = first[: np.searchsorted(first, len(order) - lag)]
            first = first[rest[first] == rest[first + lag]]
            if not len(first):
                break
            found = first
            if column.near is not None:
                found = first[column.near[codes[first], codes[first + lag]]]
            yield order[found], order[found + lag]


def _column(values: Sequence[Any], domain: Sequence[Any], neighbourhood: Neighbourhood) -> Column:
    number = {value: i for i, value in enumerate(domain)}
    codes = np.array([number[value] for value in values], dtype=np.int64)
    if all(isinstance(value, tuple) for value in domain):
        return Column(codes, _swapped(domain, number, neighbourhood))
    if neighbourhood == "hamming" or not all(isinstance(value, Real) for value in domain):
        return Column(codes, None)
    i = np.arange(len(domain))
    return Column(codes, np.abs(i[:, None] - i) == 1)


def _swapped(
    domain: Sequence[tuple[Any, ...]],
    number: dict[tuple[Any, ...], int],
    neighbourhood: Neighbourhood,
) -> Mask:
    """Return which orders of a permutation are one swap apart."""
    near = np.zeros((len(domain), len(domain)), dtype=bool)
    for i, order in enumerate(domain):
        for a, b in combinations(range(len(order)), 2):
            if neighbourhood == "hamming" or b == a + 1:
                other = list(order)
                other[a], other[b] = other[b], other[a]
                near[i, number.get(tuple(other), i)] = True
    np.fill_diagonal(near, False)
    return near


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
