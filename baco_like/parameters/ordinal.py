"""Listed values in an order: tile sizes, thread counts, levels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Column, Features
from baco_like.exceptions import SpaceError
from baco_like.parameters import distances
from baco_like.parameters import prior as priors
from baco_like.parameters.listed_values import Listed
from baco_like.parameters.values import (
    Lookup,
    Value,
    checked_default,
    domain_values,
    indices,
    is_number,
    shown,
    value_column,
)


@final
@dataclass(frozen=True, init=False)
class Ordinal(Listed):
    """Listed values in an order; the code is the index.

    Numbers are sorted, and their distance is that of the numbers. Strings keep the order given (``"small", "medium",
    "large"``), and their distance is that of their indices. Ints and floats may be mixed, but ``1`` and ``1.0`` are
    one number and refused as duplicates.

    Attributes:
        values: All numbers or all strings.
        log: Whether the numbers grow by factors: distance and features are then those of the logarithms. Sampling is
            uniform over the values all the same.
        default: The user's default value, or None.
        prior: One weight for each value, in the order the values were given, or None.

    Raises:
        SpaceError: No value, one twice, numbers and strings mixed, bools, not positive with ``log``; the default is
            no value; the prior does not fit.
    """

    values: tuple[Value, ...]
    log: bool = False
    default: Value | None = None
    prior: priors.Weights | None = None
    _lookup: Lookup = field(init=False, repr=False, compare=False)
    _places: Array = field(init=False, repr=False, compare=False)
    _unit: Array = field(init=False, repr=False, compare=False)
    _column: Column = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        values: Iterable[Any],
        log: bool = False,
        default: Any = None,
        prior: Sequence[float] | None = None,
    ) -> None:
        given = domain_values(values)
        numeric = _kind(given)
        order = (
            sorted(range(len(given)), key=given.__getitem__) if numeric else list(range(len(given)))
        )
        found = tuple(given[i] for i in order)
        _check(found, numeric, log)
        lookup = Lookup.of(found)
        places = _scaled(found, numeric, log)
        weights = None if prior is None else _ordered(prior, order)
        index = None if default is None else lookup.find(default)
        if default is not None:
            checked_default(default, index is not None, shown(found))
        made = {
            "values": found,
            "log": bool(log),
            "default": None if index is None else found[index],
            "prior": weights,
            "_lookup": lookup,
            "_places": places,
            "_unit": places / places[-1] if len(found) > 1 else places,
            "_column": value_column(found),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return the difference of the numbers, of their logarithms with ``log``, or of the indices of strings."""
        return distances.absolute(self._places[indices(a)], self._places[indices(b)])

    def features(self, codes: Codes) -> Features:
        """Return the place in the domain on [0, 1], ``(n, 1)``; no column for a constant."""
        if len(self.values) == 1:
            return np.empty((len(codes), 0))
        return self._unit[indices(codes)][:, None]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description."""
        return {
            "type": "ordinal",
            "values": list(self.values),
            "log": self.log,
            "default": self.default,
            "prior": priors.prior_to_dict(self.prior),
        }


def _kind(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers; False if all are strings.

    Raises:
        SpaceError: Neither.
    """
    if any(isinstance(value, bool) for value in values):
        raise SpaceError(
            f"an ordinal's values must be numbers or strings, got {shown(values)}; use Categorical"
        )
    numeric = is_number(values[0])
    if any(is_number(value) != numeric for value in values):
        raise SpaceError(
            f"numbers and strings have no common order in {shown(values)}; use Categorical"
        )
    return numeric


def _check(values: Sequence[Any], numeric: bool, log: bool) -> None:
    for left, right in pairwise(values):
        if numeric and left == right:
            raise SpaceError(f"values {left!r} and {right!r} are the same number; leave one out")
    if log and not (numeric and values[0] > 0):
        raise SpaceError(f"log=True needs positive numbers, got {values[0]!r}")
    if numeric and values[-1] - values[0] == math.inf:
        raise SpaceError(f"values {values[0]!r} and {values[-1]!r} are too far apart for doubles")


def _scaled(values: Sequence[Any], numeric: bool, log: bool) -> Array:
    """Return the distance of each value from the first, on the scale."""
    if not numeric:
        return np.arange(len(values), dtype=np.float64)
    try:
        if log:
            return np.array([math.log(value) for value in values]) - math.log(values[0])
        return np.array([float(value - values[0]) for value in values])
    except OverflowError:
        raise SpaceError(f"value {values[-1]!r} is beyond the largest double") from None


def _ordered(weights: Sequence[float], order: Sequence[int]) -> priors.Weights:
    found = priors.weights(weights, len(order))
    return tuple(found[i] for i in order)
