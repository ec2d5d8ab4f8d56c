"""Stationary kernels over the parameters' distances, one lengthscale per parameter.

Every distance of a space is a Euclidean distance between feature columns, so a kernel is a function
of

    r^2 = sum_i (d_i / l_i)^2                                  (BaCO, ASPLOS 2023, Eq. 2)

with d_i the distance in parameter i. Scaling each column by its parameter's lengthscale turns this
into one squared Euclidean distance, which for many candidates is a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Features, Ints, Rng

SQRT3 = float(np.sqrt(3.0))
SQRT5 = float(np.sqrt(5.0))


@dataclass(frozen=True)
class Kernel:
    """A correlation as a function of the squared scaled distance; it is 1 at distance 0.

    Attributes:
        name: What it is called in files.
        value: Correlation of an array of squared distances; may use the array as its workspace and
            return it.
        slope: Correlation and its derivative by the squared distance; leaves its argument alone.
        frequencies: Draws (count, columns) angular frequencies from the spectral density.
    """

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], tuple[Array, Array]]
    frequencies: Callable[[int, int, Rng], Array]


def _matern52(squared: Array) -> Array:
    s = np.sqrt(squared, out=squared)
    s *= -SQRT5
    value = s * (1.0 / 3.0)
    value -= 1.0
    value *= s
    value += 1.0  # 1 + t + t^2 / 3 for t = -s
    value *= np.exp(s, out=s)
    return value


def _matern52_slope(squared: Array) -> tuple[Array, Array]:
    s = np.sqrt(squared)
    s *= SQRT5
    decay = np.exp(-s)
    s += 1.0
    slope = s * decay
    value = squared * decay
    value *= 5.0 / 3.0
    value += slope
    slope *= -5.0 / 6.0
    return value, slope


def _matern32(squared: Array) -> Array:
    s = np.sqrt(squared, out=squared)
    s *= SQRT3
    decay = np.exp(-s)
    s += 1.0
    s *= decay
    return s


def _matern32_slope(squared: Array) -> tuple[Array, Array]:
    s = np.sqrt(squared)
    s *= SQRT3
    decay = np.exp(-s)
    s += 1.0
    s *= decay
    decay *= -1.5
    return s, decay


def _rbf(squared: Array) -> Array:
    squared *= -0.5
    return np.exp(squared, out=squared)


def _rbf_slope(squared: Array) -> tuple[Array, Array]:
    value = np.exp(-0.5 * squared)
    return value, -0.5 * value


def _normal_frequencies(count: int, columns: int, rng: Rng) -> Array:
    return rng.standard_normal((count, columns))


def _student_frequencies(freedom: int) -> Callable[[int, int, Rng], Array]:
    """The spectral density of Matern-nu is a multivariate t with 2 nu degrees of freedom."""

    def frequencies(count: int, columns: int, rng: Rng) -> Array:
        mixing = rng.chisquare(freedom, (count, 1)) / freedom
        return np.asarray(rng.standard_normal((count, columns)) / np.sqrt(mixing))

    return frequencies


MATERN52 = Kernel("matern-5/2", _matern52, _matern52_slope, _student_frequencies(5))
"""(1 + s + s^2/3) exp(-s), s = sqrt(5) r: BaCO's Eq. (1), whose print lacks the 1/3."""

MATERN32 = Kernel("matern-3/2", _matern32, _matern32_slope, _student_frequencies(3))
"""(1 + s) exp(-s), s = sqrt(3) r: Kernel Tuner's (Willemsen et al. 2021, Table I)."""

RBF = Kernel("rbf", _rbf, _rbf_slope, _normal_frequencies)
"""exp(-r^2 / 2)."""

KERNELS = {kernel.name: kernel for kernel in (MATERN52, MATERN32, RBF)}


def squared_distances(features: Features, owner: Ints, groups: int) -> Array:
    """Return the squared distance of all rows in every parameter, ``(groups, n, n)``.

    Args:
        features: ``(n, k)``.
        owner: Which parameter each column belongs to, ``(k,)``, in ``range(groups)``.
        groups: Number of parameters.
    """
    n = len(features)
    squared = np.zeros((groups, n, n))
    for column, group in enumerate(owner):
        x = features[:, column]
        difference = np.subtract.outer(x, x)
        difference *= difference
        squared[group] += difference
    return squared


def cross_squared_distances(a: Features, b: Features) -> Array:
    """Return the squared Euclidean distance of two sets of scaled features, ``(m, k)``, ``(n, k)`` -> ``(m, n)``.

    The product formula |a|^2 + |b|^2 - 2ab cancels near 0; centring on ``b`` keeps that error at
    some 1e-16 of the largest squared distance.
    """
    if a.shape[1] == 0:
        return np.zeros((len(a), len(b)))
    centre = b.mean(axis=0) if len(b) else 0.0
    a = a - centre
    b = b - centre
    squared = a @ (-2.0 * b).T
    squared += np.einsum("ij,ij->i", a, a)[:, None]
    squared += np.einsum("ij,ij->i", b, b)
    return np.maximum(squared, 0.0, out=squared)
