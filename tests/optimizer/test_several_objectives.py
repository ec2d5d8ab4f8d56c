"""Runs with several objectives: what `observe` accepts, the front, preferences, the journal."""

import shutil

import numpy as np
import pytest

from baco_like import (
    Aim,
    FailureWarning,
    Optimizer,
    RunFileError,
    Search,
    Space,
    StrategyError,
    TrialError,
    WarmStart,
    WarmStartWarning,
)
from baco_like.records import Objective, Status
from baco_like.strategies import STRATEGIES, create_strategy
from baco_like.strategies.protocol import optimises_several

SPACE = Space({"a": [1, 2, 4, 8, 16], "b": [1, 2, 4, 8, 16]})
OBJECTIVES = {"time": "minimize", "rate": "maximize"}


def run(limits=(), **settings):
    return Optimizer(SPACE, Aim(OBJECTIVES, limits), **settings)


def measure(config):
    return {"time": config["a"] + 0.1 * config["b"], "rate": float(config["a"])}


def evaluated(count, **settings):
    optimizer = run(**settings)
    for _ in range(count):
        trial = optimizer.suggest()
        optimizer.observe(trial, measure(trial))
    return optimizer


def test_the_front_has_what_no_other_trial_dominates():
    optimizer = evaluated(25)
    assert [trial["a"] for trial in optimizer.front] == [1, 2, 4, 8, 16]
    assert {trial["b"] for trial in optimizer.front} == {1}
    assert optimizer.best in optimizer.front


def test_a_notebook_shows_all_objectives_of_the_front():
    optimizer = evaluated(25)
    assert "front of 5" in repr(optimizer)
    shown = optimizer._repr_html_()
    assert "<th>time</th><th>rate</th>" in shown
    assert "<td>1.1</td><td>1</td>" in shown


def test_hypervolume_is_in_the_units_of_the_values():
    optimizer = run()
    optimizer.observe({"a": 2, "b": 1}, {"time": 3.0, "rate": 5.0})
    assert optimizer.hypervolume({"time": 10.0, "rate": 1.0}) == 7.0 * 4.0


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"time": 1.0}, "one number for each of 'time', 'rate'"),
        ({"time": 1.0, "rate": np.nan}, r"reference\['rate'\] = nan is not a finite number"),
    ],
)
def test_a_wrong_reference_point_is_refused(reference, message):
    with pytest.raises(ValueError, match=message):
        run().hypervolume(reference)


def test_a_missing_objective_is_an_error_before_anything_is_recorded():
    optimizer = run()
    trial = optimizer.suggest()
    with pytest.raises(TrialError, match=r"'rate' was not measured \(did you mean 'rat'\?\)"):
        optimizer.observe(trial, {"time": 1.0, "rat": 2.0})
    with pytest.raises(TrialError, match="the objective 'time' is not among the metrics"):
        optimizer.observe(trial, {"rate": 1.0})
    with pytest.raises(TrialError, match="the objective 'rate' was not measured"):
        optimizer.observe(trial, 1.0)
    assert not optimizer.trials
    optimizer.observe(trial, measure(trial))


def test_nan_in_one_objective_is_one_failure():
    optimizer = run()
    with pytest.warns(FailureWarning, match="rate: the value nan is not a finite number"):
        optimizer.observe(optimizer.suggest(), {"time": 1.0, "rate": np.nan})
    (trial,) = optimizer.trials
    assert (trial.status, trial.value) == (Status.FAILED, None)
    assert not optimizer.front
    assert optimizer.best is None


@pytest.mark.parametrize("error", [np.nan, np.inf, -np.inf, None, "diverged", [0.0, np.nan]])
def test_a_metric_that_is_no_number_is_beyond_its_limit(error):
    optimizer = run(limits=["error < 1e-3"], strategy="nsga2")
    with pytest.warns(FailureWarning, match=r"error: the value .* and a limit reads it"):
        optimizer.observe(optimizer.suggest(), {"time": 1.0, "rate": 2.0, "error": error})
    (trial,) = optimizer.trials
    assert (trial.failure, trial.repeats, dict(trial.metrics)) == ("limit", (1.0,), {"rate": 2.0})
    optimizer.observe(optimizer.suggest(), {"time": 2.0, "rate": 1.0, "error": 0.0})
    assert [trial.value for trial in optimizer.front] == [2.0]


def test_a_boolean_that_a_limit_reads_is_an_error_before_anything_is_recorded():
    optimizer = run(limits=["valid == 1"])
    with pytest.raises(TrialError, match="'valid', whose value is False; report the number 1 or 0"):
        optimizer.observe(optimizer.suggest(), {"time": 1.0, "rate": 2.0, "valid": False})
    assert not optimizer.trials


def test_a_choice_from_the_front_leaves_out_metrics_that_are_no_numbers():
    optimizer = run()
    optimizer.observe({"a": 1, "b": 1}, {"time": 1.0, "rate": 3.0, "error": np.nan})
    optimizer.observe({"a": 2, "b": 1}, {"time": 2.0, "rate": 2.0, "error": 0.0})
    assert optimizer.recommend(limits=["error < 1"]).value == 2.0


@pytest.mark.parametrize("strategy", ["ehvi", "parego"])
def test_a_region_beyond_a_time_limit_does_not_attract_the_search(strategy):
    values = [2**i for i in range(8)]
    space = Space({"a": values, "b": values, "c": values})
    optimizer = Optimizer(
        space, {"time": "minimize", "size": "minimize"}, strategy=strategy, budget=40
    )
    for _ in range(40):
        trial = optimizer.suggest()
        a, b, c = (np.log2(trial[name]) for name in "abc")
        time = 1.0 + abs(a - 3) + abs(b - 4) + 0.3 * (c - 2) ** 2
        if time > 4.0:
            optimizer.observe(trial, failed="timeout", bound=4.0)
        else:
            optimizer.observe(trial, {"time": time, "size": 10.0 + 3 * a + c})
    assert sum(trial.value is None for trial in optimizer.trials) < 30


def test_repeats_of_every_objective_are_kept():
    optimizer = run()
    optimizer.observe(optimizer.suggest(), {"time": [3.0, 1.0, 2.0], "rate": [5.0, 6.0]})
    (trial,) = optimizer.trials
    assert (trial.value, trial.metrics["rate"]) == (2.0, 5.5)
    assert trial.metric_repeats == {"rate": (5.0, 6.0)}
    costs, variances = optimizer.history.objective_costs()
    assert costs.tolist() == [[2.0, -5.5]]
    np.testing.assert_allclose(variances, [[1.0 / 3.0, 0.25]])


def test_preferences_choose_from_the_front_without_new_evaluations():
    optimizer = evaluated(25)
    assert optimizer.recommend(weights={"rate": 0.0})["a"] == 1
    assert optimizer.recommend(weights={"time": 0.0})["a"] == 16
    assert optimizer.recommend(limits=["time <= 5"], weights={"time": 0.0})["a"] == 4
    with pytest.raises(
        TrialError, match=r"no successful trial satisfies .time < 0.; relax a limit"
    ):
        optimizer.recommend(limits=["time < 0"])
    with pytest.raises(ValueError, match=r"weights = .'speed': 1.0.: 'speed' is not an objective"):
        optimizer.recommend(weights={"speed": 1.0})
    with pytest.raises(ValueError, match="all are 0; raise one of them"):
        optimizer.recommend(weights={"time": 0.0, "rate": 0.0})
    with pytest.raises(TrialError, match="a limit reads 'tine'"):
        optimizer.recommend(limits=["tine <= 5"])


def test_one_objective_has_no_preferences():
    with pytest.raises(ValueError, match="choose from the front of several objectives"):
        Optimizer(SPACE).recommend(weights={"value": 1.0})


@pytest.mark.parametrize(
    ("objectives", "message"),
    [
        ({"time": "min"}, r"objectives\['time'\] = 'min'"),
        ({}, "names with directions"),
        ([], "names with directions"),
        (["time"], "names with directions"),
        ([Objective("time"), Objective("time")], "two have the same name"),
        (3, "names with directions"),
    ],
)
def test_wrong_objectives_are_refused(objectives, message):
    with pytest.raises(ValueError, match=message):
        Optimizer(SPACE, objectives)


def test_a_mapping_with_one_objective_is_a_run_with_one_objective():
    optimizer = Optimizer(SPACE, {"rate": "maximize"})
    assert optimizer.objective == Objective("rate", direction="maximize")
    assert not optimizer.objectives
    optimizer.observe(optimizer.suggest(), 3.0)
    assert optimizer.best_value == 3.0


def test_a_strategy_for_one_objective_is_refused_with_the_names_of_all_others():
    message = "strategy bayesian optimises one objective, not 'time'"
    with pytest.raises(StrategyError, match=message) as error:
        run(strategy="bayesian")
    named = str(error.value).split("take ")[1].replace(" or ", ", ").split(", ")
    assert set(named) == {n for n in STRATEGIES if optimises_several(create_strategy(n))}


@pytest.mark.parametrize("strategy", ["auto", "parego"])
def test_predictions_have_one_column_for_each_objective(strategy):
    optimizer = evaluated(15, strategy=strategy)
    mean, std, feasible = optimizer.predict([{"a": 1, "b": 1}, {"a": 16, "b": 16}])
    assert mean.shape == std.shape == (2, 2)
    assert feasible.shape == (2,)
    assert mean[0, 0] < mean[1, 0]
    assert mean[0, 1] < mean[1, 1]
    if strategy == "auto":
        assert optimizer.why(optimizer.suggest())["objectives"].keys() == {"time", "rate"}


@pytest.mark.parametrize("kind", ["csv", "t4", "ktt", "kernel_tuner", "baco", "dataframe"])
def test_all_objectives_survive_a_file(tmp_path, kind):
    """A new run that begins with the file has the same front."""
    objectives = {"time": "minimize", "size": "minimize"}
    first = Optimizer(SPACE, objectives, strategy="random_search", seed=4)
    for i, trial in enumerate(first.suggest(8)):
        if i == 3:
            first.observe(trial, failed="compile")
        else:
            size = [100.25 - i, 100.75 - i]
            first.observe(trial, {"time": 1.25 + i % 5, "size": size, "other": 3})
    if kind == "dataframe":
        source = first.to_dataframe()
    else:
        source = tmp_path / "results"
        first.export(kind, source)
    again = Optimizer(SPACE, objectives, warm_start=source, strategy="random_search")

    def front(optimizer):
        return [(dict(t.config), t.value, t.metrics["size"]) for t in optimizer.front]

    assert front(again) == front(first)
    assert [t.failure is None for t in again.trials] == [t.failure is None for t in first.trials]
    if kind not in ("baco", "dataframe"):  # these have one number for each objective
        assert [t.metric_repeats for t in again.trials] == [t.metric_repeats for t in first.trials]


def test_a_table_without_an_objective_gives_no_data_but_configurations():
    frame = evaluated(6).to_dataframe().drop(columns="rate")
    with pytest.raises(TrialError, match=r"warm start DataFrame.*'rate' was not measured"):
        Optimizer(SPACE, OBJECTIVES, warm_start=frame)
    start = WarmStart(frame, mode="configs", best=1)
    with pytest.warns(WarmStartWarning, match="6 of 6 successes lack rate; they are compared by"):
        trial = Optimizer(SPACE, OBJECTIVES, warm_start=start).suggest()
    assert trial["a"] == frame.sort_values("time")["a"].iloc[0]


def test_a_front_has_no_winner_to_ship(tmp_path):
    with pytest.raises(RunFileError, match="the run has several objectives, and no single winner"):
        evaluated(3).ship("json", tmp_path / "best.json")
    assert not (tmp_path / "best.json").exists()


def test_the_best_configurations_of_an_earlier_run_are_its_front():
    first = run(strategy="random_search")
    for a, b in [(1, 1), (2, 1), (16, 1), (1, 2), (2, 2), (1, 4)]:
        config = {"a": a, "b": b}
        first.observe(config, measure(config))  # the three with b = 1 dominate the others
    for best, expected in [(2, {1, 16}), (3, {1, 2, 16})]:
        optimizer = run(warm_start=WarmStart(first, mode="configs", best=best))
        configs = [dict(trial) for trial in optimizer.suggest(best)]
        assert {config["a"] for config in configs} == expected
        assert {config["b"] for config in configs} == {1}


def test_configurations_without_all_objectives_come_after_the_front():
    results = [
        ({"a": 1, "b": 1}, {"time": 5.0, "rate": 3.0}),
        ({"a": 2, "b": 1}, {"time": 4.0, "rate": 9.0}),  # better than the first in both
        ({"a": 4, "b": 1}, {"time": 1.0}),
        ({"a": 8, "b": 1}, {"time": 2.0, "rate": "unknown"}),
        ({"a": 16, "b": 1}, None),
    ]
    start = WarmStart(results, mode="configs", best=9)
    text = "2 of 4 successes lack rate; they come after the others and are compared by time alone"
    with pytest.warns(WarmStartWarning, match=text):
        optimizer = Optimizer(SPACE, OBJECTIVES, warm_start=start)
    assert [trial["a"] for trial in optimizer.suggest(4)] == [2, 1, 4, 8]


@pytest.mark.parametrize(("strategy", "budget"), [("auto", 20), ("parego", 40)])
def test_models_find_more_than_random_search(strategy, budget):
    """The strategy `auto` is `ehvi` here."""
    values = [2**i for i in range(8)]
    space = Space({"a": values, "b": values, "c": values})

    def volume(name):
        found = []
        for seed in range(3):
            optimizer = Optimizer(space, OBJECTIVES, strategy=name, seed=seed)
            for _ in range(budget):
                trial = optimizer.suggest()
                spread = abs(np.log2(trial["b"] / 16)) + abs(np.log2(trial["c"] / 4))
                base = np.log2(trial["a"])
                values = {"time": 1 + base**2 + spread, "rate": 1 + base**2 - spread}
                optimizer.observe(trial, values)
            found.append(optimizer.hypervolume({"time": 60.0, "rate": -10.0}))
        return np.mean(found)

    assert volume(strategy) > volume("random_search")


def test_importance_and_dependence_are_those_of_the_named_objective():
    optimizer = Optimizer(SPACE, OBJECTIVES, strategy="random_search")
    for config in SPACE.sample(20, seed=2):
        optimizer.observe(config, {"time": float(config["b"]), "rate": float(config["a"])})
    assert optimizer.importance().effects[0].name == "b"
    assert optimizer.importance(objective="time").effects[0].name == "b"
    assert optimizer.importance(objective="rate").effects[0].name == "a"
    assert optimizer.partial_dependence(objective="rate", pairs=0)
    with pytest.raises(ValueError, match="objective = 'rat': the run has 'time', 'rate'"):
        optimizer.importance(objective="rat")


def test_values_near_zero_do_not_attract_all_proposals():
    """On a quarter circle both objectives reach 0; logarithms would put almost all volume there."""
    values = [i / 10 for i in range(11)]
    space = Space({"a": values, "b": values, "c": values})

    def volume(strategy):
        found = []
        for seed in range(3):
            optimizer = Optimizer(
                space, {"x": "minimize", "y": "minimize"}, strategy=strategy, seed=seed
            )
            for _ in range(30):
                trial = optimizer.suggest()
                radius = 1 + (trial["b"] - 0.5) ** 2 + (trial["c"] - 0.5) ** 2
                angle = trial["a"] * np.pi / 2
                circle = {"x": radius * np.cos(angle), "y": radius * np.sin(angle)}
                optimizer.observe(trial, circle)
            found.append(optimizer.hypervolume({"x": 2.5, "y": 2.5}))
        return np.mean(found)

    assert volume("ehvi") > volume("random_search") + 0.05


def test_beyond_25_observations_the_objectives_take_turns_in_fitting(tmp_path):
    space = Space({"a": list(range(1, 21)), "b": list(range(1, 21))})
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(
        space, OBJECTIVES, strategy=Search("ehvi", initial=24), storage=path, seed=1
    )
    for _ in range(29):
        trial = optimizer.suggest()
        optimizer.observe(trial, measure(trial))
    tags = [trial.tag for trial in optimizer.trials[24:]]
    assert [tag["fitted_at"] for tag in tags] == [[24, 24], [25, 25], [26, 25], [26, 27], [28, 27]]
    held = [tag["hyperparameters"][1] for tag in tags[1:3]]
    assert held[0] == held[1]
    copy = shutil.copy(path, tmp_path / "copy.jsonl")
    assert Optimizer.load(copy).suggest().tag == optimizer.suggest().tag


@pytest.mark.parametrize("parameter", ["id", "status", "worker", "x"])
@pytest.mark.parametrize("names", [("status", "id"), ("id", "failed"), ("x", "seconds_x")])
def test_a_dataframe_keeps_objectives_with_the_names_of_other_columns(parameter, names):
    space = Space({parameter: [1, 2, 3], "b": [1, 2]})
    objectives = dict.fromkeys(names, "minimize")
    first = Optimizer(space, objectives, strategy="random_search")
    for trial in first.suggest(5):
        first.observe(
            trial, dict(zip(names, (10.5 * trial[parameter], 3.5 * trial["b"]), strict=True))
        )
    again = Optimizer(space, objectives, warm_start=first.to_dataframe())
    read = [[(t.config, t.value, t.metrics) for t in run.trials] for run in (first, again)]
    assert read[0] == read[1]


def test_with_more_observations_the_hyperparameters_hold_longer():
    space = Space({"a": list(range(1, 21)), "b": list(range(1, 21))})
    optimizer = Optimizer(space, OBJECTIVES, strategy=Search("ehvi", initial=80), seed=1)
    for _ in range(86):
        trial = optimizer.suggest()
        optimizer.observe(trial, measure(trial))
    fitted_at = [trial.tag["fitted_at"] for trial in optimizer.trials[80:]]
    assert fitted_at == [[80, 80], [80, 80], [82, 80], [82, 80], [82, 84], [82, 84]]
