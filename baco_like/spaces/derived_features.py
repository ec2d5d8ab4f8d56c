"""Additional features for models: logarithms, halvings, products, quotients and orders, derived from the space alone.

Three facts are known before anything runs. The values of a tuning parameter that is a list of positive numbers (block
and tile sizes, unroll factors) act by their ratios, so their features are logarithms. Hardware works in powers of two,
so the number of times such a value can be halved (48: four times, 64: six times) is an additional feature, unless it
is correlated with the value. And the products and quotients in the known constraints are quantities that matter:
threads per block in ``bx * by <= 1024``, the number of groups in ``global_size % local_size == 0``. Permutations get
the groups of `baco_like.spaces.order_features`. All other features are the parameters' own features. What is derived
from a conditional parameter compares active values only, as its own features do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints
from baco_like.constraints.expression import Expression
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.parameters.values import is_number
from baco_like.spaces.activity import ActiveSources
from baco_like.spaces.feature_table import FeaturedSpace, FeatureTable, OwnFeatures
from baco_like.spaces.order_features import order_features

_ALIKE = 0.95
"""A feature that is correlated with another by more than this over a domain is left out."""

_DRAWN = 1024
"""Feasible rows from which the range of a product is estimated."""


class _Combination(NamedTuple):
    """A product or quotient of parameters.

    Attributes:
        names: The parameters.
        logs: The logarithms to add, with a negative sign for divisors.
        low: Least sum.
        high: Largest sum.
    """

    names: tuple[str, ...]
    logs: FeatureTable
    low: float
    high: float


class DerivedFeatures:
    """A space as models see it: parameters, halvings, products and quotients of values, and features of orders.

    Args:
        space: The space.

    Attributes:
        space: The space.
        active: Names of the sources of the features: the active parameters, then the halvings, products, quotients
            and groups of features of permutations.
        feature_owner: For each feature column, the index of its name in `active`, ``(k,)``.
        own_features: The features of the parameters alone, the inactive ones at rest, ``(n, w)`` -> ``(n, j)``.
        own_owner: For each column of `own_features`, the index of its parameter in `active`, ``(j,)``.
    """

    def __init__(self, space: FeaturedSpace) -> None:
        self.space = space
        positive = _positive(space)
        logs = {name: _logarithms(parameter) for name, parameter in positive.items()}
        units = {name: _unit(table) for name, table in logs.items()}
        halvings = {}
        for name, parameter in positive.items():
            counts = _halvings(parameter)
            if np.ptp(counts) and abs(np.corrcoef(counts, units[name])[0, 1]) < _ALIKE:
                halvings[name] = _unit(counts)
        combined = _combinations(space, logs)
        self._halvings = len(halvings)
        self._halved = FeatureTable([(space.columns[n].start, t) for n, t in halvings.items()])
        self._combined = list(combined.values())
        self._orders = [
            group
            for name in space.active
            if space.parameters[name].kind is ParameterKind.PERMUTATION
            for group in order_features(name, space.columns[name])
        ]
        self.own_features = OwnFeatures(space, units)
        self.own_owner = self.own_features.owner
        additional = [f"halvings of {name}" for name in halvings]
        additional += combined
        widths = [1] * len(additional) + [group.width for group in self._orders]
        additional += [group.name for group in self._orders]
        self.active = (*space.active, *additional)
        owner = len(space.active) + np.repeat(np.arange(len(additional)), widths)
        self.feature_owner: Ints = np.concatenate([self.own_owner, owner])
        self._sources: ActiveSources | None = None
        if space.activity:
            read: list[tuple[str, ...]] = [(name,) for name in [*space.active, *halvings]]
            read += [combination.names for combination in self._combined]
            read += [(group.parameter,) for group in self._orders]
            drawn = space.feasible.sample(space.affordable(_DRAWN), np.random.default_rng(0))
            features, sources = self._features_of_values(drawn), np.arange(len(read))
            parts = [features[:, self.feature_owner == source] for source in sources]
            self._sources = space.activity.sources(read, parts)
            self.feature_owner = self._sources.feature_owner
        self._latest: tuple[Codes, Features] = (np.empty((0, 0)), np.empty((0, 0)))

    def features(self, codes: Codes) -> Features:
        """Return the features that a model sees, ``(n, w)`` -> ``(n, k)``; those of the listed rows are cached."""
        feasible = self.space.feasible
        if len(codes) == feasible.count and codes is feasible.listed:
            return self._listed
        # The model of failures sees the candidates that the model of the cost has just seen.
        known, features = self._latest
        if known.shape != codes.shape or not np.array_equal(known, codes):
            features = self._features(codes)
            features.flags.writeable = False
            self._latest = codes.copy(), features
        return features

    @cached_property
    def _listed(self) -> Features:
        return self._features(self.space.feasible.listed)

    def _features(self, codes: Codes) -> Features:
        features = self._features_of_values(codes)
        if self._sources is None:
            return features
        return self._sources(features, self.space.activity.masks(codes))

    def _features_of_values(self, codes: Codes) -> Features:
        """Return the features as if every parameter were active, ``(n, w)`` -> ``(n, k)``."""
        own = self.own_features(codes)
        if not (self._halvings or self._combined or self._orders):
            return own
        parts = [own, self._halved(codes)]
        for _, logs, low, high in self._combined:
            parts.append((logs(codes).sum(axis=1, keepdims=True) - low) / (high - low))
        parts += [group(codes) for group in self._orders]
        return np.concatenate(parts, axis=1)


def _positive(space: FeaturedSpace) -> dict[str, Parameter]:
    """Return the active parameters that are lists of positive numbers whose logarithms differ."""
    positives = {}
    for name in space.active:
        parameter = space.parameters[name]
        if parameter.values is None or parameter.kind is not ParameterKind.ORDERED:
            continue
        numbers = [float(value) for value in parameter.values if is_number(value)]
        positive = len(numbers) == len(parameter.values) and min(numbers) > 0
        if positive and len(np.unique(_logarithms(parameter))) == len(numbers):
            positives[name] = parameter
    return positives


def _logarithms(parameter: Parameter) -> Array:
    return np.log(np.array(parameter.values, dtype=np.float64))


def _unit(numbers: Array) -> Array:
    """Return the numbers scaled to [0, 1]."""
    return np.asarray((numbers - numbers.min()) / np.ptp(numbers))


def _halvings(parameter: Parameter) -> Array:
    """Return the number of times each value can be halved and stays whole; 0 for fractions."""
    numbers = [float(value) for value in parameter.values or ()]
    whole = [int(number) if number.is_integer() else 1 for number in numbers]
    return np.array([(v & -v).bit_length() - 1 for v in whole], dtype=np.float64)


def _combinations(space: FeaturedSpace, logs: Mapping[str, Array]) -> dict[str, _Combination]:
    """Return the products and quotients that constraints name and that vary, by their text."""
    expressions = [c for c in space.constraints if isinstance(c, Expression)]
    named: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (factors, ()) for expression in expressions for factors in expression.products()
    ]
    named += [quotient for expression in expressions for quotient in expression.quotients()]
    active = [tuple(tuple(n for n in part if n in space.active) for part in both) for both in named]
    varying = [
        (above, below)
        for above, below in dict.fromkeys(active)
        if len({*above, *below}) > 1 and all(name in logs for name in (*above, *below))
    ]
    if not varying:
        return {}
    rows = space.feasible.sample(space.affordable(_DRAWN), np.random.default_rng(0))
    found = {}
    for above, below in varying:
        tables = [(space.columns[name].start, logs[name]) for name in above]
        tables += [(space.columns[name].start, -logs[name]) for name in below]
        gather = FeatureTable(tables)
        sums = gather(rows).sum(axis=1)
        if np.ptp(sums) > 0:
            low, high = float(sums.min()), float(sums.max())
            found[_describe(above, below)] = _Combination((*above, *below), gather, low, high)
    return found


def _describe(above: Sequence[str], below: Sequence[str]) -> str:
    text = " * ".join(above)
    divisor = " * ".join(below)
    return f"{text} / ({divisor})" if len(below) > 1 else f"{text} / {divisor}" if below else text
