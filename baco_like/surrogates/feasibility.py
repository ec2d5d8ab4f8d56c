"""The probability that a configuration runs at all, learnt from what has failed (BaCO, section 4.2).

A random forest over all observations. Its leaves are smoothed towards the share that ran so far, so
that one failure does not condemn its surroundings, and one success does not clear them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Mask
from baco_like.surrogates.constant import ConstantFeasibility
from baco_like.surrogates.forest import Growth, Tree, grow, look_up
from baco_like.surrogates.protocol import Featured

EVERY = 5
"""After the last failure the forest is grown again with so many more successes."""


@dataclass(frozen=True, eq=False)
class ForestFeasibilityModel:
    """A grown forest of labels.

    Attributes:
        space: Gives the features.
        trees: The forest.
        tables: Smoothed share of feasible rows in every node of every tree.
    """

    space: Featured
    trees: tuple[Tree, ...]
    tables: list[Array]

    def probability(self, codes: Codes) -> Array:
        """Return the mean of the trees' shares, ``(n, w)`` -> ``(n,)``."""
        shares = look_up(self.trees, self.tables, self.space.features(codes))
        return np.asarray(shares.mean(axis=0))


@dataclass(frozen=True)
class ForestFeasibility:
    """Random forest of feasibility, grown again only where that can matter.

    Attributes:
        growth: How the trees are grown.
        smoothing: How many imagined rows, with the share of feasible rows seen so far, every leaf
            has.
        every: See `refit_point`.
    """

    growth: Growth = field(default_factory=Growth)
    smoothing: float = 1.0
    every: int = EVERY

    def fit(
        self, space: Featured, codes: Codes, feasible: Mask, seed: int
    ) -> ForestFeasibilityModel | ConstantFeasibility:
        """Return the model of the first `refit_point` rows; see the protocol."""
        if feasible.all() or not feasible.any():
            return ConstantFeasibility(float(feasible.all()))
        known = refit_point(feasible, self.every)
        features = np.ascontiguousarray(space.features(codes[:known]), dtype=np.float32)
        labels = feasible[:known]
        trees = _grown(features.tobytes(), features.shape, labels.tobytes(), self.growth, seed)
        share = float(labels.mean())
        tables = [_smoothed(tree, share, self.smoothing) for tree in trees]
        return ForestFeasibilityModel(space, trees, tables)


def refit_point(feasible: Mask, every: int = EVERY) -> int:
    """Return how many of the first observations the model should have seen.

    A failure always counts at once. Successes only confirm, and count in lots of ``every`` after
    the last failure, but the first success counts at once too. A pure function, so a resumed run
    has the same models.

    Args:
        feasible: Which observations ran, in order of arrival, ``(n,)``.
        every: Size of a lot.
    """
    failures = np.flatnonzero(~feasible)
    if len(failures) == 0 or len(failures) == len(feasible):
        return len(feasible)
    last = int(failures[-1]) + 1
    least = max(last, int(np.flatnonzero(feasible)[0]) + 1)
    return max(least, last + (len(feasible) - last) // every * every)


def _smoothed(tree: Tree, share: float, smoothing: float) -> Array:
    return np.asarray((tree.mean * tree.weight + share * smoothing) / (tree.weight + smoothing))


@lru_cache(maxsize=8)
def _grown(
    features: bytes, shape: tuple[int, int], labels: bytes, growth: Growth, seed: int
) -> tuple[Tree, ...]:
    """Grow a forest; the arguments determine it, so remembering the last few changes nothing but time."""
    rows = np.frombuffer(features, dtype=np.float32).reshape(shape).astype(np.float64)
    y = np.frombuffer(labels, dtype=np.bool_).astype(np.float64)
    return grow(rows, y, growth, generator(seed, Purpose.MODEL, len(y)))
