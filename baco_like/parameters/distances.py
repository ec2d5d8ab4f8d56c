"""The distances of the BaCO paper between one parameter's values (Hellsten et al. 2023, section 4.1).

Every function takes n and m rows and returns all pairs, ``(n, m)``. Permutations come as rank vectors: column j is
the position of element j, so that rows are compared position by position and never order by order. `hamming` is for
categorical values, `permutation_hamming` for permutations.

The Gaussian process does not call these functions. It sees features; those of a permutation have a Euclidean distance
that is the square root of its metric over the largest value (`baco_like.parameters.permutation`).
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes, Features


def absolute(a: Array, b: Array) -> Array:
    """Return ``|a - b|``, ``(n,)`` and ``(m,)`` -> ``(n, m)``; of logarithms it is the paper's log distance."""
    return np.asarray(np.abs(a[:, None] - b[None, :]))


def hamming(a: Array, b: Array) -> Array:
    """Return 1 where categorical values differ, else 0, ``(n,)`` and ``(m,)`` -> ``(n, m)``.

    For permutations use `permutation_hamming`.
    """
    return np.asarray((a[:, None] != b[None, :]).astype(np.float64))


def squared_euclidean(a: Array, b: Array) -> Array:
    """Return the squared Euclidean distance of all rows, ``(n, k)`` and ``(m, k)`` -> ``(n, m)``."""
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.where(squares < 1e-12, 0.0, squares)  # rounding


def spearman(a: Codes, b: Codes) -> Array:
    """Return the sum over all elements of their squared movement, ``(n, w)`` and ``(m, w)`` -> ``(n, m)``."""
    return squared_euclidean(a, b)  # of small integers, and so exact


def kendall(a: Codes, b: Codes) -> Array:
    """Return the number of discordant pairs, each counted once, ``(n, w)`` and ``(m, w)`` -> ``(n, m)``.

    The paper's printed formula counts each pair more than once; its figure and the words "discordant pairs" say 4
    for the worked example, and so does this.
    """
    left, right = pair_orders(a), pair_orders(b)
    agree: Array = left @ right.T + (1.0 - left) @ (1.0 - right).T
    return np.asarray(left.shape[1] - agree)


def permutation_hamming(a: Codes, b: Codes) -> Array:
    """Return the number of a permutation's elements at another position, ``(n, w)`` and ``(m, w)`` -> ``(n, m)``."""
    moved = np.zeros((len(a), len(b)))
    for column in range(a.shape[1]):
        moved += a[:, column, None] != b[None, :, column]
    return moved


def naive(a: Codes, b: Codes) -> Array:
    """Return 1 where the permutations differ and 0 where they are the same, ``(n, w)``, ``(m, w)`` -> ``(n, m)``."""
    return (permutation_hamming(a, b) > 0).astype(np.float64)


def pair_orders(ranks: Codes) -> Features:
    """Return 1 for every pair of elements i < j of which i comes first, ``(n, w)`` -> ``(n, w (w - 1) / 2)``."""
    first, second = np.triu_indices(ranks.shape[1], k=1)
    return (ranks[:, first] < ranks[:, second]).astype(np.float64)


def position_matrix(ranks: Codes) -> Features:
    """Return 1 where element i is at position j, ``(n, w)`` -> ``(n, w * w)``."""
    n, w = ranks.shape
    return one_hot(ranks, w).reshape(n, w * w)


def one_hot(indices: Array, count: int) -> Features:
    """Return one column per value, 1 in the row's own, ``(n,)`` -> ``(n, count)``; on the last axis for matrices."""
    return np.asarray(indices[..., None] == np.arange(count), dtype=np.float64)


def levenshtein(a: Codes, b: Codes) -> Array:
    """Return the least number of insertions, deletions and replacements, ``(n, m)`` and ``(k, m)`` -> ``(n, k)``.

    Rows are codes of sequences (`baco_like.parameters.sequence`): -1 follows the last element.
    """
    n, k, m = len(a), len(b), b.shape[1]
    place = np.arange(m + 1)
    least = np.tile(place.astype(np.float64), (n, k, 1))  # from the start of a to each start of b
    ends = [(codes >= 0).sum(axis=1) for codes in (a, b)]
    found = np.zeros((n, k))
    for row in range(a.shape[1] + 1):
        here = ends[0] == row
        found[here] = np.take_along_axis(least[here], ends[1][None, :, None], axis=2)[:, :, 0]
        if row == a.shape[1]:
            break
        differs = a[:, row, None, None] != b[None, :, :]
        best = least + 1.0
        best[:, :, 1:] = np.minimum(best[:, :, 1:], least[:, :, :-1] + differs)
        # An insertion costs 1 for each place: the least value to the left, plus the way from there.
        least = np.minimum.accumulate(best - place, axis=2) + place
    return found
