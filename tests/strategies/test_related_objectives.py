"""Results of related tasks in runs with several objectives."""

import math
import shutil
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from informed import Informed
from nightly import cover

from baco_like import (
    Categorical,
    ConfigError,
    Integer,
    MaxEvals,
    Optimizer,
    Permutation,
    Space,
    StrategyError,
    WarmStart,
    WarmStartWarning,
    tune,
)
from baco_like.records import Objective
from baco_like.running.findings import Findings
from baco_like.running.sentences import format_summary
from baco_like.strategies import create_strategy
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.protocol import RelatedTask
from baco_like.testing.strategies import example_spaces, resume_with_objectives

VALUES = [2**i for i in range(8)]
SPACE = Space({"a": VALUES, "b": VALUES, "c": VALUES, "k": Categorical(["p", "q", "r"])})
TWO = {"time": "minimize", "rate": "maximize"}
MODELS = ("auto", "ehvi", "parego")
REFERENCE = {"time": 30.0, "rate": -20.0}


def measure(config, shift=0.0):
    a, b, c = (math.log2(config[name]) for name in "abc")
    slow = {"p": 0.0, "q": 2.0, "r": 4.0}[config["k"]]
    time = 1.0 + (a - 3.0 - shift) ** 2 + (b - 2.0) ** 2 + slow + 0.1 * c
    return {"time": time, "rate": 10.0 - (a - 5.0 - shift) ** 2 - (c - 5.0) ** 2 - slow}


@cache
def elsewhere(count=120, shift=0.5, seed=3):
    """Results of a task with another optimum, and times in another unit."""
    rows = [(config, measure(config, shift)) for config in SPACE.sample(count, seed=seed)]
    return [(config, {**row, "time": 1000.0 * row["time"]}) for config, row in rows]


def volume(name, warm_start, evaluations, seed):
    """Return the volume that a strategy reaches; with related tasks it has one first point, like `auto`."""
    options = {"initial": 1} if warm_start and name != "auto" else {}
    result = tune(
        measure,
        SPACE,
        aim=TWO,
        strategy=create_strategy(name, options),
        seed=seed,
        stop=MaxEvals(evaluations),
        warm_start=warm_start,
        progress=False,
    )
    return result.optimizer.hypervolume(REFERENCE)


@pytest.mark.parametrize("name", ["auto", "parego"])
def test_a_related_task_is_worth_evaluations(name):
    prior = WarmStart(elsewhere(), "prior")
    with_it = [volume(name, prior, 9, seed) for seed in range(2)]
    without = [volume(name, None, 9, seed) for seed in range(2)]
    assert np.mean(with_it) > np.mean(without)


def suggested(optimizer, count):
    for _ in range(count):
        trial = optimizer.suggest()
        optimizer.observe(trial, measure(trial))
    return optimizer


@pytest.mark.parametrize("name", MODELS)
def test_the_first_points_are_the_best_of_the_related_task(name):
    optimizer = Optimizer(
        SPACE,
        TWO,
        strategy=create_strategy(name, {"initial": 1}),
        warm_start=WarmStart(elsewhere(), "prior"),
    )
    first = suggested(optimizer, 1).suggest(6)
    assert {trial.tag["phase"] for trial in first} == {"sources"}
    values = np.array([list(measure(trial, 0.5).values()) for trial in first]) * [1.0, -1.0]
    known = np.array([list(row.values()) for _, row in elsewhere()]) * [0.001, -1.0]
    better = (known[:, None] <= values).all(axis=2).mean(axis=0)
    assert better.max() < 0.1, "few known results are better in both objectives"
    assert np.ptp(values, axis=0).min() > 1.0, "the weights of the objectives differ"


def test_the_weights_are_by_objective_and_the_summary_has_the_largest():
    sources = [
        WarmStart(elsewhere(), "prior"),
        WarmStart([(c, {**row, "rate": -row["rate"]}) for c, row in elsewhere()], "prior"),
    ]
    optimizer = suggested(Optimizer(SPACE, TWO, warm_start=sources), 10)
    weights = optimizer.why(optimizer.trials[-1])["weights"]
    assert list(weights) == list(TWO)
    assert all(set(part) == {"list", "list (2)", "this run"} for part in weights.values())
    assert all(sum(part.values()) == pytest.approx(1.0, abs=1e-3) for part in weights.values())
    assert weights["rate"]["list (2)"] == 0.0
    summary = Findings(optimizer.history, Objective("time"))
    assert summary.prior_weights == {
        name: max(part[name] for part in weights.values()) for name in ("list", "list (2)")
    }


def test_a_prior_without_weight_is_said():
    wrong = [(c, {"time": -row["time"], "rate": -row["rate"]}) for c, row in elsewhere()]
    start = WarmStart(wrong, "prior")
    optimizer = suggested(Optimizer(SPACE, TWO, warm_start=start), 12)
    summary = Findings(optimizer.history, Objective("time"))
    assert summary.prior_weights == {"list": 0.0}
    assert "The prior list has no weight: " in format_summary(summary)


def test_with_parego_a_prior_without_weight_has_none_for_many_weights_of_the_objectives():
    strategy = create_strategy("parego", {"initial": 1})
    start = WarmStart(elsewhere(), "prior")
    optimizer = Optimizer(SPACE, TWO, strategy=strategy, warm_start=start)
    suggested(optimizer, 16)
    weights = [trial.tag["weights"]["list"] for trial in optimizer.trials[2:]]
    summary = Findings(optimizer.history, Objective("time"))
    assert summary.prior_weights == {"list": max(weights[-10:])}
    assert weights[-1] < max(weights[-10:]), "else the last one would be enough"


@pytest.mark.parametrize("name", MODELS)
def test_a_source_without_one_objective_informs_the_others(name):
    """Here it has no rates, or always the same one."""
    for rate in ({}, {"rate": 7.0}):
        times = [(config, {"time": row["time"], **rate}) for config, row in elsewhere()]
        with pytest.warns(WarmStartWarning, match="list: it says nothing about rate, of which"):
            optimizer = Optimizer(
                SPACE,
                TWO,
                strategy=create_strategy(name, {"initial": 1}),
                warm_start=WarmStart(times, "prior"),
            )
        tags = [trial.tag for trial in suggested(optimizer, 6).trials if trial.tag]
        assert [tag["phase"] for tag in tags[1:]] == ["sources", *["model"] * 4]
        if name != "parego":
            assert list(tags[-1]["weights"]) == ["time"]
        assert np.isfinite(optimizer.predict([dict(optimizer.trials[0].config)])[0]).all()


def source_of_rates(kind):
    """Return results of a task that lacks the first objective of the run."""
    rows = [(config, {"rate": row["rate"]}) for config, row in elsewhere()]
    if kind == "list":
        return rows, None
    if kind == "table":
        return pd.DataFrame([{**config, **row} for config, row in rows]), None
    if kind == "numbers":
        return [(config, row["rate"]) for config, row in rows], "rate"
    other = Optimizer(SPACE, {"rate": "maximize"}, strategy="random_search")
    for config, row in rows:
        other.observe(config, {**row, "size": 3.0})
    return other, None


@pytest.mark.parametrize(("name", "kind"), cover(MODELS, ["list", "table", "numbers", "optimizer"]))
def test_a_source_without_the_first_objective_informs_the_others(name, kind, tmp_path):
    rates, objective = source_of_rates(kind)
    with pytest.warns(WarmStartWarning, match="it says nothing about time, of which"):
        optimizer = Optimizer(
            SPACE,
            TWO,
            strategy=create_strategy(name, {"initial": 1}),
            warm_start=WarmStart(rates, "prior", objective=objective),
            storage=tmp_path / "run.jsonl",
        )
    first = suggested(optimizer, 1).suggest()
    assert first.tag["phase"] == "sources"
    best = sorted((row["rate"] for _, row in elsewhere()), reverse=True)[:12]
    assert measure(first, 0.5)["rate"] >= best[-1], "it is one of the best rates there"
    optimizer.observe(first, measure(first))
    suggested(optimizer, 3)
    copy = shutil.copy(tmp_path / "run.jsonl", tmp_path / "copy.jsonl")
    resumed = Optimizer.load(copy, strategy=create_strategy(name, {"initial": 1}))
    following, again = optimizer.suggest(), resumed.suggest()
    assert (dict(following), following.tag) == (dict(again), again.tag)
    assert following.tag["phase"] == "model"
    if name != "parego":
        assert list(following.tag["weights"]) == ["rate"]


def test_a_source_without_the_first_objective_has_the_direction_of_its_own():
    other = Optimizer(SPACE, {"rate": "minimize"}, strategy="random_search")
    for config, row in elsewhere()[:9]:
        other.observe(config, row["rate"])
    with pytest.raises(ConfigError, match="its values are to minimize, this run is to maximize"):
        Optimizer(SPACE, TWO, warm_start=WarmStart(other, "prior"))
    with pytest.raises(ConfigError, match="no measurement 'time'; with mode='prior' it would"):
        Optimizer(SPACE, TWO, warm_start=other)
    power = Optimizer(SPACE, {"power": "minimize"}, strategy="random_search")
    power.observe(elsewhere()[0][0], 1.0)
    with pytest.raises(ConfigError, match="'power', and it has no measurement 'rate'"):
        Optimizer(SPACE, TWO, warm_start=WarmStart(power, "prior"))


def test_a_source_needs_three_values_of_an_objective():
    few = [(config, {"time": 1.0, "rate": i % 2}) for i, (config, _) in enumerate(elsewhere())]
    with pytest.raises(ConfigError, match="a prior needs 3 different values"):
        Optimizer(SPACE, TWO, warm_start=WarmStart(few, "prior"))
    few[0][1]["rate"] = 5
    with pytest.warns(WarmStartWarning, match="nothing about time"):
        optimizer = Optimizer(SPACE, TWO, warm_start=WarmStart(few, "prior"))
    assert list(suggested(optimizer, 4).why(optimizer.trials[-1])["weights"]) == ["rate"]


def test_rows_of_a_large_source_are_those_of_its_first_fronts():
    start = WarmStart(elsewhere(400), "prior", rows=40)
    optimizer = Optimizer(SPACE, TWO, warm_start=start)
    kept = optimizer.warm_start[0].trials
    costs = np.array([[row["time"], -row["rate"]] for _, row in elsewhere(400)])
    worse = (costs[:, None] < costs).all(axis=2).any(axis=0)
    front = [tuple(elsewhere(400)[i][0].values()) for i in np.flatnonzero(~worse)]
    assert len(kept) == 40
    assert set(front[:20]) <= {tuple(trial.config.values()) for trial in kept}


def test_rows_of_a_large_source_need_not_have_all_objectives():
    """Three results have a rate; the others are chosen by their times."""
    rows = [
        (config, row if i < 3 else {"time": row["time"]})
        for i, (config, row) in enumerate(elsewhere(400))
    ]
    optimizer = Optimizer(SPACE, TWO, warm_start=WarmStart(rows, "prior", rows=40))
    kept = [trial.outcome.value for trial in optimizer.warm_start[0].trials]
    assert len(kept) == 40
    assert set(kept) >= set(sorted(row["time"] for _, row in elsewhere(400))[:15])


@pytest.mark.parametrize("name", MODELS)
def test_a_few_rows_may_have_too_few_values_for_a_model(name):
    """The results have three different times, the kept ones have fewer. Then the run is one without results."""
    times = [2.0, 3.0, *[1.0] * 118]
    rows = [(c, {"time": t, "rate": -t}) for (c, _), t in zip(elsewhere(), times, strict=True)]
    optimizer = Optimizer(
        SPACE,
        TWO,
        strategy=create_strategy(name, {"initial": 1}),
        warm_start=WarmStart(rows, "prior", rows=3),
    )
    assert len({trial.outcome.value for trial in optimizer.warm_start[0].trials}) < 3
    tags = [trial.tag for trial in suggested(optimizer, 4).trials]
    assert [tag["phase"] for tag in tags[1:]] == ["explore", "model", "model"]
    assert "weights" not in tags[-1]


def test_parego_counts_a_missing_objective_as_the_median(monkeypatch):
    seen = []

    fit_related_task = Bayesian._fit_task

    def fit_task(self, problem, task, rng):
        seen.append(task)
        return fit_related_task(self, problem, task, rng)

    rows = [
        (config, {"time": 1.0, **({} if i % 3 == 0 else {"rate": row["rate"]})})
        for i, (config, row) in enumerate(elsewhere())
    ]
    with pytest.warns(WarmStartWarning, match="nothing about time"):
        optimizer = Optimizer(
            SPACE,
            TWO,
            strategy=create_strategy("parego", {"initial": 2}),
            warm_start=WarmStart(rows, "prior"),
        )
    suggested(optimizer, 2)
    monkeypatch.setattr(Bayesian, "_fit_task", fit_task)
    optimizer.suggest()
    costs = seen[-1].costs
    assert costs[::3] == pytest.approx(np.median(np.delete(costs, np.s_[::3])))


@pytest.mark.parametrize("objective", ["time", None])
@pytest.mark.parametrize("name", ["ehvi", "parego"])
def test_one_objective_is_enough(name, objective):
    rows = [(config, row["time"]) for config, row in elsewhere()]
    start, options = WarmStart(rows, "prior"), {"aim": {objective: "minimize"}} if objective else {}
    strategy = create_strategy(name, {"initial": 1})
    optimizer = Optimizer(SPACE, strategy=strategy, warm_start=start, **options)
    for _ in range(4):
        trial = optimizer.suggest()
        optimizer.observe(trial, measure(trial)["time"])
    assert [trial.tag["phase"] for trial in optimizer.trials[1:]] == ["sources", "model", "model"]
    assert set(Findings(optimizer.history, Objective("time")).prior_weights) == {"list"}


def test_failures_of_the_source_are_avoided_first():
    broken = [
        (config, None if config["k"] == "p" else row) for config, row in elsewhere()
    ]  # the best kind
    start = WarmStart(broken, "prior")
    for seed in range(4):
        optimizer = Optimizer(SPACE, TWO, seed=seed, warm_start=start)
        told = suggested(optimizer, 1).suggest(3)
        assert {trial.tag["phase"] for trial in told} == {"sources"}
        assert "p" not in [trial["k"] for trial in told]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            create_strategy("nsga2"),
            "NSGA2 has no Gaussian process that a related task could inform",
        ),
        (create_strategy("ehvi", {"surrogate": "forest"}), "informs Gaussian processes, not a"),
        (create_strategy("parego", {"surrogate": "forest"}), "informs Gaussian processes, not a"),
    ],
)
def test_strategies_without_a_gaussian_process_refuse_it(strategy, message):
    start = WarmStart(elsewhere(), "prior")
    with pytest.raises(StrategyError, match=message):
        Optimizer(SPACE, TWO, strategy=strategy, warm_start=start)


FOUR = {**TWO, "size": "minimize", "energy": "minimize"}


SPACES = example_spaces()
LIMITS = {2: (TWO, ()), 4: (FOUR, ("size <= 4",))}


@pytest.mark.parametrize(
    ("count", "name", "kind"),
    cover(LIMITS, ["ehvi", "parego"], SPACES, share=6),  # one of them is what `auto` takes
)
def test_it_is_a_strategy_for_several_objectives(count, name, kind):
    (objectives, limits), space = LIMITS[count], SPACES[kind]
    rng = np.random.default_rng(0)
    codes = space.feasible.sample(20, rng)
    costs = rng.random((len(codes), len(objectives)))
    costs[2], costs[5, 1] = np.nan, np.nan  # a failure, and a metric that was not measured
    strategy = create_strategy(name, {"initial": 1})
    strategy = Informed(strategy, (RelatedTask("other", codes, costs),))
    resume_with_objectives(strategy, space, objectives, limits)


def test_the_search_leaves_the_end_of_the_front_that_the_first_points_are_at():
    """The front is concave (ZDT2): weights of the objectives choose one of its ends."""

    def concave(config, steps=0, scale=1.0):
        x = [min(20, config[name] + steps) / 20.0 for name in "bc"]
        g = 1.0 + sum(x) + sum(i > j for i, j in combinations(config["order"], 2)) / 10.0
        first = config["a"] / 20.0
        return {"first": scale * first, "second": scale * (g - first**2 / g)}

    space = Space({**{n: Integer(0, 20) for n in "abc"}, "order": Permutation([0, 1, 2, 3, 4])})
    objectives = {"first": "minimize", "second": "minimize"}
    known = [(config, concave(config, 3, 2.0)) for config in space.sample(200, seed=1)]
    start = WarmStart(known, "prior")
    optimizer = Optimizer(space, objectives, warm_start=start)
    for _ in range(18):
        trial = optimizer.suggest()
        optimizer.observe(trial, concave(trial))
    reached = [trial["a"] for trial in optimizer.front]
    assert max(reached) - min(reached) >= 10
