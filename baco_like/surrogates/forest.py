"""Random forests of the values and of feasibility; they call scikit-learn's trees directly.

A forest here is a list of trees, and for every tree an array of predictions by node. Growing the trees one at a time
and finding the leaves by ``tree_.apply`` avoids scikit-learn's argument checks and its thread pool, which at the sizes
of auto-tuning take several times as long as the work itself.

The probability that a configuration runs at all is learned from failures (BaCO, section 4.2), by a forest over all
observations. Its leaves are smoothed towards the share of observations that ran, so that one failure does not exclude
its neighbourhood, and one success does not clear it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from baco_like._random import Purpose, generator
from baco_like._threads import load_libraries
from baco_like._typing import Array, Codes, Features, Mask, Rng
from baco_like.surrogates.protocol import Data, Featured

LEAST_VARIANCE = 1e-6
"""Floor of the variance on the standardised scale: trees that agree can still all be wrong."""

EVERY = 5
"""After the last failure the forest is grown again after this number of additional successes."""


MOST_DRAWN = 2000
"""Most rows that a tree of the feasibility model is grown from: with 20,000 rows and 200 parameters, growing a forest
from all of them takes more than a minute."""


@dataclass(frozen=True)
class Growth:
    """Settings of the trees.

    Attributes:
        trees: Number of trees.
        max_features: Share of the feature columns that each split may choose from.
        min_samples_leaf: Least number of (drawn) rows in a leaf.
        bootstrap: Whether every tree is grown from rows drawn with replacement instead of all rows.
        most_rows: Most rows that are drawn for a tree.
    """

    trees: int = 50
    max_features: float = 0.75
    min_samples_leaf: int = 1
    bootstrap: bool = True
    most_rows: int = sys.maxsize


Tree = Any
"""scikit-learn's ``tree_`` of a grown regression tree; its arrays have one entry per node."""


def grow_trees(features: Features, y: Array, growth: Growth, rng: Rng) -> tuple[Tree, ...]:
    """Return regression trees of ``y``.

    For labels 0 and 1 they are also classification trees: the variance that a split reduces is half the Gini impurity,
    and a leaf's mean is its share of ones.

    Args:
        features: ``(n, k)``, at least one row.
        y: ``(n,)``.
        growth: Settings of the trees.
        rng: Random generator.
    """
    load_libraries("sklearn.tree")
    from sklearn import config_context
    from sklearn.tree import DecisionTreeRegressor

    n = len(y)
    rows = _single_precision(features)
    target = np.ascontiguousarray(y, dtype=np.float64)
    # One estimator and one random state grow all trees: new ones for every tree take time.
    grower = DecisionTreeRegressor(
        max_features=growth.max_features,
        min_samples_leaf=growth.min_samples_leaf,
        random_state=np.random.RandomState(rng.integers(2**31)),
    )
    if hasattr(grower, "__sklearn_tags__"):  # scikit-learn 1.6; a fit makes them four times
        tags = grower.__sklearn_tags__()
        grower.__sklearn_tags__ = lambda: tags
    # The decorator of `fit` would enter two contexts for every tree.
    fit = inspect.unwrap(DecisionTreeRegressor.fit)
    trees = []
    # The settings are valid and the rows finite: checking both for every tree takes as long as growing it.
    with config_context(skip_parameter_validation=True, assume_finite=True):
        for _ in range(growth.trees):
            drawn = (
                rng.integers(n, size=min(n, growth.most_rows)) if growth.bootstrap else slice(None)
            )
            trees.append(fit(grower, rows[drawn], target[drawn], check_input=False).tree_)
    return tuple(trees)


def predict_by_tree(trees: tuple[Tree, ...], tables: list[Array], features: Features) -> Array:
    """Return the entry of every tree's table at the leaf of every row, ``(trees, m)``."""
    rows = _single_precision(features)
    predictions = np.empty((len(trees), len(rows)))
    for out, tree, table in zip(predictions, trees, tables, strict=True):
        # The leaves are inside the table; with another mode, NumPy would buffer the result.
        table.take(tree.apply(rows), out=out, mode="clip")
    return predictions


def _single_precision(features: Features) -> npt.NDArray[np.float32]:
    """Return single-precision rows, as scikit-learn's trees require, with at least one column."""
    rows = np.ascontiguousarray(features, dtype=np.float32)
    return rows if rows.shape[1] else np.zeros((len(rows), 1), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class ForestModel:
    """A random forest with a variance, as in SMAC (Hutter et al. 2014, section 4.3.2).

    Attributes:
        space: Gives the features.
        trees: The forest.
    """

    space: Featured
    trees: tuple[Tree, ...]

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """Empty: only the trees are fitted."""
        return {}

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance, ``(n, w)`` -> ``(n,)``, ``(n,)``.

        By the law of total variance, the variance is the mean of the leaves' variances plus the variance of their
        means.
        """
        features = self.space.features(codes)
        rows = _single_precision(features)
        means, variances = np.empty((2, len(self.trees), len(rows)))
        for mean, variance, tree in zip(means, variances, self.trees, strict=True):
            leaves = tree.apply(rows)
            tree.value[:, 0, 0].take(leaves, out=mean, mode="clip")
            tree.impurity.take(leaves, out=variance, mode="clip")
        total = variances.mean(axis=0) + means.var(axis=0)
        return means.mean(axis=0), np.maximum(total, LEAST_VARIANCE)


@dataclass(frozen=True)
class RandomForest:
    """A random forest of the values; it ignores known variances, and censored values count at their bounds.

    Attributes:
        growth: Settings of the trees; SMAC's share of features, 5/6, by default.
    """

    growth: Growth = Growth(max_features=5 / 6, min_samples_leaf=1)

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> ForestModel:
        """Return the model; ``start`` is not used."""
        return ForestModel(space, grow_trees(space.features(data.codes), data.y, self.growth, rng))


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
    """A fitted forest of labels: whether each row ran (the hidden constraints).

    Attributes:
        space: Gives the features.
        trees: The forest.
        tables: Smoothed share of the rows that ran, in every node of every tree.
        counts: Number of rows, imaginary ones included, in every node of every tree.
    """

    space: Featured
    trees: tuple[Tree, ...]
    tables: list[Array]
    counts: list[Array]

    def probability(self, codes: Codes) -> Array:
        """Return the mean of the trees' shares, ``(n, w)`` -> ``(n,)``."""
        shares = predict_by_tree(self.trees, self.tables, self.space.features(codes))
        return np.asarray(shares.mean(axis=0))

    def add_rows(self, codes: Codes, feasible: Mask) -> ForestFeasibilityModel:
        """Return the model whose leaves also count these rows, ``(m, w)``, ``(m,)``; the trees do not change."""
        if not len(codes):
            return self
        rows = _single_precision(self.space.features(codes))
        tables, counts = [], []
        for tree, table, before in zip(self.trees, self.tables, self.counts, strict=True):
            leaves, nodes = tree.apply(rows), len(table)
            counts.append(before + np.bincount(leaves, None, nodes))
            ran = table * before + np.bincount(leaves, feasible, nodes)
            tables.append(ran / counts[-1])
        return replace(self, tables=tables, counts=counts)


@dataclass(frozen=True)
class ForestFeasibility:
    """A random forest of feasibility, grown again only when that can matter.

    Attributes:
        growth: Settings of the trees.
        smoothing: Number of imaginary rows, with the overall share of rows that ran, that are added to every leaf; 3
            and 8 rows were not better than 1 (benchmarks/quality/log/exploration.md and failures.md).
        every: See `refit_point`.
    """

    growth: Growth = Growth(most_rows=MOST_DRAWN)
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
        weights = [tree.weighted_n_node_samples for tree in trees]
        counts = [weight + self.smoothing for weight in weights]
        tables = [
            (tree.value[:, 0, 0] * weight + imaginary) / count
            for tree, weight, count in zip(trees, weights, counts, strict=True)
        ]
        return ForestFeasibilityModel(space, trees, tables, counts)


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
