"""Listed values without an order: flags, names, switches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Array, Codes, Features
from baco_like.parameters import distances, priors
from baco_like.parameters.bases import ListedParameter, checked_default
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import Category, Lookup, domain_values


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
