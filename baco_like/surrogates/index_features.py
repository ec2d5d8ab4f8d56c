"""Parameters as evenly spaced numbers: the features of Kernel Tuner's Bayesian optimization.

Willemsen et al. 2021, section III-D, normalises numerical inputs linearly, so that powers of two do not distort the
model; the order of the values is the order in which the user lists them.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints
from baco_like.parameters.protocol import is_continuous
from baco_like.spaces.space import Space


class IndexFeatures:
    """The features of a space in which every scalar is its index, from 0 to 1; permutations keep their own features.

    Args:
        space: The space whose configurations are modelled.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.active = space.active
        active = {name: space.parameters[name] for name in self.active}
        bounds = space.bounds() if any(map(is_continuous, active.values())) else {}
        self._ranges: dict[str, tuple[float, float]] = {
            name: bounds[name] if is_continuous(parameter) else (0.0, parameter.cardinality - 1.0)
            for name, parameter in active.items()
            if parameter.width == 1
        }

    def features(self, codes: Codes) -> Features:
        """Return one column per scalar and the space's columns for permutations, ``(n, w)`` -> ``(n, k)``."""
        columns = [self._columns(name, codes) for name in self.active]
        return np.concatenate([np.empty((len(codes), 0)), *columns], axis=1)

    @cached_property
    def feature_owner(self) -> Ints:
        """For each column, the index of its parameter in `active`, ``(k,)``."""
        row = self._space.feasible.sample(1, np.random.default_rng(0))
        widths = [self._columns(name, row).shape[1] for name in self.active]
        return np.repeat(np.arange(len(self.active)), widths)

    def _columns(self, name: str, codes: Codes) -> Array:
        own = codes[:, self._space.columns[name]]
        if name not in self._ranges:
            return self._space.parameters[name].features(own)
        low, high = self._ranges[name]
        return (own - low) / (high - low) if high > low else own - low
