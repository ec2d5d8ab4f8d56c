"""The values of one parameter that a group of parameters may use, numbered 0, 1, ... ("positions")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Codes, Column, Ints, Mask
from baco_like.spaces.categorical import Categorical
from baco_like.spaces.feasible.ranking import (
    is_permutation,
    permutation_ranks,
    permutations_from_ranks,
)
from baco_like.spaces.parameter import Parameter


@dataclass(frozen=True, eq=False)
class Domain:
    """Some values of one parameter, in the order of their keys.

    Attributes:
        name: The parameter.
        codes: Their codes, ``(size, width)``.
        column: Their values as constraints see them, ``(size,)`` or ``(size, m)``.
        keys: Increasing numbers that identify them, ``(size,)``: the code of a scalar, the lexicographic rank of a
            permutation.
        ordered: Whether neighbouring codes are close values (not so for a categorical parameter).
    """

    name: str
    codes: Codes
    column: Column
    keys: Array
    ordered: bool = True

    @property
    def size(self) -> int:
        """How many values."""
        return len(self.keys)

    @property
    def width(self) -> int:
        """How many code columns."""
        return int(self.codes.shape[1])

    def subset(self, mask: Mask) -> Domain:
        """Return the domain of the values where ``mask``, ``(size,)``, is True."""
        return Domain(self.name, self.codes[mask], self.column[mask], self.keys[mask], self.ordered)

    def positions(self, codes: Codes) -> Ints:
        """Return the position of each row of codes, ``(n, width)`` -> ``(n,)``, or -1 where it has none."""
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


def _whole(numbers: Array, size: int) -> Ints:
    """Return the numbers as integers where they are whole and in ``range(size)``, else -1."""
    with np.errstate(
        invalid="ignore"
    ):  # what does not fit an integer becomes one that is not in range
        whole = numbers.astype(np.int64)
    return np.where((whole == numbers) & (whole >= 0) & (whole < size), whole, -1)


def full_domain(name: str, parameter: Parameter) -> Domain:
    """Return all values of a parameter with a finite cardinality (those of a permutation are listed)."""
    count = int(parameter.cardinality)
    if parameter.width > 1:
        codes = permutations_from_ranks(np.arange(count), parameter.width).astype(np.float64)
        return Domain(name, codes, parameter.column(codes), np.arange(count, dtype=np.float64))
    codes = np.arange(count, dtype=np.float64)[:, None]
    if count == 1:  # a constant real's code is its number; every draw of a constant is its value
        codes = parameter.sample(1, np.random.default_rng(0))
    return Domain(
        name, codes, parameter.column(codes), codes[:, 0], not isinstance(parameter, Categorical)
    )
