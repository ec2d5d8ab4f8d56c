"""The proportion of centrality while tuning: the flow graph of what a model expects.

The 2022 paper leaves this as future work (section VIII).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.benchmarking.landscape.graph import FAILED, SHARES, graph_of
from baco_like.benchmarking.landscape.neighbours import Neighbourhood, space_columns
from baco_like.records.history import History
from baco_like.records.trial import Status
from baco_like.spaces.space import Space
from baco_like.surrogates.feasibility import ForestFeasibility
from baco_like.surrogates.forest import Growth, RandomForest
from baco_like.surrogates.gp.model import GaussianProcess
from baco_like.surrogates.protocol import Data, Model, Surrogate
from baco_like.surrogates.transform import fit_transform

LARGEST = 2**20
"""A space with more feasible configurations is not listed."""

LEAST = 10
"""A model of fewer successes says nothing."""

_SURROGATES: tuple[Surrogate, ...] = (
    GaussianProcess(),
    RandomForest(Growth(trees=200, max_features=5 / 6)),  # with few trees plateaus look like minima
)
"""Smooth landscapes are one's, rugged ones the other's; neither does for both."""

_FOLDS = 5

_CHUNK = 8192
"""Rows predicted at a time."""


def estimated_centrality_curve(
    history: History,
    rng: Rng,
    shares: Sequence[float] = SHARES,
    neighbourhood: Neighbourhood = "adjacent",
) -> Array:
    """Return estimates of C_p (`FlowGraph.centrality_curve`) from the observations so far.

    A Gaussian process and a random forest of the logarithms predict every configuration of the space, a forest of the
    failures which of them fail; what was observed replaces what was predicted, and of these costs a flow graph is
    made. The two graphs' C_p are averaged, each weighted by the inverse of its model's squared error at observations
    left out (in five parts).

    How far to trust it, on eight recorded spaces (benchmarks/quality/results/landscape.md): after 50 observations it
    tells the easy space from the hard ones but errs by 0.17 to 0.19 on average over p and spaces, towards easy, and by
    up to 0.65 in single runs; after 100 by 0.13, after 200 by 0.07 to 0.08, after 400 by 0.05 to 0.07. Guessing the
    mean of the other spaces errs by 0.20, but among the seven hard spaces only by 0.08, which the estimate betters
    from 400 observations on (rank correlation of C_10 % with the full figure there: 0.5 to 0.7). Take it as a hint
    whether local search will do, not as a measurement. It takes seconds.

    Args:
        history: The observations; its space is listed.
        rng: Chance.
        shares: As in `FlowGraph.centrality_curve`.
        neighbourhood: ``adjacent`` or ``hamming``.

    Raises:
        ValueError: The space cannot be listed, or there are fewer than `LEAST` successes.
    """
    space, ran = history.space, history.where(Status.OK)
    codes = _listed(space)
    if ran.sum() < LEAST:
        raise ValueError(f"{ran.sum()} configurations have run; an estimate needs {LEAST} or more")
    table = space_columns(space, codes, neighbourhood)
    scale = fit_transform(history.costs[ran])
    y = scale.forward(history.costs[ran])
    data = Data(history.codes[ran], y, np.zeros(len(y)), np.zeros(len(y), dtype=bool))
    fails = _expected_failures(history, codes, rng)
    curves, weights = [], []
    for surrogate in _SURROGATES:
        mean = _predicted(surrogate.fit(space, data, rng), codes)
        expected = scale.moments(mean, np.zeros(len(codes)))[0]
        costs = _corrected(history, np.where(fails, FAILED, expected))
        curves.append(graph_of(table, costs).centrality_curve(shares))
        weights.append(1 / max(_left_out_error(surrogate, space, data, rng), 1e-12))
    return np.average(curves, axis=0, weights=weights)


def _listed(space: Space) -> Codes:
    count = space.feasible.count
    if count is None or count > LARGEST:
        size = "cannot be counted" if count is None else f"has {count:,} configurations"
        raise ValueError(f"the space {size}; an estimate lists them, at most {LARGEST:,}")
    return np.concatenate(list(space.feasible.iterate()))


def _predicted(model: Model, codes: Codes) -> Array:
    starts = range(0, len(codes), _CHUNK)
    return np.concatenate([model.predict(codes[i : i + _CHUNK])[0] for i in starts])


def _expected_failures(history: History, codes: Codes, rng: Rng) -> Mask:
    """Return which configurations rather fail than run."""
    ran, both = history.where(Status.OK), _told(history)
    model = ForestFeasibility().fit(
        history.space, history.codes[both], ran[both], int(rng.integers(2**31))
    )
    starts = range(0, len(codes), _CHUNK)
    return np.concatenate([model.probability(codes[i : i + _CHUNK]) < 0.5 for i in starts])


def _told(history: History) -> Mask:
    return history.where(Status.OK) | history.where(Status.FAILED)


def _corrected(history: History, costs: Array) -> Array:
    """Return the costs, in the order of the feasible set, with those that were observed in their places."""
    told, space = _told(history), history.space
    codes = history.codes[told]
    values = np.where(history.where(Status.OK), history.costs, FAILED)[told]
    inside = space.feasible.contains(codes)
    rows = np.array(space.feasible.index(codes[inside]), dtype=np.int64)
    corrected = costs.copy()
    corrected[rows] = values[inside]
    return corrected


def _left_out_error(surrogate: Surrogate, space: Space, data: Data, rng: Rng) -> float:
    """Return the mean squared error at observations that the model has not seen."""
    fold = rng.permutation(len(data.y)) % _FOLDS
    error = 0.0
    for out in range(_FOLDS):
        model = surrogate.fit(space, data.rows(np.flatnonzero(fold != out)), rng)
        mean = model.predict(data.codes[fold == out])[0]
        error += float(((mean - data.y[fold == out]) ** 2).sum())
    return error / len(data.y)
