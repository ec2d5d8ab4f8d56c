"""Values with a stated standard error."""

import math

import numpy as np
import pytest
from scipy.special import bdtrc
from scipy.stats import sem
from scipy.stats.mstats import trimmed_stde

from baco_like import (
    MaxEvals,
    Measurement,
    Measuring,
    Optimizer,
    Outcome,
    Search,
    Space,
    TrialError,
    tune,
)
from baco_like.records import Objective, Status
from baco_like.records.drift import _FALSE_NOTES, describe_first_repeats
from baco_like.records.objective_values import outcome_from
from baco_like.records.trial import SAME_PROGRAM
from baco_like.results import read
from baco_like.running.findings import Findings
from baco_like.running.sentences import format_summary

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


def test_an_outlier_changes_the_error_as_little_as_the_value():
    assert outcome_from(0, [1.0, 2.0, 4.0]).sem == pytest.approx(sem([1.0, 2.0, 4.0]))
    repeats = [1.0, 1.2, 1.1, 0.9, 1.3]
    outlier = [1.0, 1.2, 1.1, 0.9, 100.0]
    assert outcome_from(0, outlier).sem == outcome_from(0, repeats).sem
    assert outcome_from(0, outlier).sem == pytest.approx(trimmed_stde(outlier, (0.2, 0.2)))
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(4000, 10))
    errors = [outcome_from(0, row.tolist()).sem for row in normal]
    assert np.mean(errors) == pytest.approx(np.median(normal, axis=1).std(), rel=0.25)


@pytest.mark.parametrize("stated", ["exact", "measured", "repeats", "unknown"])
def test_a_value_that_is_surely_worse_is_not_recommended(stated):
    space = Space({"x": list(range(1, 41)), "c": ["a", "b", "d"]})
    optimizer = Optimizer(space, Objective("ms", exact=stated == "exact"))
    values = {x: 10 + 0.1 * abs(x - 20) for x in (1, 10, 20, 25, 33, 28, 38)} | {30: 5.0}
    for x, value in values.items():
        optimizer.enqueue({"x": x, "c": "a"})
        given = {"measured": Measurement(value, 0.001), "repeats": [value] * 5}.get(stated, value)
        optimizer.observe(optimizer.suggest(), given)
    # The model takes the good value, which fits no trend, for luck.
    assert (optimizer.recommend()["x"] == 30) == (stated != "unknown")


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


# ---- A note if the first repeats of the trials differ from the others beyond chance ----


WIDE = Space({"x": list(range(64))})


def observe(trials, **extra):
    optimizer = Optimizer(WIDE, strategy=Search("random_search", noise="repeat"), seed=1)
    for values in trials:
        trial = optimizer.suggest()
        optimizer.complete([Outcome.success(trial.id, tuple(values), extra=extra)])
    return optimizer.history


def describe(trials, **extra):
    return describe_first_repeats(observe(trials, **extra))


def test_a_cache_that_the_first_repeat_fills_is_found():
    (line,) = describe([(105.0, 2.6, 2.4, 2.6, 2.7)] * 5)
    assert line.startswith(
        "The first repeat is the largest of 5 in 5 of 5 trials (by chance: in 1)"
    )
    assert "40.4 times" in line
    summary = Findings(observe([(105.0, 2.6, 2.4, 2.6, 2.7)] * 5), Objective("time", "ms"))
    assert line in format_summary(summary)


def test_a_processor_that_becomes_slower_is_found():
    (line,) = describe([(1.0, 1.2, 1.3)] * 8)
    assert "the smallest of 3 in 8 of 8 trials" in line


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [(1.0,)] * 20,  # no repeats
        [(9.0, 1.0, 1.0)] * 3,  # three of three are chance once in 27 runs
        [(1.0, 1.0, 1.0)] * 20,
        [(1.0, 0.999, 0.999)] * 20,  # too little to matter
        [(0.0, 0.0)] * 20,
        [(1.7e308, 1e-300, 1.7e308)] * 20,
    ],
)
def test_no_note(trials):
    assert describe(trials) == []


def test_results_of_equal_programs_are_one_measurement():
    assert describe([(9.0, 1.0, 1.0)] * 20, **{SAME_PROGRAM: 1}) == []


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_the_error_rate_is_at_most_one_in_a_thousand(repeats):
    """The least number of trials whose first repeat is always the largest: by chance repeats ** -n, for each side."""
    least = next(n for n in range(1, 20) if 2.0 * repeats**-n <= 0.001)
    trial = [2.0, *(1.0 + i / 100 for i in range(repeats - 1))]
    assert not describe([trial] * (least - 1))
    assert describe([trial] * least)


def test_noise_gives_no_note():
    """3,000 runs of 12 trials with heavy tails, where one count decides: the binomial count of first extremes."""
    draws = np.random.default_rng(1).standard_t(2, size=(3000, 12, 3))
    notes = 0
    for side in (draws, -draws):
        counts = (side.argmax(axis=2) == 0).sum(axis=1)
        notes += sum(bdtrc(int(k) - 1, 12, 1 / 3) <= _FALSE_NOTES / 2 for k in counts)
    assert notes <= 10  # 3 are expected at most
