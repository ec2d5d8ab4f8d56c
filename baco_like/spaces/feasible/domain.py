"""The values of one parameter that a group of parameters may use, numbered 0, 1, ... ("positions")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco_like._typing import Array, Codes, Column, Ints, Mask
from baco_like.parameters.permutation_codes import (
    is_permutation,
    permutation_ranks,
    permutations_from_ranks,
)
from baco_like.parameters.protocol import Parameter, ParameterKind

_LOOKED_UP = 2**20
"""Most entries of a table of positions; larger domains are searched."""


@dataclass(frozen=True, eq=False)
class Domain:
    """Some values of one parameter, in the order of their keys.

    Attributes:
        name: The parameter.
        codes: Their codes, ``(size, width)``.
        column: Their values as constraints see them, ``(size,)`` or ``(size, m)``.
        keys: Increasing numbers that identify them, ``(size,)``: the code of a scalar, the lexicographic rank of a
            permutation.
        ordered: Whether neighbouring codes are similar values.
        total: Number of the parameter's values before constraints removed some.
    """

    name: str
    codes: Codes
    column: Column
    keys: Array
    ordered: bool
    total: int

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.keys)

    @property
    def width(self) -> int:
        """Number of code columns."""
        return int(self.codes.shape[1])

    def subset(self, mask: Mask) -> Domain:
        """Return the domain of the values where ``mask``, ``(size,)``, is True."""
        return replace(self, codes=self.codes[mask], column=self.column[mask], keys=self.keys[mask])

    @property
    def is_complete(self) -> bool:
        """Whether it has all values, or is not an ordered scalar."""
        return self.size == self.total or self.width > 1 or not self.ordered

    def positions(self, codes: Codes) -> Ints:
        """Return the position of each row of codes, ``(n, width)`` -> ``(n,)``, or -1 if it has none."""
        if self.size == 0:
            return np.full(len(codes), -1, dtype=np.int64)
        keys = codes[:, 0]
        if self.width > 1:
            keys = np.where(is_permutation(codes), permutation_ranks(codes), -1)
        low, high = self.keys[0], self.keys[-1]
        if high - low + 1 == self.size:  # no gaps, so no search
            return _whole(keys - low, self.size)
        found = np.minimum(np.searchsorted(self.keys, keys), self.size - 1)
        return np.where(self.keys[found] == keys, found, -1)


def _whole(numbers: Array, size: int | Ints) -> Ints:
    """Return whole numbers in ``range(size)`` as integers, and -1 for other numbers."""
    inside = (numbers >= 0) & (numbers < size)
    whole = np.where(inside, numbers, -1).astype(np.int64)
    return np.where(whole == numbers, whole, -1)


@dataclass(frozen=True, eq=False)
class Lookup:
    """The positions of several scalars' codes at once, from one table.

    Attributes:
        low: The least code of each domain, ``(d,)``.
        span: The greatest minus the least, plus 1, ``(d,)``.
        start: First entry of each domain in the table, ``(d,)``.
        table: Position of every whole number from the least to the greatest code, or -1; then one more -1.
    """

    low: Array
    span: Ints
    start: Ints
    table: Ints

    def positions(self, codes: Codes) -> Ints:
        """Return the position of each code in its column's domain, ``(n, d)`` -> ``(n, d)``, or -1."""
        whole = _whole(codes - self.low, self.span)
        return np.asarray(self.table[np.where(whole >= 0, whole + self.start, -1)])


def build_lookup(domains: Sequence[Domain]) -> Lookup | None:
    """Return the table of some domains, or None if one has several columns, fractions, or a very wide range."""
    if any(domain.width > 1 or domain.size == 0 for domain in domains):
        return None
    keys = [domain.keys for domain in domains]
    low = np.array([key[0] for key in keys])
    spans = np.array([key[-1] - key[0] + 1 for key in keys])
    if spans.sum() > _LOOKED_UP or any((key != np.rint(key)).any() for key in keys):
        return None
    span = spans.astype(np.int64)
    start = np.cumsum(span) - span
    table = np.full(int(span.sum()) + 1, -1, dtype=np.int64)
    for key, least, begin in zip(keys, low, start, strict=True):
        table[(key - least).astype(np.int64) + begin] = np.arange(len(key))
    return Lookup(low, span, start, table)


def list_domain(name: str, parameter: Parameter) -> Domain:
    """Return all values of a parameter with a finite cardinality (a permutation's are listed)."""
    count = int(parameter.cardinality)
    if parameter.width > 1:
        codes = permutations_from_ranks(np.arange(count), parameter.width).astype(np.float64)
        keys = np.arange(count, dtype=np.float64)
        return Domain(name, codes, parameter.column(codes), keys, ordered=True, total=count)
    codes = parameter.code_range[0] + np.arange(count, dtype=np.float64)[:, None]
    ordered = parameter.kind is not ParameterKind.UNORDERED
    return Domain(name, codes, parameter.column(codes), codes[:, 0], ordered, count)
