"""Estimate the proportion of centrality while tuning, by the flow graph of a model's predictions.

The 2022 paper leaves this as future work (section VIII).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.benchmarking.landscape.graph import FAILED_COST, SHARES, build_flow_graph
from baco_like.benchmarking.landscape.neighbours import Neighbourhood, read_space_columns
from baco_like.records import History, Status
from baco_like.spaces import Space
from baco_like.surrogates.forest import ForestFeasibility, Growth, RandomForest
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.protocol import Data, Surrogate
from baco_like.surrogates.transform import fit_transform

_MAX_CONFIGURATIONS = 2**20
"""Largest feasible set that is listed."""

MIN_SUCCESSES = 10
"""Number of successes that the models need at least."""

_SURROGATES: tuple[Surrogate, ...] = (
    GaussianProcess(),
    # With few trees plateaus look like minima.
    RandomForest(Growth(trees=200, max_features=5 / 6)),
)
"""The Gaussian process suits smooth landscapes, the forest rugged ones; see benchmarks/quality/results/landscape.md."""

_FOLDS = 5

_CHUNK = 8192
"""Number of rows predicted at once; it limits the memory."""


def estimate_centrality_curve(
    history: History,
    rng: Rng,
    shares: Sequence[float] = SHARES,
    neighbourhood: Neighbourhood = "adjacent",
) -> Array:
    """Estimate C_p (`FlowGraph.centrality_curve`) from the observations so far.

    A Gaussian process and a random forest of the transformed costs predict every configuration of the space; another
    forest predicts the failures. Observed costs replace predictions, and each model's costs give a flow graph. The
    C_p of both graphs are averaged, weighted by the inverse of the model's squared error in a five-fold
    cross-validation.

    Accuracy on eight recorded spaces (benchmarks/quality/results/landscape.md): after 50 observations the estimate
    separates the easy space from the hard ones, but its mean error over p and spaces is 0.17 to 0.19 (towards easy),
    and up to 0.65 in single runs. The mean error is 0.13 after 100, 0.07 to 0.08 after 200, and 0.05 to 0.07 after
    400 observations. Guessing the mean of the other spaces has an error of 0.20, but only 0.08 among the seven hard
    spaces; there the estimate is better from 400 observations on (rank correlation of C_10 % with the exact value: 0.5
    to 0.7). Use it as a hint whether local search suffices, not as a measurement. It takes seconds.

    Args:
        history: The observations; all configurations of its space are listed.
        rng: Random generator.
        shares: As in `FlowGraph.centrality_curve`.
        neighbourhood: ``adjacent`` or ``hamming``.

    Returns:
        Estimates of C_p, ``(len(shares),)``.

    Raises:
        ValueError: The space is too large to list, or there are fewer than `MIN_SUCCESSES` successes.
    """
    space, ran = history.space, history.where(Status.OK)
    codes = _list_configurations(space)
    if ran.sum() < MIN_SUCCESSES:
        raise ValueError(f"{ran.sum()} successes; an estimate needs {MIN_SUCCESSES} or more")
    table = read_space_columns(space, codes, neighbourhood)
    scale = fit_transform(history.costs[ran])
    y = scale.forward(history.costs[ran])
    data = Data(history.codes[ran], y, np.zeros(len(y)), np.zeros(len(y), dtype=bool))
    known = ran | history.where(Status.FAILED)  # neither censored nor abandoned
    seed = int(rng.integers(2**31))
    feasibility = ForestFeasibility().fit(space, history.codes[known], ran[known], seed)
    blocks = np.split(codes, range(_CHUNK, len(codes), _CHUNK))
    fails = np.concatenate([feasibility.probability(block) for block in blocks]) < 0.5
    inside = space.feasible.contains(history.codes[known])
    observed_rows = np.array(space.feasible.index(history.codes[known][inside]), dtype=np.int64)
    observed_costs = np.where(ran, history.costs, FAILED_COST)[known][inside]
    curves, weights = [], []
    for surrogate in _SURROGATES:
        model = surrogate.fit(space, data, rng)
        mean = np.concatenate([model.predict(block)[0] for block in blocks])
        expected = scale.moments(mean, np.zeros(len(codes)))[0]
        costs = np.where(fails, FAILED_COST, expected)
        costs[observed_rows] = observed_costs
        curves.append(build_flow_graph(table, costs).centrality_curve(shares))
        weights.append(1 / max(_cross_validation_error(surrogate, space, data, rng), 1e-12))
    return np.average(curves, axis=0, weights=weights)


def _list_configurations(space: Space) -> Codes:
    count = space.feasible.count
    if count is None or count > _MAX_CONFIGURATIONS:
        size = "cannot be counted" if count is None else f"has {count:,} configurations"
        raise ValueError(f"the space {size}; an estimate lists at most {_MAX_CONFIGURATIONS:,}")
    return np.concatenate(list(space.feasible.iterate()))


def _cross_validation_error(surrogate: Surrogate, space: Space, data: Data, rng: Rng) -> float:
    """Return the mean squared error of a five-fold cross-validation."""
    fold = rng.permutation(len(data.y)) % _FOLDS
    error = 0.0
    for out in range(_FOLDS):
        model = surrogate.fit(space, data.rows(np.flatnonzero(fold != out)), rng)
        mean = model.predict(data.codes[fold == out])[0]
        error += float(((mean - data.y[fold == out]) ** 2).sum())
    return error / len(data.y)
