"""Soft limits: each violation adds a penalty to the cost."""

import json

import numpy as np
import pytest

from baco_like import (
    Aim,
    ExpressionError,
    MaxEvals,
    Optimizer,
    Outcome,
    SoftLimit,
    Space,
    WarmStart,
    tune,
)
from baco_like.records.limits import Limits

SPACE = Space({"a": [1, 2, 4, 8, 16], "b": [1, 2, 4, 8, 16]})
LIMIT = SoftLimit("size <= 40", 8.0)


def measure(config):
    return {"time": 10.0 - np.log2(config["a"]), "size": 4.0 * config["a"]}


def evaluated(count=12, limits=(LIMIT,), **settings):
    optimizer = Optimizer(SPACE, Aim({"time": "minimize"}, limits), **settings)
    for _ in range(count):
        trial = optimizer.suggest()
        optimizer.observe(trial, measure(trial))
    return optimizer


def test_the_value_includes_the_penalty_and_the_measured_value_is_a_metric():
    optimizer = Optimizer(SPACE, Aim({"time": "minimize"}, [LIMIT, "size < 1000"]))
    optimizer.observe({"a": 16, "b": 1}, {"time": [6.0, 6.2, 6.1], "size": 50.0})
    optimizer.observe({"a": 8, "b": 1}, {"time": 7.0, "size": 40.0})
    beyond, within = optimizer.trials
    assert beyond.value == pytest.approx(6.1 + 8.0 * 0.25)
    assert beyond.repeats == pytest.approx((8.0, 8.2, 8.1))
    assert beyond.metrics["measured_time"] == 6.1
    assert within.value == within.metrics["measured_time"] == 7.0
    assert optimizer.best.id == within.id


def test_a_penalty_is_subtracted_from_a_rate():
    optimizer = Optimizer(SPACE, Aim({"rate": "maximize"}, [LIMIT]))
    optimizer.observe({"a": 16, "b": 1}, {"rate": 9.0, "size": 60.0})
    assert optimizer.best_value == 9.0 - 4.0


@pytest.mark.parametrize("strategy", ["auto", "nsga2", "genetic_local_search"])
def test_the_best_trade_is_found_and_recommended(strategy):
    optimizer = evaluated(25, strategy=strategy, seed=2)
    # a = 16 is 60 % beyond the limit, which costs 4.8 to gain 1.
    assert optimizer.best_config["a"] == 8
    assert optimizer.recommend()["a"] == 8
    lenient = evaluated(25, [SoftLimit("size <= 40", 0.1)], strategy=strategy, seed=2)
    assert lenient.best_config["a"] == 16


def test_a_resumed_run_has_the_same_values_and_needs_the_same_limits(tmp_path):
    path = tmp_path / "run.jsonl"
    first = evaluated(storage=path)
    again = Optimizer.load(path)
    assert [t.value for t in again.trials] == [t.value for t in first.trials]
    assert again.options == first.options
    header = json.loads(path.read_text().splitlines()[0])
    assert header["options"]["limits"] == [{"condition": "size <= 40", "penalty": 8.0}]
    Optimizer(SPACE, Aim({"time": "minimize"}, [LIMIT]), storage=path)


def test_a_warm_start_does_not_add_the_penalty_again(tmp_path):
    path = tmp_path / "run.jsonl"
    values = {t.config["a"]: t.value for t in evaluated(storage=path).trials}
    same = Optimizer(SPACE, Aim({"time": "minimize"}, [LIMIT]), warm_start=WarmStart(path))
    assert {t.config["a"]: t.value for t in same.trials} == values
    more = [SoftLimit("size <= 40", 16.0)]
    other = Optimizer(SPACE, Aim({"time": "minimize"}, more), warm_start=WarmStart(path))
    for trial in other.trials:
        measured = measure(trial)
        excess = max(0.0, measured["size"] / 40.0 - 1.0)
        assert trial.value == pytest.approx(measured["time"] + 16.0 * excess)


def test_judging_twice_adds_one_penalty():
    limits = Limits([LIMIT])
    once = limits.judge(Outcome.success(0, (5.0,), metrics={"size": 80.0}), "time")
    assert once.value == 13.0
    assert limits.judge(once, "time") == once


def test_tune_takes_soft_limits():
    result = tune(
        measure, SPACE, aim=Aim({"time": "minimize"}, [LIMIT]), stop=MaxEvals(10), progress=False
    )
    assert result.best_value == result.best.metrics["measured_time"]


@pytest.mark.parametrize("penalty", [0, -1.0, float("nan"), float("inf"), "8", True])
def test_a_wrong_penalty_is_refused(penalty):
    with pytest.raises(ValueError, match=r"penalty = .* expected a number above 0"):
        SoftLimit("size <= 40", penalty)


@pytest.mark.parametrize("condition", ["size == 40", "size <= 40 or time < 1", "size !="])
def test_a_condition_without_a_violation_is_refused(condition):
    with pytest.raises(ExpressionError):
        SoftLimit(condition, 1.0)


def test_several_objectives_refuse_a_soft_limit():
    objectives = {"time": "minimize", "size": "minimize"}
    with pytest.raises(ValueError, match="make the metric an objective"):
        Optimizer(SPACE, Aim(objectives, [LIMIT]))


def test_a_missing_metric_is_an_error_before_anything_is_recorded():
    optimizer = Optimizer(SPACE, Aim({"time": "minimize"}, [LIMIT]))
    trial = optimizer.suggest()
    with pytest.raises(Exception, match="a limit reads 'size'"):
        optimizer.observe(trial, {"time": 1.0})
    assert len(optimizer.trials) == 0
