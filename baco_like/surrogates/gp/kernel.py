"""Stationary kernels over the parameters' distances, one lengthscale per parameter.

Every distance of a space is a Euclidean distance between feature columns, so a kernel is a function of

    r^2 = sum_i (d_i / l_i)^2                                  (BaCO, ASPLOS 2023, Eq. 2)

with d_i the distance in parameter i. Dividing each column by its parameter's lengthscale gives one squared Euclidean
distance, which can be computed as a matrix product. Functions write into the given working arrays, because allocating
them would take longer than the arithmetic.

A fit computes weighted sums of the squared distances in every parameter again and again. A table of them takes one
matrix for each parameter. With more than `MOST_TABLED` parameters it is larger than the processor's caches, and reading
it takes most of the time of a fit: then the sums are computed from the feature columns by matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Features, Ints, Rng

SQRT3 = float(np.sqrt(3.0))
SQRT5 = float(np.sqrt(5.0))


@dataclass(frozen=True)
class Kernel:
    """A correlation as a function of the squared scaled distance; it is 1 at distance 0.

    Attributes:
        name: Its name in files.
        value: Maps squared distances and a second array of the same shape to correlations; it overwrites both arrays
            and returns one of them.
        slope: Maps squared distances and two more arrays of the same shape to correlations and their derivatives by
            the squared distance; it overwrites all three.
        freedom: The spectral density is a multivariate t with these degrees of freedom: 2 nu of Matern-nu; normal for
            None.
    """

    name: str
    value: Callable[[Array, Array], Array]
    slope: Callable[[Array, Array, Array], tuple[Array, Array]]
    freedom: int | None

    def frequencies(self, count: int, columns: int, rng: Rng) -> Array:
        """Return angular frequencies drawn from the spectral density, ``(count, columns)``."""
        mixing: Array | float = 1.0
        if self.freedom is not None:
            mixing = rng.chisquare(self.freedom, (count, 1)) / self.freedom
        return np.asarray(rng.standard_normal((count, columns)) / np.sqrt(mixing))


def _matern52(squared: Array, spare: Array) -> Array:
    value = np.multiply(squared, 5.0 / 3.0, out=spare)
    exponent = _negative_distance(squared, -SQRT5, squared)
    value -= exponent
    value += 1.0
    value *= np.exp(exponent, out=exponent)
    return value


def _matern52_slope(squared: Array, spare: Array, slope: Array) -> tuple[Array, Array]:
    exponent = _negative_distance(squared, -SQRT5, slope)
    decay = np.exp(exponent, out=spare)
    np.subtract(1.0, exponent, out=slope)
    slope *= decay
    value = np.multiply(squared, decay, out=squared)
    value *= 5.0 / 3.0
    value += slope
    slope *= -5.0 / 6.0
    return value, slope


def _matern32(squared: Array, spare: Array) -> Array:
    exponent = _negative_distance(squared, -SQRT3, squared)
    value = np.subtract(1.0, exponent, out=spare)
    value *= np.exp(exponent, out=exponent)
    return value


def _matern32_slope(squared: Array, spare: Array, slope: Array) -> tuple[Array, Array]:
    value = _matern32(squared, spare)
    decay = squared  # `_matern32` has left the exponential in this array
    return value, np.multiply(decay, -1.5, out=slope)


def _rbf(squared: Array, spare: Array) -> Array:
    squared *= -0.5
    return np.exp(squared, out=squared)


def _rbf_slope(squared: Array, spare: Array, slope: Array) -> tuple[Array, Array]:
    value = _rbf(squared, spare)
    return value, np.multiply(value, -0.5, out=slope)


def _negative_distance(squared: Array, rate: float, out: Array) -> Array:
    """Return the distances times a negative rate, the argument of the exponential."""
    return np.multiply(np.sqrt(squared, out=out), rate, out=out)


MATERN52 = Kernel("matern-5/2", _matern52, _matern52_slope, 5)
"""(1 + s + s^2/3) exp(-s), s = sqrt(5) r: BaCO's Eq. (1), which is printed without the 1/3."""

MATERN32 = Kernel("matern-3/2", _matern32, _matern32_slope, 3)
"""(1 + s) exp(-s), s = sqrt(3) r: Kernel Tuner's kernel (Willemsen et al. 2021, Table I)."""

RBF = Kernel("rbf", _rbf, _rbf_slope, None)
"""exp(-r^2 / 2)."""

KERNELS = {kernel.name: kernel for kernel in (MATERN52, MATERN32, RBF)}


def cross_squared_distances(a: Features, b: Features) -> Array:
    """Return the squared Euclidean distance of two sets of scaled features, ``(m, k)``, ``(n, k)`` -> ``(m, n)``.

    The product formula |a|^2 + |b|^2 - 2ab cancels near 0; centring on ``b`` keeps the error near 1e-16 of the largest
    squared distance.
    """
    centre, right = distance_factor(b)
    return distance_product(distance_rows(a, centre), right, np.empty((len(a), len(b))))


def distance_factor(b: Features) -> tuple[Array, Array]:
    """Return the centre of ``b`` and the right factor of its squared distances, ``(k,)``, ``(k + 2, n)``."""
    centre = b.mean(axis=0) if len(b) else np.zeros(b.shape[1])
    b = b - centre
    return centre, np.vstack([-2.0 * b.T, np.ones(len(b)), np.einsum("ij,ij->i", b, b)])


def distance_rows(
    a: Features, centre: Array, scales: Array | None = None, out: Array | None = None
) -> Array:
    """Return the left factor of the squared distances of ``a``, ``(m, k + 2)``; one product gives all three terms.

    Args:
        a: Features, ``(m, k)``.
        centre: See `distance_factor`.
        scales: Factors of the features, ``(k,)``; None if ``a`` is scaled already.
        out: Array for the result, ``(m, k + 2)``; None makes a new one.
    """
    m, k = a.shape
    left = np.empty((m, k + 2)) if out is None else out
    scaled = a if scales is None else np.multiply(a, scales, out=left[:, :k])
    centred = np.subtract(scaled, centre, out=left[:, :k])
    np.einsum("ij,ij->i", centred, centred, out=left[:, k])
    left[:, k + 1] = 1.0
    return left


def distance_product(left: Array, right: Array, out: Array) -> Array:
    """Return the squared distances, ``(m, n)``; rounding errors below zero change their sign."""
    return np.abs(np.matmul(left, right, out=out), out=out)


WIDE = 8
"""Distances in a parameter with more feature columns are computed by one matrix product instead of column by column."""

MOST_TABLED = 64
"""With more parameters than this, sums are computed from the features. At 100 rows and 187 parameters an evaluation of
the evidence then takes a third of the time, and at 400 rows the table would have 240 MB."""


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


SquaredDistances = DistanceTable | FeatureDistances
"""Squared distances of n rows in p parameters."""


def parameter_distances(features: Features, owner: Ints, groups: int) -> SquaredDistances:
    """Return the squared distances of all rows in every parameter.

    Args:
        features: ``(n, k)``.
        owner: Index of the parameter that each column belongs to, ``(k,)``, in ``range(groups)``.
        groups: Number of parameters.
    """
    if groups > MOST_TABLED:
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
