"""Random forests that call scikit-learn's trees directly.

A forest here is a list of trees, and for every tree an array of predictions by node. Growing the trees one at a time
and finding the leaves by ``tree_.apply`` avoids scikit-learn's argument checks and its thread pool, which at the sizes
of auto-tuning take several times as long as the work itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Codes, Features, Rng
from baco_like.surrogates.protocol import Data, Featured

LEAST_VARIANCE = 1e-6
"""Floor of the variance on the standardised scale: trees that agree can still all be wrong."""


@dataclass(frozen=True)
class Growth:
    """Settings of the trees.

    Attributes:
        trees: Number of trees.
        max_features: Share of the feature columns that each split may choose from.
        min_samples_leaf: Least number of (drawn) rows in a leaf.
        bootstrap: Whether every tree is grown from rows drawn with replacement instead of all rows.
    """

    trees: int = 50
    max_features: float = 0.75
    min_samples_leaf: int = 1
    bootstrap: bool = True


@dataclass(frozen=True, eq=False)
class Tree:
    """One grown tree; arrays have one entry per node.

    Attributes:
        splits: scikit-learn's ``tree_``.
        mean: Mean of the node's rows.
        variance: Their population variance.
        weight: Number of (drawn) rows in the node.
    """

    splits: Any
    mean: Array
    variance: Array
    weight: Array


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
    from sklearn import config_context
    from sklearn.tree import DecisionTreeRegressor

    n = len(y)
    rows = _single_precision(features)
    target = np.ascontiguousarray(y, dtype=np.float64)
    random_state = np.random.RandomState(rng.integers(2**31))  # a new one for every tree takes time
    trees = []
    # The settings are valid and the rows finite: checking both for every tree takes as long as growing it.
    with config_context(skip_parameter_validation=True, assume_finite=True):
        for _ in range(growth.trees):
            drawn = rng.integers(n, size=n) if growth.bootstrap else slice(None)
            tree = DecisionTreeRegressor(
                max_features=growth.max_features,
                min_samples_leaf=growth.min_samples_leaf,
                random_state=random_state,
            )
            splits = tree.fit(rows[drawn], target[drawn], check_input=False).tree_
            mean = splits.value[:, 0, 0].copy()
            trees.append(Tree(splits, mean, splits.impurity, splits.weighted_n_node_samples))
    return tuple(trees)


def predict_by_tree(trees: tuple[Tree, ...], tables: list[Array], features: Features) -> Array:
    """Return the entry of every tree's table at the leaf of every row, ``(trees, m)``."""
    rows = _single_precision(features)
    predictions = np.empty((len(trees), len(rows)))
    for out, tree, table in zip(predictions, trees, tables, strict=True):
        np.take(table, tree.splits.apply(rows), out=out)
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
        means = predict_by_tree(self.trees, [tree.mean for tree in self.trees], features)
        variances = predict_by_tree(self.trees, [tree.variance for tree in self.trees], features)
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
