"""Features of permutations beside their own: which element precedes which, which place each takes, which are adjacent.

No single notion of similarity suits all orders. In a tour the neighbours of each element decide, in an assignment the
place of each element, in a loop nest mostly which loop encloses which. A Gaussian process that sees each of them as a
group with its own lengthscale finds out which one explains the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from baco_like._typing import Codes, Features

MOST_ELEMENTS = 16
"""Longer permutations keep their own features only: the number of columns grows with the square."""

FEWEST_ELEMENTS = 3
"""Two elements have a single pair, which their own features already tell."""


@dataclass(frozen=True, eq=False)
class OrderFeatures:
    """A group of features of one permutation; the squared distance of two orders is at most 1.

    Attributes:
        name: Name of the group.
        parameter: Name of the permutation.
        columns: The code columns of the permutation.
        features: From the positions of the elements, ``(n, m)``, to the features, ``(n, k)``.
        width: The number of features.
    """

    name: str
    parameter: str
    columns: slice
    features: Callable[[Codes], Features]
    width: int

    def __call__(self, codes: Codes) -> Features:
        """Return the features of configurations, ``(n, w)`` -> ``(n, k)``."""
        return self.features(codes[:, self.columns])


def order_features(name: str, columns: slice) -> list[OrderFeatures]:
    """Return the groups of one permutation; none if it is too short or too long.

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

    def precedence(positions: Codes) -> Features:
        return np.asarray((positions @ signs < 0.0) * pairs_scale)

    def place(positions: Codes) -> Features:
        return np.take(one_hot, positions.astype(np.intp), axis=0).reshape(
            len(positions), elements**2
        )

    def adjacency(positions: Codes) -> Features:
        return np.asarray((np.abs(positions @ signs) == 1.0) * adjacent_scale)

    return [
        OrderFeatures(f"precedence in {name}", name, columns, precedence, len(pairs)),
        OrderFeatures(f"places in {name}", name, columns, place, elements**2),
        OrderFeatures(f"adjacency in {name}", name, columns, adjacency, len(pairs)),
    ]
