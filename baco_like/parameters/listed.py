"""Listed values, with or without an order."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Features
from baco_like.exceptions import SpaceError
from baco_like.parameters import distances, priors
from baco_like.parameters.bases import ListedParameter, checked_default
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import (
    INT64,
    Category,
    Lookup,
    Value,
    as_array,
    as_doubles,
    domain_values,
    indices,
    shorten,
)


@final
@dataclass(frozen=True, init=False)
class Categorical(ListedParameter):
    """Listed values without an order; the code is the index in the order given.

    Values are strings, bools, numbers, None and tuples of these, also mixed; ``1``, ``1.0`` and ``True`` are three
    values. When a configuration is read, a number also matches the one number that is equal to it (``2.0`` matches
    ``2``), a list the equal tuple, and a missing value None.

    Attributes:
        values: In the order given.
        default: Value in the default configuration, or None: no default, unless None is a value.
        prior: One weight for each value, or None.

    Raises:
        SpaceError: The list is empty, contains a value twice or a value of another type; the default is not in the
            list; the prior does not fit.
    """

    kind = ParameterKind.UNORDERED

    values: tuple[Category, ...]
    default: Category = None
    prior: priors.Weights | None = None

    def __init__(
        self, values: Iterable[Any], default: Any = None, prior: Sequence[float] | None = None
    ) -> None:
        listed = domain_values(values, are_categories=True)
        weights = None if prior is None else priors.weights(prior, len(listed))
        vars(self).update(values=listed, _lookup=Lookup(listed), prior=weights)
        vars(self).update(default=checked_default(self, default))

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return 0 for equal values and 1 for different ones (Hellsten et al. 2023, section 4.1)."""
        return distances.hamming(a[:, 0], b[:, 0])

    def features(self, codes: Codes) -> Features:
        """Return one-hot columns over the root of 2, ``(n, k)``; one column for two values, none for a constant."""
        count = len(self.values)
        if count == 1:
            return np.empty((len(codes), 0))
        if count == 2:
            return codes[:, :1].copy()
        return distances.one_hot(codes[:, 0], count) / math.sqrt(2.0)


@final
@dataclass(frozen=True, init=False)
class Ordinal(ListedParameter):
    """Listed values in an order; the code is the index.

    Numbers are sorted, and their distance is the difference of the numbers. Strings keep the order given (``"small",
    "medium", "large"``), and their distance is the difference of their indices. Ints and floats may be mixed, but
    ``1`` and ``1.0`` are the same number and rejected as duplicates.

    Attributes:
        values: All numbers or all strings.
        log: Whether steps are ratios, as for sizes: distance and features then use the logarithm. Sampling is
            uniform over the values in either case.
        default: Value in the default configuration, or None.
        prior: One weight for each value, in the order the values were given, or None.

    Raises:
        SpaceError: The list is empty, contains a value twice, mixes numbers and strings, contains bools, or is not
            positive with ``log``; the default is not in the list; the prior does not fit.
    """

    kind = ParameterKind.ORDERED

    values: tuple[Value, ...]
    log: bool = False
    default: Value | None = None
    prior: priors.Weights | None = None
    _positions: Array = field(init=False, repr=False, compare=False)
    """Distance of each value from the first, on the scale."""

    def __init__(
        self,
        values: Iterable[Any],
        log: bool = False,
        default: Any = None,
        prior: Sequence[float] | None = None,
    ) -> None:
        given = domain_values(values)
        numeric = _are_numbers(given)
        order = _sorted_order(given) if numeric else range(len(given))
        listed = tuple(map(given.__getitem__, order))
        positions = _positions(listed, numeric, log)
        weights = None if prior is None else priors.weights(prior, len(listed))
        sorted_weights = None if weights is None else tuple(weights[i] for i in order)
        vars(self).update(values=listed, log=bool(log), prior=sorted_weights, _positions=positions)
        vars(self).update(_lookup=Lookup(listed))
        vars(self).update(default=checked_default(self, default))

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return the difference of the numbers, of their logarithms with ``log``, or of the indices of strings."""
        return distances.absolute(self._positions[indices(a)], self._positions[indices(b)])

    def features(self, codes: Codes) -> Features:
        """Return the position in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
        if len(self.values) == 1:
            return np.empty((len(codes), 0))
        return np.asarray(self._positions[indices(codes)][:, None] / self._positions[-1])


def _are_numbers(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers; False if all are strings.

    Raises:
        SpaceError: They are neither.
    """
    types = set(map(type, values))
    if bool in types:
        raise SpaceError(
            f"an ordinal's values must be numbers or strings, got {shorten(values)}; use Categorical"
        )
    if str in types and len(types) > 1:
        raise SpaceError(
            f"numbers and strings have no common order in {shorten(values)}; use Categorical"
        )
    return str not in types


def _sorted_order(values: Sequence[Any]) -> Sequence[int]:
    """Return the indices of numbers in increasing order."""
    numbers = as_array(values)
    if numbers is None:
        numbers = as_doubles(values)
    if numbers is None:
        return sorted(range(len(values)), key=values.__getitem__)
    order: list[int] = np.argsort(numbers, kind="stable").tolist()
    return order


def _positions(values: Sequence[Any], numeric: bool, log: bool) -> Array:
    """Return the distance of each value from the first, on the scale.

    Raises:
        SpaceError: The scale does not suit the values, which are sorted if they are numbers.
    """
    if numeric and True in map(operator.eq, values, values[1:]):
        left, right = next(pair for pair in pairwise(values) if operator.eq(*pair))
        raise SpaceError(f"values {left!r} and {right!r} are the same number; leave one out")
    first, last = values[0], values[-1]
    if log and not (numeric and first > 0):
        raise SpaceError(f"log=True needs positive numbers, got {first!r}")
    if not numeric:
        return np.arange(len(values), dtype=np.float64)
    if last - first == math.inf:
        raise SpaceError(f"values {first!r} and {last!r} are too far apart for doubles")
    try:
        if log:
            return np.array([math.log(value) for value in values]) - math.log(first)
        numbers = as_array(values)
        if numbers is not None and last - first <= INT64:
            return np.asarray(numbers - first, dtype=np.float64)
        if numbers is None:
            numbers = as_doubles(values)
        if numbers is not None:
            return np.asarray(numbers - float(first))
        return np.array([float(value - first) for value in values])
    except OverflowError:
        raise SpaceError(f"value {last!r} is beyond the largest double") from None
