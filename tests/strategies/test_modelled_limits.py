"""Limits on metrics: each is modelled on its own value, beside the model of hidden constraints."""

import numpy as np
import pytest

from baco_like import Aim, Optimizer, Space
from baco_like.acquisitions.functions import weight_by_feasibility
from baco_like.records.limits import Limits
from baco_like.strategies.bayesian.fitting import FeasibilityWithLimits

VALUES = [2**i for i in range(9)]
SPACE = Space({"a": VALUES, "b": VALUES, "c": VALUES})
LIMIT = "size <= 6000"


def measure(trial):
    a, b, c = (np.log2(trial[name]) for name in "abc")
    time = 1 + (a - 7) ** 2 + (b - 3) ** 2 + abs(c - 6)
    return {"time": float(time), "size": float(200 * (1 + a) * (1 + c) + 20 * b), "power": 9.0 - a}


def evaluated(
    count,
    strategy="auto",
    seed=0,
    limits=(LIMIT,),
    fails=lambda trial: False,
    objectives=None,
    **settings,
):
    aim = Aim(objectives or {"time": "minimize"}, limits)
    optimizer = Optimizer(SPACE, aim, seed, strategy=strategy, **settings)
    for _ in range(count):
        observe(optimizer, optimizer.suggest(), fails)
    return optimizer


def observe(optimizer, trial, fails=lambda trial: False):
    if fails(trial):
        optimizer.observe(trial, failed="runtime")
    else:
        optimizer.observe(trial, measure(trial))


def beyond(optimizer):
    return sum(trial.failure == "limit" for trial in optimizer.trials)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", ["auto", "bayesian"])
def test_the_probability_falls_where_the_metric_grows(strategy, seed):
    optimizer = Optimizer(SPACE, Aim({"time": "minimize"}, [LIMIT]), strategy=strategy)
    # The same configurations for all: a good strategy would see few beyond the limit.
    for config in SPACE.sample(25, seed):
        optimizer.observe(config, measure(config))
    configs = [{"a": a, "b": 8, "c": 64} for a in VALUES]
    mean, _, feasible = optimizer.predict(configs)
    inside = np.array([measure(config)["size"] <= 6000 for config in configs])
    assert feasible[inside].min() > max(0.5, feasible[~inside].max())
    # The costs beyond the limit are known, so they are not imputed.
    times = [measure(config)["time"] for config in configs]
    assert abs(np.argmin(mean) - np.argmin(times)) <= 1
    trial = optimizer.suggest()  # the probability, not the weight
    assert trial.tag["p_feasible"] == pytest.approx(optimizer.predict([trial.config])[2][0])


def test_the_best_value_within_the_limit_is_found_with_few_violations():
    optimizers = [evaluated(40, seed=seed) for seed in range(2)]
    measured = [measure({"a": a, "b": b, "c": c}) for a in VALUES for b in VALUES for c in VALUES]
    best = min(metrics["time"] for metrics in measured if metrics["size"] <= 6000)
    assert [optimizer.best_value for optimizer in optimizers] == [best] * 2
    assert np.mean([beyond(optimizer) for optimizer in optimizers]) < 15


class Half:
    """Predicts that everything runs, and a mean at the limit 0."""

    def probability(self, codes):
        return np.full(len(codes), 0.9)

    def predict(self, codes):
        return np.zeros(len(codes)), np.ones(len(codes))


def test_a_limit_counts_twice_in_the_weight_but_not_in_the_probability():
    model = FeasibilityWithLimits(Half(), ((Half(), 0.0),))
    rows = np.zeros((3, 1))
    assert model.probability(rows) == pytest.approx(0.9 * 0.5)
    assert model.weight(rows) == pytest.approx(0.9 * 0.25)
    scores = weight_by_feasibility(lambda codes: np.zeros(len(codes)), model, 0.0)(rows)
    assert scores == pytest.approx(np.log(0.9 * 0.25))


def test_a_limit_is_no_hidden_constraint():
    fails = lambda trial: trial["b"] >= 64  # noqa: E731
    optimizer = evaluated(30, limits=("size <= 3000",), fails=fails)
    small = [{"a": 1, "b": b, "c": 1} for b in VALUES]
    feasible = optimizer.predict(small)[2]
    assert feasible[:5].min() > 0.6 > feasible[-2:].max()


@pytest.mark.parametrize("strategy", ["parego", "nsga2", "auto"])
def test_several_objectives_within_a_limit(strategy):
    objectives = {"time": "minimize", "power": "minimize"}
    optimizer = evaluated(20, strategy, objectives=objectives)
    assert beyond(optimizer)
    assert optimizer.front
    assert all(trial.metrics["size"] <= 6000 for trial in optimizer.front)
    if strategy == "auto":
        feasible = optimizer.predict([{"a": 2, "b": 8, "c": 4}, {"a": 256, "b": 8, "c": 256}])[2]
        assert feasible[0] > 0.9
        assert feasible[1] < 0.1


def test_a_limit_without_an_inequality_is_left_to_the_forest():
    limits = ("size <= 6000 or power > 20",)
    assert Limits(limits).margins([], "time").values.shape == (0, 0)
    optimizer = evaluated(25, limits=limits)
    assert beyond(optimizer)
    assert optimizer.best.metrics["size"] <= 6000
