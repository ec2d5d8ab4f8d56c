"""The features of the parameters of a space, without those that `baco_like.spaces.derived_features` adds."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Codes, Features, Ints
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.activity import ActiveSources
from baco_like.spaces.derived_features import FeaturedSpace
from baco_like.spaces.feature_table import FeatureTable, feature_columns

_DRAWN = 1024
"""Values of a parameter from which the mean of its features is taken, if it has more."""


class ParameterFeatures:
    """From rows of codes to the features of all parameters, one after the other.

    Args:
        space: The space.
    """

    def __init__(self, space: FeaturedSpace) -> None:
        self._space = space

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
        if self._gather is not None:
            return self._gather(codes)
        features = np.concatenate(self._parts(codes), axis=1)
        activity = self._space.activity
        return self._sources(features, activity.masks(codes)) if activity else features

    def _parts(self, codes: Codes) -> list[Features]:
        columns = self._space.columns.items()
        return [self._space.parameters[name].features(codes[:, at]) for name, at in columns]

    @cached_property
    def _gather(self) -> FeatureTable | None:
        """One table of all features, or None unless every parameter has few values."""
        if self._space.activity:
            return None
        tables = []
        for name in self._space.active:
            table = feature_columns(self._space.parameters[name])
            if table is None:
                return None
            tables += [(self._space.columns[name].start, column) for column in table.T]
        return FeatureTable(tables)

    @cached_property
    def _sources(self) -> ActiveSources:
        """The features of a space with conditional parameters, which compare active values only."""
        parameters = self._space.parameters
        parts = [p.features(_values(p)) for p in parameters.values()]
        return self._space.activity.sources([(name,) for name in parameters], parts)

    @cached_property
    def owner(self) -> Ints:
        """For each column, the index of its parameter among those that are not constant, ``(k,)``."""
        names, active = list(self._space.parameters), self._space.active
        if self._space.activity:
            place = {names.index(name): i for i, name in enumerate(active)}
            return np.array(
                [place[i] for i in self._sources.feature_owner.tolist()], dtype=np.int64
            )
        row = self._space.feasible.sample(1, np.random.default_rng(0))
        parts = zip(names, self._parts(row), strict=True)
        widths = [part.shape[1] for name, part in parts if name in active]
        return np.repeat(np.arange(len(active)), widths)


def _values(parameter: Parameter) -> Codes:
    """Return the codes of all values of a scalar, or of many random ones, ``(n, width)``."""
    if parameter.width == 1 and parameter.cardinality <= _DRAWN:
        return parameter.code_range[0] + np.arange(parameter.cardinality, dtype=np.float64)[:, None]
    return parameter.sample_uniform(_DRAWN, generator(0, Purpose.SAMPLE))
