"""Kernel Tuner's Bayesian optimization: turns, tags, exploration factor, and that it finds a minimum."""

import numpy as np
import pytest

from baco_like import Optimizer, Ordinal, Search, Space
from baco_like.strategies import create_strategy
from baco_like.strategies.bayesian.kernel_tuner_bo import (
    AdvancedMulti,
    IndexFeatures,
    Multi,
    Turns,
    exploration_factor,
)

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


def test_turns_rotate_and_count_pending_proposals():
    turns = Turns.of()
    assert [turns.next(i) for i in range(4)] == ["ei", "poi", "lcb", "ei"]
    turns = turns.add_cost("ei", 1.0, 0.9)
    assert [turns.next(i) for i in range(3)] == ["poi", "lcb", "ei"]


def test_the_discounted_observation_score_equals_the_sum_in_the_paper():
    turns = Turns.of(["ei"])
    costs = [3.0, 1.0, 2.0]
    for cost in costs:
        turns = turns.add_cost("ei", cost, 0.9)
    t = len(costs)
    score = sum(o * 0.9 ** (t - i) for i, o in enumerate(costs, 1))
    assert turns.records[0].score == pytest.approx(score)
    assert turns.records[0].mean == pytest.approx(score / (1 + 0.9 + 0.81))


def play(selector, costs, same, rounds):
    turns = Turns.of()
    for _ in range(rounds):
        name = turns.next(0)
        turns = selector.update(turns, name, costs[name], same(name))
    return turns


def test_multi_skips_the_worse_of_two_that_agree_too_often():
    costs = {"ei": 1.0, "poi": 2.0, "lcb": 3.0}

    def same(name):
        return ["ei", "poi"] if name in ("ei", "poi") else [name]

    assert play(Multi(), costs, same, 5).names == ("ei", "poi", "lcb")
    assert play(Multi(), costs, same, 9).names == ("ei", "lcb")


def test_advanced_multi_skips_the_clearly_worse_after_five_rounds():
    costs = {"ei": 1.0, "poi": 1.0, "lcb": 1.3}
    assert play(AdvancedMulti(), costs, lambda n: [n], 14).names == ("ei", "poi", "lcb")
    assert play(AdvancedMulti(), costs, lambda n: [n], 15).names == ("ei", "poi")


def test_advanced_multi_promotes_the_clearly_better():
    costs = {"ei": 1.0, "poi": 0.7, "lcb": 1.0}
    assert play(AdvancedMulti(), costs, lambda n: [n], 15).names == ("poi",)


def test_observations_of_a_dropped_function_change_no_state():
    turns = Turns.of(["ei"])
    assert turns.add_cost("lcb", 5.0, 0.9) == turns


def test_exploration_factor_equals_the_formula_in_the_paper():
    # sigma^2 / (mu_s / f(x+)) / sigma_s^2
    assert exploration_factor(0.3, 8.0, 20.0, 0.6) == pytest.approx((0.3 / (20.0 / 8.0)) / 0.6)
    assert exploration_factor(0.6, 20.0, 20.0, 0.6) == 1.0
    assert exploration_factor(0.0, 8.0, 20.0, 0.6) == 0.0


def test_exploration_shrinks_as_a_rate_grows():
    """Costs are negative rates: 10 items a second at first and 40 now are times of 4 and 1."""
    assert exploration_factor(0.5, -40.0, -10.0, 1.0) == pytest.approx(0.5 / 4)
    assert exploration_factor(0.5, -40.0, -10.0, 1.0) == exploration_factor(0.5, 1.0, 4.0, 1.0)


@pytest.mark.parametrize(
    ("best", "mean", "variance", "expected"),
    [(-5.0, 5.0, 1.0, 0.5), (3.0, 0.0, 1.0, 0.5), (2.0, 4.0, 0.0, 0.5), (1e308, 1e-308, 1.0, 0.5)],
)
def test_an_undefined_ratio_counts_as_one(best, mean, variance, expected):
    assert exploration_factor(0.5, best, mean, variance) == pytest.approx(expected)
