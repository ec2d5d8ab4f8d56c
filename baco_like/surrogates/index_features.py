"""Parameters as evenly spaced numbers: what a model sees in Kernel Tuner's Bayesian optimization.

Willemsen et al. 2021, section III-D: numerical inputs are normalised linearly, so that powers of two do not distort the
model; the user's order of values is the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from baco_like._typing import Codes, Features, Ints
from baco_like.spaces.space import Space


class IndexFeatures:
    """The features of a space in which every scalar is its index, from 0 to 1; permutations have their own.

    Args:
        space: Whose configurations are modelled.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.active = space.active

    @cached_property
    def _ends(self) -> dict[str, tuple[float, float]]:
        return {name: self._range(name) for name in self._scalars()}

    def _scalars(self) -> Iterable[str]:
        return (name for name in self.active if self._space.parameters[name].width == 1)

    def _range(self, name: str) -> tuple[float, float]:
        parameter = self._space.parameters[name]
        if parameter.cardinality == math.inf:
            low, high = self._space.bounds()[name]
            return float(low), float(high)
        return 0.0, float(parameter.cardinality - 1)

    def features(self, codes: Codes) -> Features:
        """Return one column per scalar, and those of the space for permutations, ``(n, w)`` -> ``(n, k)``."""
        parts = [np.empty((len(codes), 0))]
        for name in self.active:
            own = codes[:, self._space.columns[name]]
            if name in self._ends:
                low, high = self._ends[name]
                parts.append((own - low) / (high - low) if high > low else own - low)
            else:
                parts.append(self._space.parameters[name].features(own))
        return np.concatenate(parts, axis=1)

    @cached_property
    def feature_owner(self) -> Ints:
        """For each column, which of the `active` parameters it belongs to."""
        row = self._space.feasible.sample(1, np.random.default_rng(0))
        widths = [
            1
            if name in self._ends
            else self._space.parameters[name].features(row[:, self._space.columns[name]]).shape[1]
            for name in self.active
        ]
        return np.repeat(np.arange(len(self.active)), widths)
