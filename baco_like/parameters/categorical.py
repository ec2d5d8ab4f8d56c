"""Listed values without an order: flags, names, switches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Column, Features
from baco_like.parameters import distances
from baco_like.parameters import prior as priors
from baco_like.parameters.listed_values import Listed
from baco_like.parameters.values import (
    Lookup,
    Value,
    checked_default,
    domain_values,
    shown,
    value_column,
)


@final
@dataclass(frozen=True, init=False)
class Categorical(Listed):
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
