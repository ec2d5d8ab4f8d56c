"""Additional features for models: logarithms, halvings, products, quotients and orders, derived from the space alone.

Three facts are known before anything runs. The values of a tuning parameter that is a list of positive numbers (block
and tile sizes, unroll factors) act by their ratios, so their features are logarithms. Hardware works in powers of two,
so the number of times such a value can be halved (48: four times, 64: six times) is an additional feature, unless it
is correlated with the value. And the products and quotients in the known constraints are quantities that matter:
threads per block in ``bx * by <= 1024``, the number of groups in ``global_size % local_size == 0``. Permutations get
the groups of `order_features`. All other features are the parameters' own features. What is derived
from a conditional parameter compares active values only, as its own features do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
from typing_extensions import override

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Features, Ints
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.parameters.numeric import Real, RealColumns
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.parameters.values import is_number
from baco_like.spaces.activity import ActiveSources, Activity
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.rows import as_slice

MOST_ELEMENTS = 16
"""Longer permutations keep their own features only: the number of columns grows with the square."""

FEWEST_ELEMENTS = 3
"""Two elements have a single pair, which their own features already tell."""


class FeatureSource(NamedTuple):
    """Further features of some parameters.

    Attributes:
        name: Name of the group.
        names: The parameters.
        width: The number of features.
        features: Returns the features of configurations, ``(n, w)`` -> ``(n, k)``.
    """

    name: str
    names: tuple[str, ...]
    width: int
    features: Callable[[Codes], Features]


def order_features(name: str, columns: slice) -> list[FeatureSource]:
    """Return the groups of one permutation; none if it is too short or too long.

    No single notion of similarity suits all orders. In a tour the neighbours of each element decide, in an assignment
    the place of each element, in a loop nest mostly which loop encloses which. A Gaussian process that sees each of
    them as a group with its own lengthscale finds out which one explains the values. The squared distance of two orders
    is at most 1 in each group.

    Args:
        name: The name of the permutation.
        columns: Its code columns: the position of each element.
    """
    elements = columns.stop - columns.start
    if not FEWEST_ELEMENTS <= elements <= MOST_ELEMENTS:
        return []
    pairs = list(combinations(range(elements), 2))
    # The roots make the largest squared distance 1: all pairs differ (Kendall), all elements move, which changes two
    # columns each (Hamming), or all adjacent pairs are new.
    pairs_scale = 1.0 / np.sqrt(len(pairs))
    places_scale = 1.0 / np.sqrt(2 * elements)
    adjacent_scale = 1.0 / np.sqrt(2 * (elements - 1))

    # One small product gives the differences of all pairs; gathering both sides takes twice the time.
    signs = np.zeros((elements, len(pairs)))
    for column, (first, second) in enumerate(pairs):
        signs[first, column], signs[second, column] = 1.0, -1.0
    one_hot = places_scale * np.eye(elements)

    def precedence(codes: Codes) -> Features:
        return np.asarray((codes[:, columns] @ signs < 0.0) * pairs_scale)

    def place(codes: Codes) -> Features:
        places = np.take(one_hot, codes[:, columns].astype(np.intp), axis=0)
        return places.reshape(len(codes), elements**2)

    def adjacency(codes: Codes) -> Features:
        return np.asarray((np.abs(codes[:, columns] @ signs) == 1.0) * adjacent_scale)

    return [
        FeatureSource(f"precedence in {name}", (name,), len(pairs), precedence),
        FeatureSource(f"places in {name}", (name,), elements**2, place),
        FeatureSource(f"adjacency in {name}", (name,), len(pairs), adjacency),
    ]


_TABLED = 4096
"""Most values of a parameter for which its features are tabulated."""


class FeaturedSpace(Protocol):
    """The members of `Space` from which features are made."""

    parameters: dict[str, Parameter]
    columns: dict[str, slice]
    active: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    feasible: FeasibleSet
    activity: Activity

    def affordable(self, draws: int) -> int:
        """Return the number of random rows that are worth their time."""


class FeatureTable:
    """A table of numbers by code, for several code columns.

    Args:
        tables: Pairs of a code column and the numbers of its codes 0, 1, ...
    """

    def __init__(self, tables: Sequence[tuple[int, Array]]) -> None:
        self._columns = as_slice(np.array([column for column, _ in tables], dtype=np.int64))
        self._numbers = np.concatenate([np.empty(0), *(table for _, table in tables)])
        lengths = np.array([len(table) for _, table in tables], dtype=np.int64)
        self._start = (np.cumsum(lengths) - lengths).astype(np.float64)  # of each column's table

    def __call__(self, codes: Codes) -> Array:
        """Return the numbers of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        places = (codes[:, self._columns] + self._start).astype(np.int64)
        return np.asarray(self._numbers.take(places))


class OwnFeatures:
    """The features of a space's parameters: one pass for all tables, one for all reals, one for each other.

    Args:
        space: The space.
        tables: For some active parameters, one number for each code in place of their own features. With these, other
            single columns are tabulated too, which is faster for a few rows and slower for thousands.

    Attributes:
        owner: For each column, the index of its parameter in `Space.active`, ``(k,)``.
    """

    def __init__(self, space: FeaturedSpace, tables: Mapping[str, Array] | None = None) -> None:
        row = space.feasible.sample(1, np.random.default_rng(0))
        known = {
            name: _tabulate(space.parameters[name])
            if tables is None or name not in tables
            else tables[name][:, None]
            for name in space.active
        }
        is_complete = all(table is not None for table in known.values())
        numbers: list[tuple[int, Array]] = []
        reals: list[Real] = []
        tabled, real, real_codes, widths = list[int](), list[int](), list[int](), list[int]()
        self._others: list[tuple[Parameter, slice, slice]] = []
        for name, table in known.items():
            parameter, columns, begin = space.parameters[name], space.columns[name], sum(widths)
            width = (parameter.features(row[:, columns]) if table is None else table).shape[1]
            widths.append(width)
            if table is not None and (is_complete or (tables is not None and width == 1)):
                numbers += [(columns.start, column) for column in table.T]
                tabled += range(begin, begin + width)
            elif isinstance(parameter, Real):
                reals.append(parameter)
                real_codes.append(columns.start)
                real.append(begin)
            else:
                self._others.append((parameter, columns, slice(begin, begin + width)))
        self.owner: Ints = np.repeat(np.arange(len(widths)), widths)
        self._table, self._reals = FeatureTable(numbers), RealColumns(reals)
        self._tabled, self._real = np.array(tabled, np.int64), np.array(real, np.int64)
        self._real_codes = np.array(real_codes, np.int64)

    def __call__(self, codes: Codes) -> Features:
        """Return the features of rows of legal codes, ``(n, w)`` -> ``(n, k)``."""
        if len(self._tabled) == len(self.owner):
            return self._table(codes)
        features = np.empty((len(codes), len(self.owner)))
        features[:, self._real] = self._reals.to_unit(codes[:, self._real_codes])
        if self._tabled.size:
            features[:, self._tabled] = self._table(codes)
        for parameter, columns, at in self._others:
            features[:, at] = parameter.features(codes[:, columns])
        return features


def _tabulate(parameter: Parameter) -> Array | None:
    """Return the features of each code, ``(codes, k)``, or None if there are many codes."""
    if parameter.width > 1 or parameter.cardinality > _TABLED:
        return None
    return parameter.features(np.arange(parameter.cardinality, dtype=np.float64)[:, None])


_DRAWN = 1024
"""Values of a parameter from which the mean of its features is taken, if it has more; feasible rows from which the
range of a product is estimated."""


class ParameterFeatures:
    """From rows of codes to the features of all parameters, one after the other.

    Args:
        space: The space.
        tables: As for `OwnFeatures`.

    Attributes:
        space: The space.
        own_features: The features of the parameters alone, the inactive ones at rest, ``(n, w)`` -> ``(n, j)``.
    """

    def __init__(self, space: FeaturedSpace, tables: Mapping[str, Array] | None = None) -> None:
        self.space = space
        self.own_features = OwnFeatures(space, tables)
        self._owner = self.own_features.owner

    def features(self, codes: Codes) -> Features:
        """Return the features that a model sees, ``(n, w)`` -> ``(n, k)``; those of the listed rows are cached."""
        feasible = self.space.feasible
        is_listed = len(codes) == feasible.count and codes is feasible.listed
        return self._listed if is_listed else self._features(codes)

    @cached_property
    def _listed(self) -> Features:
        return self._features(self.space.feasible.listed)

    def _features(self, codes: Codes) -> Features:
        features, activity = self._features_of_values(codes), self.space.activity
        return self._sources(features, activity.masks(codes)) if activity else features

    def _features_of_values(self, codes: Codes) -> Features:
        """Return the features as if every parameter were active, ``(n, w)`` -> ``(n, k)``."""
        return self.own_features(codes)

    @cached_property
    def _sources(self) -> ActiveSources:
        """The features of a space with conditional parameters, which compare active values only."""
        parameters = [self.space.parameters[name] for name in self.space.active]
        parts = [parameter.features(_values(parameter)) for parameter in parameters]
        return self.space.activity.sources([(name,) for name in self.space.active], parts)

    @property
    def feature_owner(self) -> Ints:
        """For each feature column, the index of its source in `active`, ``(k,)``."""
        return self._sources.feature_owner if self.space.activity else self._owner


def _values(parameter: Parameter) -> Codes:
    """Return the codes of all values of a scalar, or of many random ones, ``(n, width)``."""
    if parameter.width == 1 and parameter.cardinality <= _DRAWN:
        return parameter.code_range[0] + np.arange(parameter.cardinality, dtype=np.float64)[:, None]
    return parameter.sample_uniform(_DRAWN, generator(0, Purpose.SAMPLE))


_ALIKE = 0.95
"""A feature that is correlated with another by more than this over a domain is left out."""


class DerivedFeatures(ParameterFeatures):
    """A space as models see it: parameters, halvings, products and quotients of values, and features of orders.

    Args:
        space: The space.

    Attributes:
        active: Names of the sources of the features: the active parameters, then the halvings, products, quotients
            and groups of features of permutations.
        own_owner: For each column of `own_features`, the index of its parameter in `active`, ``(j,)``.
    """

    def __init__(self, space: FeaturedSpace) -> None:
        positive = _positive(space)
        logs = {name: _logarithms(parameter) for name, parameter in positive.items()}
        units = {name: _unit(table) for name, table in logs.items()}
        halvings = {}
        for name, parameter in positive.items():
            counts = _halvings(parameter)
            if np.ptp(counts) and abs(np.corrcoef(counts, units[name])[0, 1]) < _ALIKE:
                halvings[name] = _unit(counts)
        super().__init__(space, units)
        self.own_owner = self.own_features.owner
        self._halved = FeatureTable([(space.columns[n].start, t) for n, t in halvings.items()])
        self._further = _combinations(space, logs)
        for name in space.active:
            if space.parameters[name].kind is ParameterKind.PERMUTATION:
                self._further += order_features(name, space.columns[name])
        self._read: list[tuple[str, ...]] = [(name,) for name in [*space.active, *halvings]]
        self._read += [source.names for source in self._further]
        names = [f"halvings of {name}" for name in halvings]
        widths = [1] * len(names) + [source.width for source in self._further]
        names += [source.name for source in self._further]
        self.active = (*space.active, *names)
        further = len(space.active) + np.repeat(np.arange(len(names)), widths)
        self._owner = np.concatenate([self.own_owner, further])
        self._latest: tuple[Codes, Features] = (np.empty((0, 0)), np.empty((0, 0)))

    @override
    def features(self, codes: Codes) -> Features:
        """Return the features that a model sees, ``(n, w)`` -> ``(n, k)``; those of the latest rows are cached, too."""
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
    @override
    def _sources(self) -> ActiveSources:
        space = self.space
        drawn = space.feasible.sample(space.affordable(_DRAWN), np.random.default_rng(0))
        features = self._features_of_values(drawn)
        parts = [features[:, self._owner == source] for source in range(len(self._read))]
        return space.activity.sources(self._read, parts)

    @override
    def _features_of_values(self, codes: Codes) -> Features:
        own = self.own_features(codes)
        if len(self._read) == len(self.space.active):
            return own
        further = [source.features(codes) for source in self._further]
        return np.concatenate([own, self._halved(codes), *further], axis=1)


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


def _combinations(space: FeaturedSpace, logs: Mapping[str, Array]) -> list[FeatureSource]:
    """Return the products and quotients that constraints name and that vary."""
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
        return []
    rows = space.feasible.sample(space.affordable(_DRAWN), np.random.default_rng(0))
    found: dict[str, FeatureSource] = {}
    for above, below in varying:
        tables = [(space.columns[name].start, logs[name]) for name in above]
        tables += [(space.columns[name].start, -logs[name]) for name in below]
        logarithms = FeatureTable(tables)
        sums = logarithms(rows).sum(axis=1)
        if np.ptp(sums) > 0:
            name, low, high = _describe(above, below), float(sums.min()), float(sums.max())
            scaled = partial(_scaled_sums, logarithms, low, high)
            found[name] = FeatureSource(name, (*above, *below), 1, scaled)
    return list(found.values())


def _scaled_sums(logarithms: FeatureTable, low: float, high: float, codes: Codes) -> Features:
    return np.asarray((logarithms(codes).sum(axis=1, keepdims=True) - low) / (high - low))


def _describe(above: Sequence[str], below: Sequence[str]) -> str:
    text = " * ".join(above)
    divisor = " * ".join(below)
    return f"{text} / ({divisor})" if len(below) > 1 else f"{text} / {divisor}" if below else text
