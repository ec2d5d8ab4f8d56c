"""Limits on metrics: judged when an outcome is reported, kept in the journal, never the winner."""

from dataclasses import replace

import numpy as np
import pytest

from baco_like import (
    Aim,
    Categorical,
    ExpressionError,
    Integer,
    MaxEvals,
    Optimizer,
    Outcome,
    Space,
    tune,
)
from baco_like.exceptions import Infeasible, TrialError
from baco_like.records import Status, Trial
from baco_like.records.limits import LIMIT, Limits

SPACE = Space({"x": Integer(0, 30), "level": Categorical(["-O2", "-O3"])})


def measured(x, **metrics):
    return Outcome.success(0, (float(x), x + 2.0, x + 1.0), metrics=metrics)


@pytest.mark.parametrize(
    ("text", "metrics", "message"),
    [
        ("size <= 40000", {"size": 40001}, "size <= 40000 is not satisfied: size = 40001"),
        ("size / time <= 2 and error < 1e-3", {"size": 8, "error": 1}, "size = 8, time = 6, err"),
        ("log(size) <= 2", {"size": 0}, "size = 0"),
        ("value('l1-misses') < 3", {"l1-misses": 3}, "l1-misses = 3"),
        ("time < 6", {}, "time = 6"),
    ],
)
def test_an_outcome_beyond_a_limit_is_a_failure_that_keeps_its_numbers(text, metrics, message):
    outcome = measured(5, **metrics)
    judged = Limits([text, "time > 0"]).judge(outcome, "time")
    assert (judged.status, judged.failed, judged.value) == (Status.FAILED, LIMIT, None)
    assert message in judged.message
    assert "time > 0" not in judged.message
    assert (judged.repeats, judged.metrics) == (outcome.repeats, outcome.metrics)


def observed(outcome):
    return Trial(0, {"x": 5}, outcome=outcome)


def test_margins_are_the_differences_of_the_sides():
    texts = ["2 <= size < 8 and error >= -1", "size > 3 or error > 5", "size / time < 1"]
    limits = Limits(texts)
    outcomes = [
        measured(6, size=6, error=1.0),
        limits.judge(measured(5, size=16, error=-4.0), "time"),
        limits.judge(measured(5, size=1, error=2.0), "time"),
        Outcome.failure(0, "compile"),
        replace(measured(5, size=1), status=Status.FAILED, failed=LIMIT, value=None, sem=None),
    ]
    margins = limits.margins([observed(outcome) for outcome in outcomes], "time")
    sizes = np.array([6.0, 16.0, 1.0, np.nan, 1.0])
    np.testing.assert_allclose(margins.values[:, 0], np.log(2.0 / sizes))
    np.testing.assert_allclose(margins.values[:, 1], np.log(sizes / 8.0))
    np.testing.assert_allclose(margins.values[:, 2], [-2.0, 3.0, -3.0, np.nan, np.nan])
    np.testing.assert_allclose(margins.values[:, 3], np.log(sizes / [7.0, 6.0, 6.0, 1.0, 6.0]))
    # The third breaks the condition with `or`, the last lacks a metric.
    assert margins.is_explained.tolist() == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("text", "metrics", "violation"),
    [
        ("size <= 40000", {"size": 50000}, 0.25),
        ("40000 >= size", {"size": 50000}, 0.25),
        ("gain >= 5", {"gain": -10}, 3.0),
        ("gain > -4", {"gain": -5}, 0.25),
        ("change <= 0", {"change": 3}, 3.0),
        ("error < 2", {"error": 2}, 0.0),  # beyond the limit, by nothing
        ("size <= 2 * count", {"size": 10, "count": 4}, 0.2),
        ("2 <= size <= 8 and error < 2", {"size": 16, "error": 3}, 1.5),
        ("size <= 8 and (error < 2 or size < 1)", {"size": 16, "error": 3}, np.inf),
        ("size <= 8 and (error < 2 or size < 1)", {"size": 16, "error": 1}, 1.0),
        ("log(size) <= 2", {"size": 0}, np.inf),
        ("size <= 40000", {"size": 30000}, 0.0),
    ],
)
def test_the_violation_is_the_sum_of_the_excesses_relative_to_the_limits(text, metrics, violation):
    limits = Limits([text])
    outcome = limits.judge(measured(5, **metrics), "time")
    assert limits.violation(observed(outcome), "time") == pytest.approx(violation)


def test_a_failure_without_values_violates_the_limits_most():
    failure = observed(Outcome.failure(0, "compile"))
    assert Limits(["size <= 4"]).violation(failure, "time") == np.inf


def test_a_margin_that_cannot_be_computed_is_unknown():
    trials = [observed(measured(5, size=size)) for size in (0.0, 1.0)]
    assert np.isnan(Limits(["1 / size < 2"]).margins(trials, "time").values).tolist() == [
        [True],
        [False],
    ]


def test_other_outcomes_stay_as_they_are():
    limits = Limits(["size <= 40000"])
    within, crashed = measured(5, size=40000), Outcome.failure(0, "compile")
    assert limits.judge(within, "time") is within
    assert limits.judge(crashed, "time") is crashed
    assert limits.judge(Outcome.censored(0, 3.0), "time").status is Status.CENSORED
    assert limits.judge(measured(5), "time", strict=False).status is Status.OK
    with pytest.raises(
        TrialError, match=r"a limit reads 'size', .* measured were sise, time; .*'sise'"
    ):
        limits.judge(measured(5, sise=1), "time")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size <=", "invalid syntax"),
        ("3 < 4", "reads at least one metric"),
        ("size && time", "write 'and' for '&&'"),
        ("open('x')", "open"),
        ("size.real < 3", "."),
    ],
)
def test_wrong_limits_are_refused(text, message):
    with pytest.raises(ExpressionError, match=message):
        Limits([text])


def produce(trial):
    x = trial["x"]
    return {"time": 40.0 - x, "size": 1000.0 * x * (2 if trial["level"] == "-O3" else 1)}


def test_the_winner_is_within_the_limits_and_the_model_learns_them(tmp_path):
    path = tmp_path / "run.jsonl"
    result = tune(
        produce,
        SPACE,
        aim=Aim({"time": "minimize"}, ["size <= 20000"]),
        stop=MaxEvals(25),
        storage=path,
        progress=False,
        seed=1,
    )
    assert result.best_config == {"x": 20, "level": "-O2"}
    beyond = [trial for trial in result.trials if trial.failure == LIMIT]
    assert beyond
    assert all(trial.metrics["size"] > 20000 and trial.repeats for trial in beyond)
    _, _, feasible = result.optimizer.predict([{"x": 29, "level": "-O3"}, {"x": 3, "level": "-O2"}])
    assert feasible[0] < feasible[1]
    again = Optimizer.load(path)
    assert again.options.aim.limits == ("size <= 20000",)
    assert [(t.failure, t.metrics) for t in again.trials] == [
        (t.failure, t.metrics) for t in result.trials
    ]


def test_a_missing_metric_is_refused_before_anything_is_recorded(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(SPACE, Aim(limits=["size <= 3"]), storage=path)
    trial, before = optimizer.suggest(), path.read_bytes()
    with pytest.raises(TrialError, match="'size', which was not measured"):
        optimizer.observe(trial, 3.0)
    assert path.read_bytes() == before
    optimizer.observe(trial, {"value": 3.0, "size": 4})
    assert optimizer.best is None
    assert optimizer.trials[0].failure == LIMIT


def test_a_limit_on_what_a_function_never_reports_ends_the_run_at_the_first_success():
    calls = []

    def fn(trial):
        calls.append(trial)
        if len(calls) < 3:
            raise Infeasible("no room")
        return {"value": 1.0, "sise": 2.0}

    message = r"reads 'size', .*sise, value; change the limit \(did you mean 'sise'\?\), or report"
    with pytest.raises(TrialError, match=message):
        tune(fn, SPACE, stop=MaxEvals(9), aim=Aim(limits=["size <= 3"]), progress=False)
    assert len(calls) == 3


def test_results_of_earlier_runs_are_judged():
    earlier = Optimizer(SPACE, {"time": "minimize"})
    for trial in earlier.suggest(4):
        earlier.observe(trial, produce(trial))
    limits = ["size <= 0"]
    later = Optimizer(SPACE, Aim({"time": "minimize"}, limits), warm_start=earlier.trials)
    assert [trial.failure for trial in later.trials if trial["x"]] == [LIMIT] * len(
        [trial for trial in earlier.trials if trial["x"]]
    )
