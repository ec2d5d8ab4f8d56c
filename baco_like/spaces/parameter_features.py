"""The features of the parameters of a space, without those that `baco_like.spaces.derived_features` adds."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Codes, Features, Ints
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.activity import ActiveSources
from baco_like.spaces.feature_table import FeaturedSpace, OwnFeatures

_DRAWN = 1024
"""Values of a parameter from which the mean of its features is taken, if it has more."""


class ParameterFeatures:
    """From rows of codes to the features of all parameters, one after the other.

    Args:
        space: The space.
    """

    def __init__(self, space: FeaturedSpace) -> None:
        self._space = space
        self._own = OwnFeatures(space)

    def __call__(self, codes: Codes) -> Features:
        """Return the features, ``(n, w)`` -> ``(n, k)``.

        Those of all listed rows are cached, because every suggestion uses them.
        """
        feasible = self._space.feasible
        if len(codes) == feasible.count and codes is feasible.listed:
            return self._listed
        return self._of(codes)

    @cached_property
    def _listed(self) -> Features:
        return self._of(self._space.feasible.listed)

    def _of(self, codes: Codes) -> Features:
        features, activity = self._own(codes), self._space.activity
        return self._sources(features, activity.masks(codes)) if activity else features

    @cached_property
    def _sources(self) -> ActiveSources:
        """The features of a space with conditional parameters, which compare active values only."""
        parameters = [self._space.parameters[name] for name in self._space.active]
        parts = [parameter.features(_values(parameter)) for parameter in parameters]
        return self._space.activity.sources([(name,) for name in self._space.active], parts)

    @property
    def owner(self) -> Ints:
        """For each column, the index of its parameter among those that are not constant, ``(k,)``."""
        return self._sources.feature_owner if self._space.activity else self._own.owner


def _values(parameter: Parameter) -> Codes:
    """Return the codes of all values of a scalar, or of many random ones, ``(n, width)``."""
    if parameter.width == 1 and parameter.cardinality <= _DRAWN:
        return parameter.code_range[0] + np.arange(parameter.cardinality, dtype=np.float64)[:, None]
    return parameter.sample_uniform(_DRAWN, generator(0, Purpose.SAMPLE))
