import dataclasses
import math

import pytest

from baco_like import ConfigError, Optimizer, Ordinal, Space
from baco_like.evaluators import FunctionEvaluator
from baco_like.explanations.ablation import merge_steps
from baco_like.running.confirming import Confirm, confirm_winner

START = {"a": 4, "b": 2, "c": False, "order": ("k", "j", "i")}


@pytest.fixture(scope="module")
def path(optimizer):
    return optimizer.ablation(start=START)


def test_the_path_leads_from_the_start_to_the_best(optimizer, path):
    config = dict(START)
    for step in path:
        assert tuple(config[name] for name in step.parameters) == step.before
        config.update(zip(step.parameters, step.after, strict=True))
        assert optimizer.space.contains(config)
    assert config == optimizer.best_config == path.end
    assert path.steps[-1].measured
    assert path.steps[-1].value == optimizer.best_value


def test_the_changes_add_up(path):
    total = math.fsum(step.change for step in path)
    assert total == pytest.approx(path.steps[-1].value - path.origin.value)


def test_the_largest_improvement_comes_first(path):
    assert path.steps[0].parameters == ("a",)


def test_predicted_values_have_an_interval(path):
    for step in (path.origin, *path):
        assert step.low <= step.value <= step.high
        assert step.measured == (step.low == step.high)


def test_parameters_that_constraints_couple_change_together():
    space = Space({"x": [0, 1], "y": [0, 1], "z": Ordinal([0, 1, 2])}, constraints=["x + y == 1"])
    optimizer = Optimizer(space, "maximize", strategy="random_search")
    for _ in range(6):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + trial["x"] + trial["z"])
    path = optimizer.ablation(start={"x": 0, "y": 1, "z": 0})
    assert {step.parameters for step in path} == {("x", "y"), ("z",)}
    assert all(step.measured and step.change > 0 for step in path)


def changed(step, name, change, low, high):
    return dataclasses.replace(
        step, parameters=(name,), value=100.0, change=change, change_low=low, change_high=high
    )


def test_weak_steps_in_a_row_are_merged(path):
    step = path.steps[0]
    weak = [changed(step, name, 0.5, -1.0, 2.0) for name in "pqr"]
    strong = changed(step, "a", -0.5, -0.6, -0.2)
    fails = changed(step, "a", math.nan, math.nan, math.nan)
    merged = merge_steps([weak[0], strong, *weak[1:], fails])
    assert [each.parameters for each in merged] == [("p",), ("a",), ("q", "r"), ("a",)]
    assert [each.change for each in merged[:3]] == [0.5, -0.5, 1.0]
    assert path.steps[0].is_significant
    assert path.steps[0].change_low < path.steps[0].change < path.steps[0].change_high
    assert merge_steps([]) == ()


def test_uncertain_changes_that_bring_much_keep_their_rows(path):
    large = [changed(path.steps[0], name, -2.0, -5.0, 1.0) for name in "pqr"]
    small = [changed(path.steps[0], name, -0.2, -1.0, 1.0) for name in "stu"]
    merged = merge_steps([*large, *small])
    assert [each.parameters for each in merged] == [("p",), ("q",), ("r",), ("s", "t", "u")]
    assert merged[-1].change == pytest.approx(-0.6)


def test_it_prints_and_becomes_a_dataframe(path):
    lines = repr(path).splitlines()
    assert len(lines) == len(path) + 2
    assert "a: 4 → 1" in repr(path)
    assert list(path.to_dataframe()["value"])[-1] == path.steps[-1].value


def test_a_start_outside_the_space_is_refused(optimizer):
    with pytest.raises(ConfigError, match="start: "):
        optimizer.ablation(start={**START, "a": 8})


def test_without_a_default_the_path_starts_at_the_first_success(optimizer):
    first = next(trial for trial in optimizer.trials if trial.value is not None)
    assert optimizer.ablation().start == dict(first.config)


def test_the_path_ends_at_the_confirmed_winner():
    """The second best trial wins the confirmation, so the best observed one was lucky."""
    optimizer = Optimizer({"x": Ordinal([0, 1, 2, 3, 4, 5])}, strategy="exhaustive")
    for trial in optimizer.suggest(6):
        optimizer.observe(trial, 1.0 + abs(trial["x"] - 3) + 0.1 * trial["x"])

    def measure(config):
        return 9.0 if config["x"] == 3 else 2.0

    confirm_winner(optimizer, FunctionEvaluator(measure), Confirm(top=2, evaluations=20))
    assert optimizer.best_config == {"x": 3}
    assert optimizer.ablation(start={"x": 0}).end == {"x": 2}


def test_a_step_names_what_it_switches_on_and_off():
    space = Space(
        {"kind": ["a", "b"], "x": [1, 2], "m": [1, 2, 3], "n": [5, 6]},
        when={"x": "kind == 'a'", "m": "kind == 'b'", "n": "m > 1"},
    )
    optimizer = Optimizer(space, strategy="exhaustive")
    for trial in optimizer.suggest(space.feasible_size):
        optimizer.observe(trial, 1.0 + trial.get("x", 0) - trial.get("m", 0))
    start, end = {"kind": "a", "x": 2}, {"kind": "b", "m": 3, "n": 5}
    config = dict(start)
    for step in optimizer.ablation(start=start, end=end):
        assert tuple(map(config.get, step.parameters)) == step.before
        config |= dict(zip(step.parameters, step.after, strict=True))
        active = {name: value for name, value in config.items() if value is not None}
        assert space.contains(active)
    assert active == end
