"""Kernel Tuner's Bayesian optimization: turns, tags, exploration factor, and that it finds a minimum."""

import numpy as np
import pytest

from baco_like import Optimizer, Ordinal, Search, Space
from baco_like.strategies import create_strategy
from baco_like.surrogates.index_features import IndexFeatures

SPACE = Space(
    {"x": Ordinal([2**i for i in range(10)], log=True), "y": list(range(12)), "one": [5]},
    constraints=["x * (y + 1) <= 3000"],
)


def cost(trial):
    return 1 + (np.log2(trial["x"]) - 6) ** 2 + (trial["y"] - 4) ** 2


def run(n, fails=lambda t: False, **settings):
    opt = Optimizer(SPACE, strategy=Search("kernel_tuner_bo", {"initial": 6, **settings}), seed=1)
    for _ in range(n):
        trial = opt.suggest()
        if fails(trial):
            opt.observe(trial, failed="compile")
        else:
            opt.observe(trial, cost(trial))
    return opt


@pytest.mark.parametrize("acquisition", ["ei", "multi", "advanced_multi"])
def test_it_finds_the_minimum(acquisition):
    assert run(30, acquisition=acquisition).best_value == 1.0


def test_acquisitions_take_turns():
    names = [t.tag["acquisition"] for t in run(15).trials if t.tag.get("phase") == "model"]
    assert names[:6] == ["ei", "poi", "lcb"] * 2


def test_the_factor_is_the_contextual_variance():
    opt = run(20)
    first = next(t.tag for t in opt.trials if t.tag.get("phase") == "model")
    design = [t.value for t in opt.trials[:6]]
    assert first["initial_mean"] == pytest.approx(np.mean(design))
    # one over the improvement so far, as the variances are the same at the first proposal
    assert first["factor"] == pytest.approx(min(design) / np.mean(design))
    last = opt.trials[-1].tag
    assert last["initial_mean"] == first["initial_mean"]
    assert last["factor"] < first["factor"]


def test_a_constant_factor_is_used_as_it_is():
    assert run(9, exploration=0.01).trials[-1].tag["factor"] == 0.01


def test_failures_are_not_fitted_and_count_as_the_median():
    opt = run(25, fails=lambda t: t["y"] > 8)
    assert any(t.failure for t in opt.trials)
    assert opt.best_value == 1.0


def test_features_are_evenly_spaced_and_constants_are_left_out():
    featured = IndexFeatures(SPACE)
    rows = SPACE.encode(
        [{"x": 1, "y": 0, "one": 5}, {"x": 512, "y": 0, "one": 5}, {"x": 2, "y": 11, "one": 5}]
    )
    assert featured.features(rows) == pytest.approx(np.array([[0, 0], [1, 0], [1 / 9, 1]]))
    assert list(featured.feature_owner) == [0, 1]


@pytest.mark.parametrize("wrong", [{"acquisition": "best"}, {"initail": 3}])
def test_wrong_settings(wrong):
    with pytest.raises(ValueError, match=r"acquisition|initail"):
        create_strategy("kernel_tuner_bo", wrong)


def test_values_near_the_largest_double():
    opt = Optimizer({"a": list(range(30)), "b": [1, 2]}, strategy="kernel_tuner_bo", seed=1)
    for _ in range(26):
        trial = opt.suggest()
        opt.observe(trial, 1e308 + 1e306 * abs(trial["a"] - 12))
    assert opt.best_config["a"] == 12
    told = [t.tag["initial_mean"] for t in opt.trials if "initial_mean" in (t.tag or {})]
    assert told
    assert all(1e308 < mean < 1.3e308 for mean in told)


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), -1.0])
def test_an_exploration_that_is_no_factor_is_refused(factor):
    with pytest.raises(ValueError, match="exploration = "):
        create_strategy("kernel_tuner_bo", {"exploration": factor})
