"""Listed values without an order: flags, names, switches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Column, Features, Mask, Rng
from baco_like.spaces import distances
from baco_like.spaces import prior as priors
from baco_like.spaces.values import (
    Lookup,
    Value,
    checked_default,
    domain_values,
    indices,
    legal_indices,
    shown,
    value_column,
)


@final
@dataclass(frozen=True, init=False)
class Categorical:
    """Listed values without an order; the code is the index in the order given.

    Values are strings, bools and numbers, also mixed; ``1``, ``1.0`` and ``True`` are three values. When a
    configuration is read, a number also finds the one number that equals it (``2.0`` finds ``2``).

    Attributes:
        values: In the order given.
        default: The user's default value, or None.
        prior: One weight for each value, or None.

    Raises:
        SpaceError: No value, one twice, or one of another type; the default is no value; the prior does not fit.
    """

    values: tuple[Value, ...]
    default: Value | None = None
    prior: priors.Weights | None = None
    _lookup: Lookup = field(init=False, repr=False, compare=False)
    _column: Column = field(init=False, repr=False, compare=False)

    def __init__(
        self, values: Iterable[Any], default: Any = None, prior: Sequence[float] | None = None
    ) -> None:
        found = domain_values(values)
        lookup = Lookup.of(found)
        weights = None if prior is None else priors.weights(prior, len(found))
        index = None if default is None else lookup.find(default)
        if default is not None:
            checked_default(default, index is not None, shown(found))
        made = {
            "values": found,
            "default": None if index is None else found[index],
            "prior": weights,
            "_lookup": lookup,
            "_column": value_column(found),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @property
    def width(self) -> int:
        """One code column."""
        return 1

    @property
    def cardinality(self) -> int | float:
        """Number of values."""
        return len(self.values)

    def contains(self, value: Any) -> bool:
        """Whether it is one of the values; ``2.0`` is where only ``2`` is, ``True`` is not where ``1`` is."""
        return self._lookup.find(value) is not None

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return indices, ``(n, 1)``.

        Raises:
            ConfigError: A value is not in the domain.
        """
        return self._lookup.encode(values)

    def decode(self, codes: Codes) -> list[Any]:
        """Return the values at these indices."""
        return [self.values[index] for index in indices(codes)]

    def column(self, codes: Codes) -> Column:
        """Return the values as one array, ``(n, 1)`` -> ``(n,)``; strings are Python objects."""
        return self._column[indices(codes)]

    def legal(self, codes: Codes) -> Mask:
        """Whether each code is an index."""
        return legal_indices(codes, len(self.values))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n indices from the prior, by default uniform."""
        if self.prior is not None:
            return priors.sample_weighted(self.prior, n, rng).astype(np.float64)[:, None]
        return rng.integers(0, len(self.values), size=(n, 1)).astype(np.float64)

    def log_density(self, codes: Codes) -> Array:
        """Return log of the prior's probability over that of no prior, ``(n, 1)`` -> ``(n,)``."""
        if self.prior is None:
            return np.zeros(len(codes))
        return priors.weights_log_density(self.prior)[indices(codes)]

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return 0 where the values are the same and 1 elsewhere (Hellsten et al. 2023, section 4.1)."""
        return distances.hamming(a[:, 0], b[:, 0])

    def features(self, codes: Codes) -> Features:
        """Return one-hot columns over the root of 2, ``(n, k)``; one column for two values, none for a constant."""
        count = len(self.values)
        if count == 1:
            return np.empty((len(codes), 0))
        if count == 2:
            return codes[:, :1].copy()
        return distances.one_hot(codes[:, 0], count) / math.sqrt(2.0)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description."""
        return {
            "type": "categorical",
            "values": list(self.values),
            "default": self.default,
            "prior": priors.prior_to_dict(self.prior),
        }
