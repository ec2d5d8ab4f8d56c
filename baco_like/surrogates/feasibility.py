"""The probability that a configuration runs at all, learned from failures (BaCO, section 4.2).

The model is a random forest over all observations. Its leaves are smoothed towards the share of observations that ran,
so that one failure does not exclude its neighbourhood, and one success does not clear it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Mask
from baco_like.surrogates.forest import Growth, Tree, grow_trees, predict_by_tree
from baco_like.surrogates.protocol import Featured

EVERY = 5
"""After the last failure the forest is grown again after this number of additional successes."""


@dataclass(frozen=True)
class ConstantFeasibility:
    """Gives every configuration the same probability of running.

    Attributes:
        chance: The probability, in [0, 1].
    """

    chance: float

    def probability(self, codes: Codes) -> Array:
        """Return the probability for each row, ``(n, w)`` -> ``(n,)``."""
        return np.full(len(codes), self.chance)


@dataclass(frozen=True, eq=False)
class ForestFeasibilityModel:
    """A fitted forest of feasibility labels.

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
        shares = predict_by_tree(self.trees, self.tables, self.space.features(codes))
        return np.asarray(shares.mean(axis=0))


@dataclass(frozen=True)
class ForestFeasibility:
    """A random forest of feasibility, grown again only when that can matter.

    Attributes:
        growth: Settings of the trees.
        smoothing: Number of imaginary rows, with the overall share of feasible rows, that are added to every leaf; 3
            and 8 rows were not better than 1 (benchmarks/quality/log/exploration.md and failures.md).
        every: See `refit_point`.
    """

    growth: Growth = field(default_factory=Growth)
    smoothing: float = 1.0
    every: int = EVERY

    def fit(
        self, space: Featured, codes: Codes, feasible: Mask, seed: int
    ) -> ForestFeasibilityModel | ConstantFeasibility:
        """Return the model of the first `refit_point` rows; see `FeasibilitySurrogate.fit`."""
        if feasible.all() or not feasible.any():
            return ConstantFeasibility(float(feasible.all()))
        known = refit_point(feasible, self.every)
        features = np.ascontiguousarray(space.features(codes[:known]), dtype=np.float32)
        labels = feasible[:known]
        trees = _grow_cached(features.tobytes(), len(features), labels.tobytes(), self.growth, seed)
        imaginary = float(labels.mean()) * self.smoothing
        tables = [(t.mean * t.weight + imaginary) / (t.weight + self.smoothing) for t in trees]
        return ForestFeasibilityModel(space, trees, tables)


def refit_point(feasible: Mask, every: int = EVERY) -> int:
    """Return the number of observations, in order of arrival, that the model is fitted to.

    A failure counts immediately. Successes after the last failure only confirm the model and count in groups of
    ``every``; the very first success counts immediately too. The function is pure: a resumed run has the same models.

    Args:
        feasible: Which observations ran, in order of arrival, ``(n,)``.
        every: Size of a group.
    """
    failures = np.flatnonzero(~feasible)
    if len(failures) == 0 or len(failures) == len(feasible):
        return len(feasible)
    last = int(failures[-1]) + 1
    least = max(last, int(np.flatnonzero(feasible)[0]) + 1)
    return max(least, last + (len(feasible) - last) // every * every)


@lru_cache(maxsize=8)
def _grow_cached(
    features: bytes, count: int, labels: bytes, growth: Growth, seed: int
) -> tuple[Tree, ...]:
    """Grow a forest; the arguments determine the result, so the cache only saves time."""
    rows = np.frombuffer(features, dtype=np.float32).reshape(count, -1).astype(np.float64)
    y = np.frombuffer(labels, dtype=np.bool_).astype(np.float64)
    return grow_trees(rows, y, growth, generator(seed, Purpose.MODEL, len(y)))
