"""What parameters with listed values share: the code is an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Column, Mask, Rng
from baco_like.parameters import prior as priors
from baco_like.parameters.values import Lookup, Value, indices, legal_indices


class Listed:
    """The part of the parameter protocol that needs no more than the list; distance and features are the heir's.

    Attributes:
        values: In the order of the codes.
        prior: One weight for each value, or None.
    """

    values: tuple[Value, ...]
    prior: priors.Weights | None
    _lookup: Lookup
    _column: Column

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
        """Return the values as one array, ``(n, 1)`` -> ``(n,)``: bools, ints, floats (or both), or objects."""
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
