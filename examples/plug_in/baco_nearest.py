"""Four plug-ins: a strategy, a surrogate, an acquisition function and an evaluator; pyproject.toml names them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baco_like import EvaluatorError, Outcome
from baco_like.records import Proposal
from baco_like.spaces import neighbourhoods


@dataclass(frozen=True)
class NeighboursOfBest:
    """Random neighbours of the best configuration, and some random draws.

    Attributes:
        random_share: Share of random draws, from 0 to 1.
    """

    random_share: float = 0.1

    def init(self, problem, rng):
        return None

    def ask(self, problem, history, state, n, rng):
        if state is None or rng.random() < self.random_share:
            return []  # the optimizer draws at random
        rows, _ = neighbourhoods.hamming(problem.space, state[1][None], rng)
        rows = rows[~problem.is_excluded(history, rows)]
        return [Proposal(row, {"move": "neighbour"}) for row in rng.permutation(rows)[:n]]

    def tell(self, problem, state, observation, rng):
        if observation.code is None or not np.isfinite(observation.cost):
            return state
        if state is not None and observation.cost >= state[0]:
            return state
        return observation.cost, observation.code


@dataclass(frozen=True)
class NearestNeighbourModel:
    """Predicts the value of the nearest observation; the variance is the squared distance to it."""

    space: Any
    features: np.ndarray
    y: np.ndarray
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, codes):
        difference = self.space.features(codes)[:, None] - self.features[None]
        squared = (difference**2).sum(axis=2)
        return self.y[squared.argmin(axis=1)], squared.min(axis=1)


@dataclass(frozen=True)
class NearestNeighbour:
    """The value of the nearest observation."""

    def fit(self, space, data, rng, start=None):
        return NearestNeighbourModel(space, space.features(data.codes), data.y)


@dataclass(frozen=True)
class LowerBound:
    """Prefers low predictions and large uncertainty."""

    weight: float = 1.0

    def bind(self, model, incumbent, rng):
        def score(codes):
            mean, variance = model.predict(codes)
            return self.weight * np.sqrt(variance) - mean

        return score


class Roofline:
    """Computes the time of a tiled matrix product from a simple model of a processor.

    Args:
        size: Rows and columns of the matrices.
        unit: Unit of the objective; the run file gives it, no key of the table.
        gflops: Peak of the processor, in 10^9 operations a second.
        bandwidth: Peak of the memory, in 10^9 bytes a second.
        kib: Size of the cache in KiB; larger tiles do not run.
    """

    capacity = 1

    def __init__(
        self, size: int, unit: str, gflops: float = 100.0, bandwidth: float = 20.0, kib: int = 256
    ):
        if unit != "ms":
            raise EvaluatorError(f"kind roofline computes milliseconds, not {unit!r}")
        self._size, self._gflops, self._bandwidth, self._kib = size, gflops, bandwidth, kib
        self._submitted = []

    def submit(self, trial):
        self._submitted.append(trial)

    def wait(self):
        if not self._submitted:
            raise EvaluatorError("wait() needs a submitted trial")
        outcomes = [self._measure(trial) for trial in self._submitted]
        self._submitted.clear()
        return outcomes

    def close(self):
        self._submitted.clear()

    def _measure(self, trial):
        tile, unroll = trial["tile"], trial["unroll"]
        if 3 * 8 * tile**2 > 1024 * self._kib:
            return Outcome.failure(trial.id, "runtime", f"a tile of {tile} exceeds the cache")
        computing = 2 * self._size**3 / (self._gflops * 1e9) * (1 + 1 / unroll)
        loading = 2 * 8 * self._size**3 / tile / (self._bandwidth * 1e9)
        return Outcome.success(trial.id, (1e3 * max(computing, loading),))
