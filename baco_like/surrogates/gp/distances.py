"""The squared distances of rows in every parameter, from which a fit computes weighted sums again and again.

A table of them takes one matrix for each parameter. With more than `MANY` parameters it is larger than the processor's
caches, and reading it takes most of the time of a fit: then the sums are computed from the feature columns by matrix
products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from baco_like._typing import Array, Features, Ints
from baco_like.surrogates.gp.kernel import cross_squared_distances

WIDE = 8
"""Distances in a parameter with more feature columns are computed by one matrix product instead of column by column."""

MANY = 64
"""With more parameters than this, sums are computed from the features. At 100 rows and 187 parameters an evaluation of
the evidence then takes a third of the time, and at 400 rows the table would have 240 MB."""


class SquaredDistances(Protocol):
    """Squared distances of n rows in p parameters."""

    @property
    def groups(self) -> int:
        """Number of parameters, p."""

    def weighted_sum(self, weights: Array, out: Array) -> None:
        """Write the sum over the parameters, each times its weight, ``(p,)``, to ``out``, ``(n, n)``."""

    def weighted_sums(self, weights: Array) -> Array:
        """Return the sums for a batch of weights, ``(s, p)`` -> ``(s, n * n)``."""

    def contract(self, weights: Array) -> Array:
        """Return for each parameter the sum of its squared distances, each times its weight, ``(n, n)`` -> ``(p,)``."""

    def subset(self, rows: Ints) -> SquaredDistances:
        """Return the distances of some rows only."""


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """All squared distances.

    Attributes:
        table: The distances, ``(p, n, n)``.
    """

    table: Array

    @property
    def groups(self) -> int:
        """Number of parameters."""
        return len(self.table)

    @cached_property
    def _flat(self) -> Array:
        p, n, _ = self.table.shape
        return np.ascontiguousarray(self.table.reshape(p, n * n))

    def weighted_sum(self, weights: Array, out: Array) -> None:
        """Write the weighted sum to ``out``, ``(n, n)``."""
        np.dot(weights, self._flat, out=out.reshape(-1))

    def weighted_sums(self, weights: Array) -> Array:
        """Return the sums for a batch of weights, ``(s, p)`` -> ``(s, n * n)``."""
        return np.asarray(weights @ self._flat)

    def contract(self, weights: Array) -> Array:
        """Return the weighted sum of each parameter's distances, ``(n, n)`` -> ``(p,)``."""
        return np.asarray(self._flat @ weights.ravel())

    def subset(self, rows: Ints) -> DistanceTable:
        """Return the distances of some rows only."""
        return DistanceTable(self.table[:, rows[:, None], rows])


@dataclass(frozen=True, eq=False)
class FeatureDistances:
    """The feature columns, from which the sums are computed.

    Attributes:
        features: ``(n, k)``.
        owner: Index of the parameter that each column belongs to, ``(k,)``.
        groups: Number of parameters.
    """

    features: Features
    owner: Ints
    groups: int

    def weighted_sum(self, weights: Array, out: Array) -> None:
        """Write the weighted sum to ``out``, ``(n, n)``."""
        scaled = self.features * np.sqrt(weights)[self.owner]
        out[...] = cross_squared_distances(scaled, scaled)
        np.fill_diagonal(out, 0.0)

    def weighted_sums(self, weights: Array) -> Array:
        """Return the sums for a batch of weights, ``(s, p)`` -> ``(s, n * n)``."""
        n = len(self.features)
        sums = np.empty((len(weights), n, n))
        for single, out in zip(weights, sums, strict=True):
            self.weighted_sum(single, out)
        return sums.reshape(len(weights), n * n)

    def contract(self, weights: Array) -> Array:
        """Return the weighted sum of each parameter's distances, ``(n, n)`` -> ``(p,)``.

        With x a column, the sum of w_ab (x_a - x_b)^2 is the sum of (r_a + c_a) x_a^2 - 2 x_a (W x)_a, where r and c
        are the sums of the rows and of the columns of W.
        """
        x = self.features
        margins = weights.sum(axis=0) + weights.sum(axis=1)
        columns = margins @ (x * x) - 2.0 * np.einsum("ij,ij->j", x, weights @ x)
        return np.bincount(self.owner, columns, self.groups).astype(np.float64)

    def subset(self, rows: Ints) -> FeatureDistances:
        """Return the distances of some rows only."""
        return FeatureDistances(self.features[rows], self.owner, self.groups)


def parameter_distances(features: Features, owner: Ints, groups: int) -> SquaredDistances:
    """Return the squared distances of all rows in every parameter.

    Args:
        features: ``(n, k)``.
        owner: Index of the parameter that each column belongs to, ``(k,)``, in ``range(groups)``.
        groups: Number of parameters.
    """
    if groups > MANY:
        return FeatureDistances(features - features.mean(axis=0), owner, groups)
    return DistanceTable(squared_distances(features, owner, groups))


def squared_distances(features: Features, owner: Ints, groups: int) -> Array:
    """Return the squared distance of all rows in every parameter, ``(groups, n, n)``.

    Args:
        features: ``(n, k)``.
        owner: Index of the parameter that each column belongs to, ``(k,)``, in ``range(groups)``.
        groups: Number of parameters.
    """
    n = len(features)
    # One column per parameter, the usual case: no loop.
    if np.array_equal(owner, np.arange(groups)):
        columns = np.ascontiguousarray(features.T)
        squared = columns[:, :, None] - columns[:, None, :]
        squared *= squared
        return squared
    squared = np.zeros((groups, n, n))
    sizes = np.bincount(owner, minlength=groups)
    for group in np.flatnonzero(sizes > WIDE):
        columns = features[:, owner == group]
        squared[group] = cross_squared_distances(columns, columns)
        np.fill_diagonal(squared[group], 0.0)
    for column in np.flatnonzero(sizes[owner] <= WIDE):
        x = features[:, column]
        difference = np.subtract.outer(x, x)
        difference *= difference
        squared[owner[column]] += difference
    return squared
