"""Build metrics: kept with an outcome, and the choice among built configurations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baco_like import Integer, Optimizer, Space
from baco_like.exceptions import SpaceExhausted, TrialError
from baco_like.strategies import choosing

SPACE = Space({"x": Integer(0, 20), "y": Integer(0, 20)})


def test_build_metrics_are_kept_and_resumed(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(SPACE, storage=path)
    build = {"size.text": 1840, "code.vector": 0.1 + 0.2}
    trial = optimizer.observe(optimizer.suggest(), 1.0, build=build)
    failed = optimizer.observe(optimizer.suggest(), failed="runtime", build={"size.text": 3})
    assert (trial.build, failed.build) == (build, {"size.text": 3.0})
    again = Optimizer.load(path)
    assert [t.build for t in again.trials] == [build, {"size.text": 3.0}]
    row = again.to_dataframe().iloc[0]
    assert (row["build_size.text"], row["build_code.vector"]) == (1840.0, 0.1 + 0.2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ([1], "expected a mapping"),
        ({"size": math.nan}, r"build\['size'\] is not a finite number"),
        ({"size": "large"}, r"build\['size'\] is not a finite number"),
    ],
)
def test_wrong_build_metrics_are_refused(build, message):
    optimizer = Optimizer(SPACE)
    trial = optimizer.suggest()
    with pytest.raises(TrialError, match=message):
        optimizer.observe(trial, 1.0, build=build)
    with pytest.raises(TrialError, match="belong to one trial"):
        optimizer.observe([trial], [1.0], build={"size": 1})
    assert not optimizer.trials


SCRAMBLED = np.random.default_rng(3).permutation(441) / 440


def cost(config):
    """A value that the parameters do not predict, and a metric of the build does."""
    return float(SCRAMBLED[config["x"] * 21 + config["y"]])


def useful(config):
    return {"code.loads": 900 * cost(config), "code.same": 7.0}


def useless(config):
    return {
        f"noise.{i}": float((config["x"] * 31 + config["y"] * 17 * (i + 2)) % 23) for i in range(3)
    }


def tune(optimizer, steps, metrics, n=6, value=cost):
    """Build candidates and measure chosen ones; return the chosen trials, each with its rivals."""
    rounds = []
    for _ in range(steps):
        candidates = optimizer.candidates(n)
        for candidate in candidates:
            optimizer.report_build(candidate, metrics(candidate))
        rivals = [c.trial for c in optimizer.history.built]
        trial = optimizer.choose()
        rounds.append((optimizer.observe(trial, value(trial)), candidates, rivals))
    return rounds


def test_the_choice_follows_a_metric_that_predicts_the_value():
    optimizer = Optimizer(SPACE, seed=1)
    rounds = tune(optimizer, 18, useful)
    counts = [len(candidates) for _, candidates, _ in rounds]
    assert counts[:2] == [1, 1]
    assert counts[8:] == [6] * 10
    built = sorted(cost(candidate) for _, candidates, _ in rounds[:-2] for candidate in candidates)
    assert len(built) > 50
    assert (
        optimizer.best.value <= built[1]
    )  # 18 of them by chance would have one of the best two in every third run
    reasons = [optimizer.why(trial).get("build", "") for trial, _, _ in rounds[4:]]
    assert any("lower code.loads than usual" in reason for reason in reasons), reasons
    assert all(trial.build == useful(trial) for trial in optimizer.trials)
    assert {trial.origin for trial in optimizer.trials} == {"strategy", "fill"}


def test_with_metrics_that_predict_nothing_the_trials_are_those_without():
    def value(config):
        return (config["x"] - 7) ** 2 + (config["y"] - 12) ** 2

    optimizer, plain = Optimizer(SPACE, seed=1), Optimizer(SPACE, seed=1)
    rounds = tune(optimizer, 14, useless, value=value)
    for _ in rounds:
        trial = plain.suggest()
        plain.observe(trial, value(trial))
    assert [t.config for t in optimizer.trials] == [t.config for t in plain.trials]
    assert [t.tag for t in optimizer.trials] == [t.tag for t in plain.trials]
    assert all(len(candidates) == 1 for _, candidates, _ in rounds)


def test_candidates_are_not_evaluations_and_are_built_once():
    optimizer = Optimizer(SPACE, seed=2)
    rounds = tune(optimizer, 12, useful)
    assert (len(optimizer.trials), len(optimizer.pending)) == (12, 0)
    built = [tuple(c.values()) for _, candidates, _ in rounds for c in candidates]
    assert len(set(built)) == len(built) >= 12 + 4 * 5
    assert len(optimizer.history.built) == len(built) - 12


def test_a_resumed_run_chooses_the_same(tmp_path):
    whole = Optimizer(SPACE, seed=3)
    tune(whole, 9, useful)
    path = tmp_path / "run.jsonl"
    Optimizer(SPACE, seed=3, storage=path)
    for _ in range(9):
        optimizer = Optimizer.load(path)
        for candidate in optimizer.candidates(6):
            program = str(dict(candidate))
            optimizer.report_build(candidate, useful(candidate), program=program, seconds=0.5)
        optimizer = Optimizer.load(path)
        trial = optimizer.choose()
        optimizer.observe(trial, cost(trial))
    again = Optimizer.load(path)
    assert [t.tag for t in again.trials] == [t.tag for t in whole.trials]
    assert [dict(t) for t in again.trials] == [dict(t) for t in whole.trials]
    assert again.history.built[0].seconds == 0.5


def well_predicted(seed):
    """A run in which metrics have predicted the values."""
    optimizer = Optimizer(SPACE, seed=seed)
    for x in range(10):
        config = {"x": x, "y": (x * 7) % 21}
        optimizer.observe(config, cost(config), build={**useful(config), "code.vector": 0})
    return optimizer


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_metric_that_was_always_zero_gets_its_share(monkeypatch, share):
    assert choosing.COVERAGE == 1 / 8
    monkeypatch.setattr(choosing, "COVERAGE", share)
    monkeypatch.setattr(choosing, "OWN", 0.0)
    optimizer = well_predicted(1)
    first, second = optimizer.candidates(2)
    optimizer.report_build(first, {"code.loads": 0, "code.vector": 0})
    optimizer.report_build(second, {"code.loads": 900, "code.vector": 3})
    trial = optimizer.choose()
    assert dict(trial) == dict(second if share else first)
    reason = "it has a metric that was 0 in all measured ones" if share else "lower code.loads"
    assert reason in optimizer.why(trial)["build"]


def test_a_share_is_the_own_suggestion_of_the_strategy(monkeypatch):
    monkeypatch.setattr(choosing, "OWN", 1.0)
    monkeypatch.setattr(choosing, "COVERAGE", 0.0)
    optimizer = well_predicted(1)
    first, second = optimizer.candidates(2)
    optimizer.report_build(second, {"code.loads": 0})
    optimizer.report_build(first, {"code.loads": 900})
    trial = optimizer.choose()
    assert dict(trial) == dict(first)
    assert optimizer.why(trial)["build"].endswith("the next suggestion of the strategy")


def test_of_equal_programs_one_is_a_candidate():
    optimizer = well_predicted(1)
    optimizer.observe({"x": 20, "y": 0}, 0.5, program="a", build={"code.loads": 450})
    for candidate, program in zip(optimizer.candidates(4), "accd", strict=True):
        optimizer.report_build(candidate, {"code.loads": 1}, program=program)
    assert [candidate.program for candidate in optimizer.history.built] == ["c", "d"]


def test_an_enqueued_configuration_is_the_only_candidate_and_is_chosen():
    optimizer = Optimizer(SPACE, seed=1)
    tune(optimizer, 4, useful)
    optimizer.enqueue({"x": 20, "y": 20})
    (candidate,) = optimizer.candidates(6)
    optimizer.report_build(candidate, useful(candidate))
    assert optimizer.candidates(6) == []
    trial = optimizer.choose()
    assert (dict(trial), trial.origin) == ({"x": 20, "y": 20}, "enqueued")
    assert not optimizer.history.queue


def test_a_small_space_is_measured_to_its_end():
    optimizer = Optimizer(Space({"x": Integer(0, 5)}), seed=1)
    for _ in range(6):
        for candidate in optimizer.candidates(4):
            optimizer.report_build(candidate, {"m": float(candidate["x"])})
        trial = optimizer.choose()
        optimizer.observe(trial, float(trial["x"]))
    assert optimizer.candidates(4) == []
    with pytest.raises(SpaceExhausted):
        optimizer.choose()
