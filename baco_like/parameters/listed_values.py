"""Base class of parameters that are defined by a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Column, Ints, Mask, Rng
from baco_like.parameters import priors, scale
from baco_like.parameters.extent import Extent, extent_of
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import Lookup, indices, legal_indices, text_readings, value_column


class ListedParameter:
    """A parameter whose code is the index in its list of values.

    Subclasses set `kind`, `values` and, if they have them, `default` and `prior`; they define ``distance``,
    ``features`` and ``to_dict``.

    Attributes:
        kind: `ParameterKind.ORDERED` or `ParameterKind.UNORDERED`.
        values: Distinct values in the order of the codes.
        default: The user's default value, or None.
        prior: One weight for each value, or None.
    """

    kind: ParameterKind
    width = 1
    values: tuple[Any, ...]
    default: Any | None = None
    prior: priors.Weights | None = None

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup.of(self.values)

    @cached_property
    def _column(self) -> Column:
        return value_column(self.values)

    @property
    def cardinality(self) -> int | float:
        """Number of values."""
        return len(self.values)

    @property
    def code_range(self) -> tuple[float, float]:
        """The first and the last index."""
        return 0.0, len(self.values) - 1.0

    @property
    def extent(self) -> Extent:
        """Type and bounds of `column`."""
        return extent_of(self.values)

    def contains(self, value: Any) -> bool:
        """Whether it is one of the values; ``2.0`` is accepted for ``2``, ``True`` is not accepted for ``1``."""
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

    def value_from_text(self, text: Any) -> Any | None:
        """Return the value that a cell of a table or a JSON value means, or None."""
        found = (self._lookup.find(reading) for reading in text_readings(text))
        index = next((index for index in found if index is not None), None)
        return None if index is None else self.values[index]

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
        return self.sample_uniform(n, rng)

    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n uniformly drawn indices."""
        return rng.integers(0, len(self.values), size=(n, 1)).astype(np.float64)

    def log_density(self, codes: Codes) -> Array:
        """Return the log ratio of the prior's probability to the uniform one, ``(n, 1)`` -> ``(n,)``."""
        if self.prior is None:
            return np.zeros(len(codes))
        return priors.weights_log_density(self.prior)[indices(codes)]

    def to_unit(self, codes: Codes) -> Array:
        """Return the middles of the values' intervals, ``(n, 1)`` -> ``(n, 1)``: all have the same length."""
        return scale.interval_middles(codes, len(self.values))

    def from_unit(self, points: Array) -> Codes:
        """Return the codes of the intervals that contain the points, ``(n, 1)`` -> ``(n, 1)``."""
        return scale.interval_codes(points, len(self.values))

    def interval_lengths(self, codes: Codes) -> Array | None:
        """Return None: all intervals have the same length."""
        return None

    def neighbours(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return the codes one below and one above, or all others if unordered, and the row each belongs to."""
        count = len(self.values)
        if self.kind is ParameterKind.ORDERED:
            return scale.adjacent_codes(codes, count)
        others = np.tile(np.arange(count, dtype=np.float64), len(codes))[:, None]
        owner = np.repeat(np.arange(len(codes)), count)
        kept = (others != codes[owner])[:, 0]
        return others[kept], owner[kept]
