"""Values with a stated standard error."""

import math

import numpy as np
import pytest

from baco_like import MaxEvals, Measurement, Measuring, Optimizer, Search, Space, TrialError, tune
from baco_like.records import Outcome, Status
from baco_like.records.reading import outcome_from
from baco_like.results import read

SPACE = Space({"a": list(range(12))})


def test_a_measurement_is_one_value_with_its_error():
    outcome = outcome_from(0, Measurement(0.5, 0.01))
    assert (outcome.value, outcome.repeats, outcome.sem) == (0.5, (0.5,), 0.01)
    assert outcome_from(0, (0.5, 0.01)).repeats == (0.5, 0.01)  # a tuple stays two repeats


def test_measurements_of_metrics_and_repeated_ones():
    value = {"value": 2.0, "energy": Measurement(3.0, 0.2), "size": 7}
    outcome = outcome_from(0, value)
    assert (outcome.sem, outcome.metrics, outcome.metric_sems) == (
        None,
        {"energy": 3.0, "size": 7.0},
        {"energy": 0.2},
    )
    several = outcome_from(0, [Measurement(1.0, 0.3), Measurement(1.1, 0.4)])
    assert several.repeats == (1.0, 1.1)
    assert several.sem == pytest.approx(0.25)  # the root of 0.3^2 + 0.4^2, divided by 2
    spread = outcome_from(0, [Measurement(1.0, 0.01), Measurement(3.0, 0.01)])
    assert spread.sem == pytest.approx(1.0)  # their own spread is larger


@pytest.mark.parametrize("mean", [math.nan, math.inf])
def test_a_mean_that_is_not_finite_is_a_failure(mean):
    assert outcome_from(0, Measurement(mean, 0.1)).failed == "runtime"


@pytest.mark.parametrize("sem", [-0.1, math.nan, math.inf, None, "0.1", True])
def test_the_error_must_be_a_number(sem):
    with pytest.raises(TrialError, match=r"Measurement: sem = .*observe the value itself"):
        Measurement(1.0, sem)


def test_the_journal_and_the_files_keep_it(tmp_path):
    path = tmp_path / "run.jsonl"
    objectives = {"time": "minimize", "energy": "minimize"}
    optimizer = Optimizer(SPACE, objectives, storage=path)
    optimizer.observe(
        optimizer.suggest(), {"time": Measurement(1.5, 0.2), "energy": Measurement(4, 0.5)}
    )
    optimizer.observe(optimizer.suggest(), {"time": 1.0, "energy": [4.0, 4.2]})
    for each in (optimizer, Optimizer.load(path)):
        first = each.trials[0]
        assert (first.sem, first.metric_sems) == (0.2, {"energy": 0.5})
        costs, variances = each.history.objective_costs()
        assert variances[0].tolist() == [0.2**2, 0.5**2]
        assert costs[0].tolist() == [1.5, 4.0]
    optimizer.export("csv", tmp_path / "table.csv")
    assert read(tmp_path / "table.csv").outcomes[0].sem == 0.2
    assert optimizer.to_dataframe()["sem"][0] == 0.2


def test_the_model_takes_it_as_known_noise():
    """An outlier with a large error says little: its prediction stays with its neighbours."""

    def prediction(error):
        optimizer = Optimizer(SPACE, strategy=Search("bayesian", {"initial": 3}))
        for a in (0, 2, 3, 4, 5, 7, 8, 10):
            value = 10 + 0.1 * a if a != 4 else 20.0
            optimizer.observe({"a": a}, Measurement(value, error if a == 4 else 0.01))
        return float(optimizer.predict([{"a": 4}])[0][0])

    assert abs(prediction(15.0) - 10.4) < 0.2 * abs(prediction(0.01) - 10.4)


def test_a_measurement_equals_the_repeats_that_it_summarises():
    repeats = (1.0, 1.2, 1.1)
    error = float(np.std(repeats, ddof=1) / math.sqrt(3))
    runs = [Optimizer(SPACE, seed=4), Optimizer(SPACE, seed=4)]
    for i in range(9):
        for run, value in zip(runs, [[r * (i + 1) for r in repeats], None], strict=True):
            trial = run.suggest()
            run.observe(trial, value or Measurement(1.1 * (i + 1), error * (i + 1)))
    assert [t.config for t in runs[0].trials[:6]] == [t.config for t in runs[1].trials[:6]]
    assert np.allclose(runs[0].history.variances, runs[1].history.variances)


def test_an_objective_may_return_it():
    result = tune(
        lambda t: Measurement(t["a"], 0.5),
        SPACE,
        stop=MaxEvals(3),
        progress=False,
        measuring=Measuring(repeats=2),
    )
    assert all(trial.sem == pytest.approx(0.5 / math.sqrt(2)) for trial in result.trials)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_value_that_is_no_finite_number_is_refused(value):
    with pytest.raises(TrialError, match="does not fit status 'ok'"):
        Outcome(0, Status.OK, value)
