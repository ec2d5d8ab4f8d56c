"""A surrogate, an acquisition function and an acquisition optimizer of your own, in Bayesian optimization.

Each part is a small frozen class. The conformance suites of `baco_like.testing` check them before the run.

Run it with: python examples/model_parts.py [EVALUATIONS]
"""

import sys
from dataclasses import dataclass

import numpy as np

from baco_like import MaxEvals, Ordinal, Space, tune
from baco_like.strategies import Bayesian, Phased
from baco_like.testing import acquisition_optimizers, acquisitions, surrogates


@dataclass(frozen=True, eq=False)
class NeighbourModel:
    """Predicts the mean of the nearest observations, with a variance that grows with the distance to them."""

    space: Space
    features: np.ndarray
    y: np.ndarray
    neighbours: int

    hyperparameters = property(
        lambda self: {}
    )  # a later fit may start from these; here there are none

    def predict(self, codes):
        """Return mean and variance, (n, w) -> (n,), (n,)."""
        difference = self.space.features(codes)[:, None, :] - self.features[None, :, :]
        distance = np.sqrt((difference**2).sum(axis=2))
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.neighbours]
        y, distance = self.y[nearest], np.take_along_axis(distance, nearest, axis=1)
        weight = 1.0 / (distance + 1e-3)
        mean = (weight * y).sum(axis=1) / weight.sum(axis=1)
        return mean, y.var(axis=1) + distance[:, 0] ** 2


@dataclass(frozen=True)
class NearestNeighbours:
    """The surrogate: it keeps the observations."""

    neighbours: int = 3

    def fit(self, space, data, rng, start=None):
        return NeighbourModel(space, space.features(data.codes), data.y, self.neighbours)


@dataclass(frozen=True)
class MeanAndDistance:
    """The acquisition function: the lower confidence bound with a random number of standard deviations."""

    largest: float = 3.0

    def bind(self, model, incumbent, rng):
        deviations = rng.uniform(0.0, self.largest)

        def score(codes):
            mean, variance = model.predict(codes)
            return deviations * np.sqrt(variance) - mean

        return score


@dataclass(frozen=True)
class BestOfSample:
    """The acquisition optimizer: the best of random configurations."""

    draws: int = 300

    def maximise(self, score, space, n, rng, start, is_excluded):
        rows = np.unique(space.feasible.sample(self.draws, rng), axis=0)
        rows = rng.permutation(rows[~is_excluded(rows)])
        if not len(rows):
            return rows
        scores = np.nan_to_num(score(rows), nan=-np.inf)
        return rows[np.argsort(-scores, kind="stable")[:n]]


powers = [2**i for i in range(9)]
space = Space(
    {"bx": Ordinal(powers, log=True), "by": Ordinal(powers, log=True), "flag": ["a", "b", "c"]},
    constraints=["32 <= bx * by <= 1024"],
)
for check in surrogates.CHECKS:
    check(NearestNeighbours(), space)
for check in acquisitions.CHECKS:
    check(MeanAndDistance())
for check in acquisition_optimizers.CHECKS:
    check(BestOfSample(), space)


def milliseconds(trial):
    steps = abs(np.log2(trial["bx"]) - 5) + 0.5 * abs(np.log2(trial["by"]) - 3)
    return 1.0 + steps + 2.0 * (trial["flag"] != "b")


model_based = Bayesian(
    surrogate=NearestNeighbours(),
    acquisition=MeanAndDistance(),
    scan=BestOfSample(),
    search=BestOfSample(),
)
evaluations = int(sys.argv[1]) if len(sys.argv) > 1 else 40
result = tune(
    milliseconds,
    space,
    strategy=Phased(model_based, 8),
    stop=MaxEvals(evaluations),
    seed=0,
    progress=False,
)
print("best configuration:", result.best_config, f"{result.best_value:.2f} ms")
