"""Runs with tasks: every goal, resume, bound workers, constraints, the recommendation; one task is no change."""

import copy
import warnings

import numpy as np
import pytest

from baco_like import (
    Aim,
    ConfigError,
    Confirm,
    Cover,
    JournalError,
    MaxEvals,
    Measuring,
    NoImprovement,
    Optimizer,
    Ordinal,
    Search,
    Sharing,
    Space,
    SpaceError,
    StrategyError,
    Tasks,
    WarmStart,
    Workers,
    tune,
)
from baco_like.records import TaskRecommendation
from baco_like.running.sentences import tell_recommendation

PARAMETERS = {"tile": [8, 16, 32, 64, 128], "unroll": [1, 2, 4, 8], "kind": ["a", "b", "c"]}
SIZES = (64, 512, 4096)
TASKS = Tasks({f"n={n}": {"n": n} for n in SIZES}, constraints={"n=64": ["unroll <= 4"]})
SPACE = Space(PARAMETERS, ["tile <= n"], tasks=TASKS)


def measure(trial):
    n = trial.task["n"]
    off = abs(np.log2(trial["tile"]) - 0.5 * np.log2(n)) + 0.3 * abs(np.log2(trial["unroll"]) - 1)
    return float(n * (1.0 + off + (trial["kind"] == "c")))


def advance(optimizer, count):
    for _ in range(count):
        trial = optimizer.suggest()
        if trial["kind"] == "b" and trial["tile"] == 8:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, measure(trial))
    return optimizer


def configs(optimizer):
    return [dict(trial.config) for trial in optimizer.trials]


@pytest.mark.parametrize("goal", [Cover(2), Cover(1, aggregate="worst")], ids=str)
def test_every_goal_resumes_bit_for_bit_and_keeps_the_constraints(goal, tmp_path):
    # The design needs 3 to 8 shared configurations, so models choose the last trials.
    search = Search(settings={"initial": 3})
    settings = {"aim": Aim(goal=goal), "seed": 2, "budget": 32, "strategy": search}
    whole = advance(Optimizer(SPACE, **settings), 20)
    path = tmp_path / "run.jsonl"
    advance(Optimizer(SPACE, storage=path, **settings), 14)
    resumed = advance(Optimizer.load(path), 6)
    assert configs(resumed) == configs(whole)
    assert [trial.task["n"] for trial in resumed.trials] == [c["n"] for c in configs(whole)]
    assert all(SPACE.contains(config) for config in configs(whole))
    assert len({tuple(config.values()) for config in configs(whole)}) == 20
    assert any((trial.tag or {}).get("phase") == "model" for trial in whole.trials)
    found = whole.recommend()
    assert isinstance(found, TaskRecommendation)
    for choice in found.choices:
        assert SPACE.contains({**choice.config, **choice.task})
        assert choice.slowdown >= 1.0 - 1e-9 or not choice.is_measured


@pytest.mark.parametrize("strategy", ["auto", "bayesian", "genetic_algorithm"])
def test_one_task_is_the_optimizer_without_tasks(strategy):
    constraints, settings = ["tile * unroll <= 256"], {"seed": 3, "strategy": strategy}
    plain = Optimizer(Space(PARAMETERS, constraints), **settings)
    space = Space(PARAMETERS, constraints, tasks=[{"n": 512}])
    own, bound = (
        Optimizer(space, **settings),
        Optimizer(space, sharing=Sharing(task="n=512"), **settings),
    )
    for _ in range(14):
        trial, other, third = plain.suggest(), own.suggest(), bound.suggest()
        assert dict(other) == dict(third) == {**trial, "n": 512}
        value = float(trial["tile"] + trial["unroll"] + (trial["kind"] == "b"))
        plain.observe(trial, value)
        own.observe(other, value)
        bound.observe(third, value)
    assert own.recommend().choices[0].config == dict(plain.best.config)


def test_every_task_begins_with_the_same_configurations():
    optimizer = advance(
        Optimizer(SPACE, Aim(goal="each"), strategy=Search(settings={"initial": 2})), 6
    )
    without = [TASKS.configuration(config) for config in configs(optimizer)]
    assert without[0] == without[1] == without[2]
    assert without[3] == without[4] == without[5]


def test_the_default_and_first_configurations_go_to_every_task_that_allows_them():
    first = {"tile": 32, "unroll": 8, "kind": "a"}  # not allowed for n=64
    optimizer = Optimizer(SPACE, strategy=Search(initial=[first]))
    trials = optimizer.suggest(2)
    assert [trial.task["n"] for trial in trials] == [512, 4096]
    assert TASKS.configuration(trials[0].config) == first


def test_the_same_configuration_on_two_tasks_is_two_trials():
    optimizer = Optimizer(SPACE)
    config = {"tile": 32, "unroll": 2, "kind": "a"}
    optimizer.observe({**config, "n": 64}, 3.0)
    optimizer.observe({**config, "n": 512}, 30.0)
    assert [trial.value for trial in optimizer.trials] == [3.0, 30.0]
    assert optimizer.trials[1].task == {"n": 512}
    frame = optimizer.to_dataframe()
    assert frame["n"].tolist() == [64, 512]


@pytest.mark.parametrize("goal", ["each", "single", Cover(2)], ids=str)
def test_a_worker_may_be_bound_to_a_task(goal):
    optimizer = Optimizer(
        SPACE, Aim(goal=goal), strategy=Search(initial=[{"tile": 16, "unroll": 2, "kind": "a"}])
    )
    for i in range(12):
        task = TASKS.names[i % 2]
        trial = optimizer.suggest(task=task)
        assert trial.task == TASKS.descriptors[i % 2]
        optimizer.observe(trial, measure(trial))
    pending = optimizer.suggest(3, task={"n": 4096})
    assert {trial.task["n"] for trial in pending} == {4096}
    assert TASKS.configuration(pending[0].config) == {"tile": 16, "unroll": 2, "kind": "a"}
    with pytest.raises(SpaceError, match="the tasks are n=64"):
        optimizer.suggest(task={"n": 65})


def test_a_process_may_be_bound_to_a_task(tmp_path):
    path = tmp_path / "run.jsonl"
    settings = {"aim": Aim(goal="single"), "storage": path, "progress": False}
    parameters = Space({"tile": [8, 16, 32, 64], "unroll": [1, 2]}, tasks=["A", "B"])

    def on(device):
        def measure(trial):
            assert trial.task == {"task": device}
            return abs(trial["tile"] - 32) + trial["unroll"] + 1.0

        return measure

    tune(on("A"), parameters, stop=MaxEvals(1), workers=Workers(task="A"), **settings)
    left = Optimizer.load(path)
    left.suggest(task="B")  # pending: no trial of the process on A
    tune(on("A"), parameters, stop=MaxEvals(5), workers=Workers(worker="a", task="A"), **settings)
    result = tune(
        on("B"),
        parameters,
        stop=MaxEvals(11),
        workers=Workers(worker="b", task={"task": "B"}),
        **settings,
    )
    assert [len(result.trials), len(result.optimizer.pending)] == [10, 1]
    assert {trial.worker for trial in result.trials if trial.task == {"task": "B"}} == {"b"}
    assert Optimizer.load(path, sharing=Sharing(task="B", lease=1)).suggest().task == {"task": "B"}
    copied = copy.deepcopy(Optimizer(parameters, sharing=Sharing(task="B")))
    assert {trial.task["task"] for trial in copied.suggest(3)} == {"B"}


def test_a_task_to_which_a_process_is_bound_exists():
    with pytest.raises(SpaceError, match="the tasks are n=64"):
        Optimizer(SPACE, sharing=Sharing(task="n=65"))
    with pytest.raises(SpaceError, match="no tasks"):
        Optimizer(PARAMETERS, sharing=Sharing(task="n=64"))
    with pytest.raises(ValueError, match="proposals in store"):
        Optimizer(SPACE, sharing=Sharing(task="n=64", ahead=2))


def test_two_configurations_leave_no_task_behind():
    """A task whose values hardly differ promises no gain, but its best configuration may not have been tried."""

    def contrary(trial):
        return 1000.0 - measure(trial) / 1e3 if trial.task["n"] == 512 else measure(trial)

    optimizer = Optimizer(
        Space(PARAMETERS, tasks=[{"n": n} for n in SIZES]), Aim(goal=Cover(2)), seed=1
    )
    for _ in range(30):
        trial = optimizer.suggest()
        optimizer.observe(trial, contrary(trial))
    counts = [sum(trial.task["n"] == n for trial in optimizer.trials) for n in SIZES]
    assert max(counts) - min(counts) <= 1


def test_a_trial_at_its_time_limit_is_not_suggested_again():
    optimizer = Optimizer(SPACE, seed=1, strategy=Search(settings={"initial": 3}))
    for _ in range(4):
        for trial in optimizer.suggest(3):
            optimizer.observe(trial, failed="timeout", bound=1.0)
    assert len({f"{dict(trial)} {trial.task}" for trial in optimizer.trials}) == 12


def test_pending_trials_are_not_suggested_again():
    optimizer = advance(
        Optimizer(SPACE, Aim(goal="single"), strategy=Search(settings={"initial": 2})), 9
    )
    trials = optimizer.suggest(6)
    assert len({tuple(trial.config.values()) for trial in trials}) == 6


def test_a_single_configuration_is_one_that_every_task_allows():
    optimizer = advance(Optimizer(SPACE, Aim(goal="single"), seed=1, budget=24), 24)
    found = optimizer.recommend()
    (config,) = found.configs
    assert config["unroll"] <= 4
    assert config["tile"] <= 64
    assert found.selector.kind == "constant"
    assert found["n=64"].value == optimizer.recommend()[{"n": 64}].value
    assert len(optimizer.recommend(goal="each").configs) >= 1


def test_tasks_without_a_common_configuration_need_another_goal():
    tasks = Tasks({"a": {"n": 1}, "b": {"n": 2}}, {"a": "tile <= 16", "b": "tile >= 32"})
    with pytest.raises(StrategyError, match="constraints of all tasks"):
        Optimizer(Space(PARAMETERS, tasks=tasks), Aim(goal="single"))
    assert Optimizer(Space(PARAMETERS, tasks=tasks)).suggest().task in tasks.descriptors


def test_maximised_values_are_slower_where_they_are_smaller():
    optimizer = Optimizer(Space(PARAMETERS, tasks=["A", "B"]), Aim("maximize", goal="single"))
    for config, a, b in (({"tile": 8}, 100.0, 10.0), ({"tile": 16}, 50.0, 30.0)):
        for task, value in (("A", a), ("B", b)):
            optimizer.observe({**config, "unroll": 1, "kind": "a", "task": task}, value)
    found = optimizer.recommend()
    # 2 times slower on A, but the other is 3 times slower on B.
    assert found["A"].config["tile"] == 16
    assert found["A"].slowdown == pytest.approx(2.0)
    assert found["A"].value == 50.0


def test_a_task_without_a_success_is_tried_first():
    optimizer = Optimizer(SPACE, Aim(goal="each"), strategy=Search(settings={"initial": 1}))
    for trial in optimizer.suggest(3):
        if trial.task["n"] == 512:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, measure(trial))
    assert optimizer.suggest().task["n"] == 512


def test_the_journal_keeps_tasks_and_goal(tmp_path):
    path = tmp_path / "run.jsonl"
    Optimizer(SPACE, Aim(goal=Cover(2)), storage=path)
    assert Optimizer.load(path).options.aim.goal == Cover(2)
    assert Optimizer.load(path).space.tasks == TASKS
    with pytest.raises(JournalError, match="the tasks were"):
        Optimizer(Space(PARAMETERS, ["tile <= n"], tasks=[{"n": 64}, {"n": 65}]), storage=path)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"aim": Aim(goal="single")}, ValueError, "needs a Space with tasks="),
        ({"tasks": ["A", "B"], "strategy": "bayesian"}, StrategyError, "several tasks together"),
        (
            {"tasks": ["A", "B"], "aim": {"x": "minimize", "y": "minimize"}},
            StrategyError,
            "one objective",
        ),
        ({"tasks": ["A", "B"], "fidelity": {"size": [1, 2]}}, SpaceError, "not both"),
        ({"tasks": ["A", "A"]}, SpaceError, "same name"),
        ({"tasks": [{"n": 1}, {"m": 1}]}, SpaceError, "different descriptors"),
        ({"tasks": [{"n": 1}, {"n": "x"}]}, SpaceError, "numbers, or strings"),
        ({"tasks": [{"tile": 1}, {"tile": 2}]}, SpaceError, "also a parameter"),
        ({"tasks": []}, SpaceError, "list of descriptors"),
    ],
)
def test_wrong_tasks_are_refused(settings, error, message):
    settings = dict(settings)
    own = {name: settings.pop(name) for name in ("tasks", "fidelity") if name in settings}
    with pytest.raises(error, match=message):
        Optimizer(Space(PARAMETERS, **own), **settings)


def test_tune_calls_the_function_with_the_task():
    result = tune(measure, SPACE, aim=Aim(goal="single"), stop=MaxEvals(9), progress=False)
    assert {trial.task["n"] for trial in result.trials} == set(SIZES)
    with pytest.raises(ValueError, match="best value of one task"):
        tune(measure, SPACE, stop=MaxEvals(9) | NoImprovement(5), progress=False)
    with pytest.raises(ValueError, match="confirm and recheck"):
        tune(
            measure,
            SPACE,
            stop=MaxEvals(9),
            measuring=Measuring(confirm=Confirm(2)),
            progress=False,
        )


def test_random_search_is_a_baseline_and_may_be_bound():
    optimizer = Optimizer(SPACE, Aim(goal="single"), strategy="random_search")
    assert optimizer.suggest(task="n=512").task == {"n": 512}
    assert optimizer.suggest().task in TASKS.descriptors


def test_results_of_another_task_begin_a_run():
    earlier = Optimizer(PARAMETERS, seed=5)
    for _ in range(10):
        trial = earlier.suggest()
        earlier.observe(trial, 64.0 * (1 + abs(np.log2(trial["tile"]) - 3)))
    tasks = [{"n": 64}, {"n": 512}]
    start = WarmStart(earlier, task={"n": 64})
    optimizer = Optimizer(Space(PARAMETERS, tasks=tasks), Aim(goal="each"), warm_start=start)
    assert len(optimizer.history) == 10
    assert {trial.task["n"] for trial in optimizer.trials} == {64}
    for n in (512, 64):
        trial = optimizer.suggest(task={"n": n})
        optimizer.observe(trial, measure(trial))
    # Both tasks are tuned, and each has a success, so the model of both chooses.
    assert optimizer.suggest(task={"n": 512}).tag["phase"] in ("design", "model")


def results_of(n):
    """Return results of a whole task."""
    configs = [
        {"tile": t, "unroll": u, "kind": k} for t in (8, 32, 128) for u in (1, 4) for k in "ac"
    ]
    return [(config, 1.0 + abs(np.log2(config["tile"]) - 0.5 * np.log2(n))) for config in configs]


def weights_of(optimizer):
    return [
        (trial.tag or {}).get("weights") for trial in optimizer.trials if trial.task["n"] == 512
    ]


@pytest.mark.parametrize("goal", ["each", "single"])
def test_a_process_with_one_task_uses_the_ensemble_of_a_prior(goal, tmp_path):
    """While the other tasks only have the results of warm starts, and are not tuned themselves."""
    path = tmp_path / "run.jsonl"
    space = Space(PARAMETERS, tasks=[{"n": 64}, {"n": 512}])
    settings = {"aim": Aim(goal=goal), "seed": 1, "sharing": Sharing(task="n=512")}
    settings["warm_start"] = WarmStart(results_of(64), task="n=64")
    whole = advance(Optimizer(space, **settings), 8)
    advance(Optimizer(space, storage=path, **settings), 5)
    resumed = advance(Optimizer.load(path, sharing=Sharing(task="n=512")), 3)
    assert configs(resumed) == configs(whole)
    assert any(weights and "n=64" in weights for weights in weights_of(whole)) == (goal == "each")


def test_the_model_of_all_tasks_replaces_the_ensemble_when_another_task_is_tuned_too():
    start = WarmStart(results_of(64), task="n=64")
    space = Space(PARAMETERS, tasks=[{"n": 64}, {"n": 512}])
    optimizer = Optimizer(space, sharing=Sharing(task="n=512"), warm_start=start)
    advance(optimizer, 5)
    other = optimizer.suggest(task="n=64")
    advance(optimizer, 2)
    assert weights_of(optimizer)[4]
    assert weights_of(optimizer)[5:] == [None, None]
    optimizer.abandon(other)
    advance(optimizer, 1)
    assert weights_of(optimizer)[-1]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, ConfigError, "lack n, which tells the tasks apart"),
        ({"task": "n=65"}, ConfigError, "the tasks are n=64"),
        ({"task": "n=64", "mode": "prior"}, StrategyError, "make the related task one of them"),
    ],
)
def test_a_warm_start_says_its_task(settings, error, message):
    data = [({"tile": t, "unroll": 1, "kind": "a"}, float(t)) for t in (8, 16, 32, 64)]
    with pytest.raises(error, match=message):
        Optimizer(
            Space(PARAMETERS, tasks=[{"n": 64}, {"n": 512}]), warm_start=WarmStart(data, **settings)
        )
    with pytest.raises(ConfigError, match="this run has no tasks"):
        Optimizer(PARAMETERS, warm_start=WarmStart(data, task="n=64"))


def test_a_recommendation_has_the_parameters_that_are_active_for_each_task():
    space = Space(
        {"kind": ["plain", "tiled"], "tile": Ordinal([8, 16], default=8)},
        constraints=["tile <= n"],
        when={"tile": "kind == 'tiled' and n >= 100"},
        tasks=[{"n": 10}, {"n": 100}, {"n": 1000}],
    )
    optimizer = Optimizer(space)
    optimizer.observe({"kind": "tiled", "n": 10}, 1.0)
    for n in (100, 1000):
        optimizer.observe({"kind": "tiled", "tile": 8, "n": n}, 2.0)
    for goal in ("single", "each"):
        found = optimizer.recommend(goal=goal)
        active = {"kind": "tiled", "tile": 8}
        assert [c.config for c in found.choices] == [{"kind": "tiled"}, active, active]
        assert found.configs == (active,)
        assert found.selector.select({"n": 200}) == active
    lines = tell_recommendation(optimizer.recommend(goal="single"))
    assert lines[0] == "recommended: kind=tiled (for n=10)"
    assert lines[1] == "recommended: kind=tiled, tile=8 (for n=100, n=1000)"
    run = optimizer.shipped_run()
    assert [entry.evidence.measurements for entry in run.entries] == [1, 1, 1]


def test_a_measured_configuration_is_preferred_to_a_prediction():
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=[{"n": 1}, {"n": 2}]))
    optimizer.observe({"tile": 8, "n": 1}, 2.0)
    optimizer.observe({"tile": 8, "n": 2}, 2.0)
    optimizer.observe({"tile": 16, "n": 2}, 1.0)
    found = optimizer.recommend(goal="each")
    assert [(c.config["tile"], c.value, c.is_measured) for c in found.choices] == [
        (8, 2.0, True),
        (16, 1.0, True),
    ]
    assert found.slowdown == 1.0


def test_a_configuration_that_fails_on_one_task_may_be_the_best_of_another():
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=[{"n": 1}, {"n": 2}]))
    for tile, n, value in ((8, 1, 2.0), (8, 2, 2.0), (16, 2, 1.0), (16, 1, float("nan"))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.observe({"tile": tile, "n": n}, value)
    for goal in ("each", Cover(2), Cover(within=1.1)):
        found = optimizer.recommend(goal=goal)
        assert [c.config["tile"] for c in found.choices] == [8, 16]
        assert found.slowdown == 1.0
    assert optimizer.recommend(goal="single").configs == ({"tile": 8},)


def test_a_task_has_no_choice_where_no_recommended_configuration_may_run():
    own = {"n=64": "tile == 8", "n=512": "tile == 16"}
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=Tasks([{"n": 64}, {"n": 512}], own)))
    optimizer.observe({"tile": 8, "n": 64}, 1.0)
    optimizer.observe({"tile": 16, "n": 512}, 1.0)
    found = optimizer.recommend(goal="single")
    assert [(choice.name, choice.config) for choice in found.choices] == [("n=64", {"tile": 8})]
    assert found.slowdown == np.inf
    assert "no configuration is recommended for n=512" in tell_recommendation(found)
