"""Random forests by a short path through scikit-learn's trees.

A forest here is its trees and, for every tree, a table of what each leaf says. Growing the trees
one by one and asking ``tree_.apply`` for the leaves skips scikit-learn's checks and its thread
pool, which at the sizes of auto-tuning cost several times the work itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Codes, Features, Rng
from baco_like.surrogates.protocol import Data, Featured

LEAST_VARIANCE = 1e-6
"""On the standardised scale: where all trees agree they may still all be wrong."""


@dataclass(frozen=True)
class Growth:
    """How trees are grown.

    Attributes:
        trees: How many.
        max_features: Share of the feature columns that each split may choose from.
        min_samples_leaf: Least number of (drawn) rows in a leaf.
        bootstrap: Whether every tree sees rows drawn with replacement instead of all.
    """

    trees: int = 50
    max_features: float = 0.75
    min_samples_leaf: int = 1
    bootstrap: bool = True


@dataclass(frozen=True, eq=False)
class Tree:
    """One grown tree.

    Attributes:
        splits: scikit-learn's tree.
        mean: Mean of the rows in every node.
        variance: Their population variance.
        weight: How many (drawn) rows are in every node.
    """

    splits: Any
    mean: Array
    variance: Array
    weight: Array


def grow(features: Features, y: Array, growth: Growth, rng: Rng) -> tuple[Tree, ...]:
    """Return regression trees of ``y``.

    For labels 0 and 1 they are also classification trees: the variance that a split must lower is
    then half the Gini impurity, and a leaf's mean is its share of ones.

    Args:
        features: ``(n, k)``, at least one row.
        y: ``(n,)``.
        growth: How.
        rng: Chance.
    """
    from sklearn import config_context

    # The parameters are ours and the rows finite: checking both for every tree takes as long as growing it.
    with config_context(skip_parameter_validation=True, assume_finite=True):
        return tuple(_grown_trees(features, y, growth, rng))


def _grown_trees(features: Features, y: Array, growth: Growth, rng: Rng) -> Iterator[Tree]:
    from sklearn.tree import DecisionTreeRegressor

    n = len(y)
    rows = _columns32(features)
    target = np.ascontiguousarray(y, dtype=np.float64)
    chance = np.random.RandomState(rng.integers(2**31))  # a new one for every tree takes time
    for _ in range(growth.trees):
        drawn = rng.integers(n, size=n) if growth.bootstrap else slice(None)
        tree = DecisionTreeRegressor(
            max_features=growth.max_features,
            min_samples_leaf=growth.min_samples_leaf,
            random_state=chance,
        )
        splits = tree.fit(rows[drawn], target[drawn], check_input=False).tree_
        mean = splits.value[:, 0, 0].copy()
        yield Tree(splits, mean, splits.impurity, splits.weighted_n_node_samples)


def look_up(trees: tuple[Tree, ...], tables: list[Array], features: Features) -> Array:
    """Return what every tree's table says of every row, ``(trees, m)``."""
    rows = _columns32(features)
    found = np.empty((len(trees), len(rows)))
    for out, tree, table in zip(found, trees, tables, strict=True):
        np.take(table, tree.splits.apply(rows), out=out)
    return found


def _columns32(features: Features) -> npt.NDArray[np.float32]:
    """Return single precision rows, which is all that the trees read; they need a column to stand on."""
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
        """Nothing is fitted but the trees."""
        return {}

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance, ``(n, w)`` -> ``(n,)``, ``(n,)``.

        By the law of total variance: the mean of the leaves' variances plus the variance of their
        means.
        """
        features = self.space.features(codes)
        means = look_up(self.trees, [tree.mean for tree in self.trees], features)
        variances = look_up(self.trees, [tree.variance for tree in self.trees], features)
        total = variances.mean(axis=0) + means.var(axis=0)
        return means.mean(axis=0), np.maximum(total, LEAST_VARIANCE)


@dataclass(frozen=True)
class RandomForest:
    """A random forest of the values; it ignores known variances and takes censored values at their bounds.

    Attributes:
        growth: How the trees are grown.
    """

    growth: Growth = Growth(max_features=5 / 6, min_samples_leaf=1)

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> ForestModel:
        """Return the model; ``start`` is not used."""
        return ForestModel(space, grow(space.features(data.codes), data.y, self.growth, rng))
