"""The outlook of a run, and its leave-one-out predictions."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import MaxEvals, Optimizer, Space, TrialError
from baco_like.explanations import compute_calibration, estimate_outlook
from baco_like.explanations.outlook import _expected_gain
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.summary import end_section
from baco_like.running import LowOutlook
from baco_like.running.journal_view import JournalView, describe_outlook, describe_run


def valley(evaluations, strategy="auto"):
    """Return a run that finds the bottom of a smooth valley."""
    optimizer = Optimizer(Space({"x": range(40), "y": range(40)}), strategy=strategy)
    for _ in range(evaluations):
        trial = optimizer.suggest()
        optimizer.observe(
            trial, 1.0 + ((trial["x"] - 25) / 20) ** 2 + ((trial["y"] - 10) / 20) ** 2
        )
    return optimizer


@pytest.fixture(scope="module")
def converged():
    return valley(40)


def test_nothing_is_left_at_the_bottom_of_a_valley(converged):
    outlook = converged.outlook()
    assert outlook.best == converged.best_value
    assert outlook.low <= outlook.remaining <= outlook.high < 0.02
    assert outlook.expected < 0.005


def test_much_is_left_at_the_start(converged):
    early = estimate_outlook(converged.history, count=6)
    assert early.expected > converged.outlook().expected
    assert early.trials == 6


def test_more_evaluations_are_expected_to_find_more(converged):
    few, many = (estimate_outlook(converged.history, evaluations=n, count=8) for n in (1, 30))
    assert few.expected <= many.expected


def test_it_depends_on_the_first_observations_only(converged):
    shorter = valley(20)
    assert estimate_outlook(converged.history, count=20) == estimate_outlook(shorter.history)


def test_the_improvement_of_a_maximum_is_relative_too():
    optimizer = Optimizer(Space({"x": range(50)}), "maximize", strategy="random_search")
    for _ in range(10):
        trial = optimizer.suggest()
        optimizer.observe(trial, 10.0 + trial["x"])
    outlook = optimizer.outlook(5)
    assert outlook.best == optimizer.best_value
    assert 0.0 <= outlook.expected < 0.5


def test_an_exhausted_space_has_no_outlook():
    optimizer = Optimizer(Space({"x": range(8)}), strategy="exhaustive")
    optimizer.observe(trials := optimizer.suggest(8), [float(t["x"] + 1) for t in trials])
    outlook = optimizer.outlook()
    assert (outlook.expected, outlook.remaining, outlook.high) == (0.0, 0.0, 0.0)
    assert str(outlook).startswith("0 % better than the best measured value, ")
    assert str(outlook).endswith("all 8 feasible configurations were evaluated")


def test_a_best_value_of_zero_has_no_outlook(tmp_path):
    """A share of 0 is no improvement in percent; a rule and a report go on without."""
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(Space({"x": range(200)}), strategy="random_search", storage=path)
    optimizer.enqueue({"x": 0})
    for _ in range(30):
        trial = optimizer.suggest()
        optimizer.observe(trial, float(trial["x"]))
    with pytest.raises(TrialError, match="relative to the best value, which is 0"):
        optimizer.outlook()
    assert LowOutlook(20, rel=0.5).reason(optimizer.history, 0.0) is None
    assert describe_outlook(JournalView(path)) == ""
    section = end_section(RunFacts(path))
    assert section.answer == "There is no estimate relative to a best value of 0."


def test_only_the_target_fidelity_is_explained(tmp_path):
    path = tmp_path / "run.jsonl"
    space = Space({"tile": [8, 16, 32, 64], "unroll": [1, 2, 4]}, fidelity={"size": [256, 1024]})
    optimizer = Optimizer(space, storage=path, strategy="random_search")
    for config in space.sample(24, seed=1):
        value = (config["size"] / 256) * (abs(config["tile"] - 30) + config["unroll"])
        optimizer.observe(config, value)
    outlook = optimizer.outlook()
    assert outlook.best == optimizer.best_value == 12
    targets = [trial for trial in optimizer.trials if trial["size"] == 1024]
    assert outlook.trials == len(targets)
    assert outlook.feasible == 12
    assert {effect.name for effect in optimizer.importance()} == {"tile", "unroll"}
    assert {name for table in optimizer.partial_dependence() for name in table.names} == {
        "tile",
        "unroll",
    }
    ablation = optimizer.ablation({"tile": 8, "unroll": 4, "size": 1024})
    assert ablation.steps[-1].value == 12
    observed = {point.observed for point in compute_calibration(optimizer.history).points}
    assert min(observed) == 12
    shown = describe_run(JournalView(path), 24, 200)
    assert "  1024" in shown
    assert "  256" not in shown


def test_several_tasks_have_no_outlook():
    optimizer = Optimizer(Space({"x": range(8)}, tasks=[{"n": 1}, {"n": 9}]))
    with pytest.raises(TrialError, match="single task, but the run has several: n=1, n=9"):
        optimizer.outlook()


def test_the_greedy_choice_counts_failures():
    gains = np.tile([0.5, 0.2], (8, 1))
    assert _expected_gain(gains, 1) == pytest.approx(0.5)
    assert _expected_gain(gains * np.array([0.1, 1.0]), 1) == pytest.approx(0.2)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0.0, 0.6))
@settings(max_examples=15)
def test_no_more_is_expected_soon_than_in_all(seed, evaluations, failing):
    rng = np.random.default_rng(seed)
    optimizer = Optimizer(Space({"x": range(9), "y": range(9)}), strategy="random_search")
    trials = optimizer.suggest(20)
    for i, trial in enumerate(trials):
        if i >= 5 and rng.random() < failing:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, float(trial["x"] + np.exp(2.0 * rng.normal())))
    outlook = optimizer.outlook(evaluations)
    assert 0.0 <= outlook.expected <= outlook.remaining
    assert outlook.low <= outlook.remaining <= outlook.high


def test_it_says_how_much_of_the_space_was_not_evaluated():
    optimizer = Optimizer(Space({"x": range(32)}), strategy="exhaustive")
    for trial in optimizer.suggest(24):
        optimizer.observe(trial, 1.0 + trial["x"])
    outlook = optimizer.outlook()
    assert (outlook.feasible, outlook.untried) == (32, 8)
    assert "models of 24 observations" in str(outlook)
    assert f"better than the best measured value, {outlook.best:.4g}, expected" in str(outlook)
    assert "8 of 32 feasible configurations were not evaluated" in str(outlook)
    nothing = dataclasses.replace(outlook, expected=0.0, remaining=0.0, low=0.0, high=0.0)
    assert "one of them can still be better" in str(nothing)
    huge = dataclasses.replace(outlook, feasible=2**70, untried=2**70 - 24)
    assert "1e21 of 1e21 feasible configurations were not evaluated" in str(huge)


def test_wrong_arguments_are_refused(converged):
    with pytest.raises(ValueError, match="evaluations = 0"):
        converged.outlook(0)
    with pytest.raises(TrialError, match="needs 5 successful trials"):
        estimate_outlook(converged.history, count=3)


def test_the_rule_ends_a_converged_run(converged):
    rule = LowOutlook(20, rel=0.01)
    text = "less than 1 % improvement expected within 20 evaluations"
    assert (rule | MaxEvals(100)).reason(converged.history, 0.0) == text
    assert rule.reason(valley(29).history, 0.0) is None


def test_the_rule_looks_at_every_tenth_evaluation_only(converged, monkeypatch):
    rule, computed = LowOutlook(20, least=20), []
    monkeypatch.setattr(
        "baco_like.explanations.estimate_outlook",
        lambda history, evaluations, count: computed.append(count) or SimpleNamespace(expected=0.5),
    )
    optimizer = valley(20, "random_search")
    for n in range(20, 32):
        assert rule.reason(optimizer.history, 0.0) is None
        optimizer.observe(optimizer.suggest(), 5.0 + n)
    assert computed == [20, 30]
    resumed = dataclasses.replace(rule)
    assert resumed.reason(optimizer.history, 0.0) is None
    assert computed[-1] == 30


def test_the_rule_waits_for_successes():
    optimizer = Optimizer(Space({"x": range(100)}), strategy="random_search")
    for _ in range(30):
        optimizer.observe(optimizer.suggest(), failed="compile")
    assert LowOutlook().reason(optimizer.history, 0.0) is None


@pytest.mark.parametrize(
    ("name", "value"), [("evaluations", 0), ("rel", 0.0), ("rel", 1.5), ("least", 0)]
)
def test_wrong_settings_of_the_rule_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"LowOutlook: {name} = "):
        LowOutlook(**{name: value})


# ---- Leave-one-out predictions of a run ----


SPACE = {"x": list(range(12)), "y": list(range(12)), "z": ["a", "b"]}


def run_of(noise, direction="minimize"):
    rng = np.random.default_rng(3)
    optimizer = Optimizer(SPACE, direction, strategy="random_search", seed=1)
    trials = optimizer.suggest(60)
    values = [np.exp(0.1 * t["x"] - 0.05 * t["y"] + (t["z"] == "a")) for t in trials]
    optimizer.observe(trials, [v * np.exp(noise * rng.standard_normal()) for v in values])
    return optimizer.history


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_smooth_function_is_predicted_and_the_intervals_cover_it(direction):
    history = run_of(0.1, direction)
    calibration = compute_calibration(history)
    assert [p.observed for p in calibration.points] == pytest.approx(
        [trial.value for trial in history.trials]
    )
    assert all(p.low <= p.predicted <= p.high for p in calibration.points)
    assert calibration.correlation > 0.9
    assert 0.8 <= calibration.coverage <= 1.0
    assert calibration == compute_calibration(history)


def test_noise_widens_the_intervals():
    def width(noise):
        return np.median([p.high / p.low for p in compute_calibration(run_of(noise)).points])

    assert width(0.3) > 1.5 * width(0.05)


def test_too_few_successes_are_refused():
    optimizer = Optimizer(SPACE)
    with pytest.raises(TrialError, match="needs 5 successful trials"):
        compute_calibration(optimizer.history)
