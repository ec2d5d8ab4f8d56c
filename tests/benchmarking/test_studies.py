"""Studies on functions: what they run, keep and return, their tables, and the standard problems."""

from __future__ import annotations

import json
import math
import pickle
import sys

import numpy as np
import pytest
from scipy.stats import rankdata

from baco_like import BacoWarning, Integer, MissingExtra, Permutation, Real, Space, StrategyError
from baco_like.benchmarking import problems, studies, study
from baco_like.benchmarking.comparison import Contender
from baco_like.benchmarking.studies.plots import joined_groups
from baco_like.benchmarking.studies.runs import run_study_job
from baco_like.benchmarking.studies.study import read_contender
from baco_like.cli import main

PROBLEM = """
from baco_like import Integer, Space
from baco_like.benchmarking.problems import problem

@problem({"x": Integer(0, 20), "y": Integer(0, 20)}, optimum=0.0)
def bowl(config):
    if config["x"] > 17:
        raise ArithmeticError("too wide")
    return (config["x"] - 3) ** 2 + config["y"]

def height(config):
    return None if config["a"] == 2 else config["a"]

height.space = Space({"a": [1, 2, 3]})
height.direction = "maximize"
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "own_study_problems.py").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    yield "own_study_problems"
    sys.modules.pop("own_study_problems", None)


def test_a_study_returns_every_evaluation(module):
    frame = study(["random_search", "exhaustive"], [f"{module}:bowl", f"{module}:height"], 3, 8)
    assert list(frame.columns[:5]) == ["problem", "strategy", "seed", "evaluation", "value"]
    bowl = frame[(frame.problem == "bowl") & (frame.strategy == "random_search")]
    assert bowl.groupby("seed").size().tolist() == [8, 8, 8]
    for _, run in bowl.groupby("seed"):
        assert run.best.tolist() == np.fmin.accumulate(run.value.to_numpy()).tolist()
        assert run.regret.equals(run.best)  # the optimum is 0
    height = frame[(frame.problem == "height") & (frame.seed == 0)]
    assert height.groupby("strategy").size().tolist() == [
        3,
        3,
    ]  # the space has three configurations
    assert height.value.isna().sum() == 2
    assert (height.groupby("strategy").best.last() == 3).all()
    assert height.regret.isna().all()


def test_a_function_with_a_space_is_a_problem():
    def double(config):
        return 2.0 * config["a"]

    double.space = Space({"a": [1, 2, 3]})
    frame = study(["exhaustive"], [double], 1, 3)
    assert (frame.problem == "double").all()
    assert sorted(frame.value) == [2.0, 4.0, 6.0]
    with pytest.raises(StrategyError, match="a function with a Space as its attribute"):
        study(["exhaustive"], [test_a_function_with_a_space_is_a_problem])


def test_a_study_continues_and_contradictions_are_errors(module, tmp_path):
    path = tmp_path / "runs.jsonl"
    first = study(["random_search"], [f"{module}:bowl"], 2, 5, path=path)
    size = path.stat().st_size
    again = study(["random_search"], [f"{module}:bowl"], 2, 5, path=path)
    assert again.equals(first)
    assert path.stat().st_size == size
    more = study(["random_search"], [f"{module}:bowl"], 3, 5, path=path)
    assert more[more.seed < 2].equals(first)
    with pytest.raises(Exception, match="evaluations = 5, now it is 6"):
        study(["random_search"], [f"{module}:bowl"], 2, 6, path=path)


def test_processes_give_the_same_results(module):
    given = (["random_search"], [f"{module}:bowl", "tour_8"], 2, 4)
    columns = ["problem", "seed", "value"]
    assert study(*given, processes=2)[columns].equals(study(*given)[columns])


def test_samplers_of_optuna_take_part():
    optuna = pytest.importorskip("optuna")
    space = Space(
        {
            "x": Real(0, 1),
            "n": Integer(1, 8),
            "k": [1, 2, 4],
            "p": Permutation(list("abc")),
            "one": [7],
        },
        ["n % k == 0"],
    )
    seen = []

    def value(config):
        assert space.contains(config)
        seen.append(config)
        return None if config["p"][0] == "c" else config["x"] + config["n"]

    before = optuna.logging.get_verbosity()
    problem = problems.FunctionProblem("own", space, value)
    random = Contender("random", "optuna:RandomSampler")
    frame = study(["optuna:TPESampler", random], [problem], 1, 12)
    assert frame.groupby("strategy").size().tolist() == [12, 12]
    assert len(seen) == 24
    assert optuna.logging.get_verbosity() == before
    with pytest.raises(StrategyError, match="did you mean optuna:TPESampler"):
        study(["optuna:TPSampler"], [problem])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("brannin", "did you mean 'branin'"),
        ("no_such_module:f", "cannot import 'no_such_module'"),
        ("math:tau_of_nothing", "the module 'math' has no 'tau_of_nothing'"),
        ("math:pi", "must be a FunctionProblem, or a function with a Space"),
    ],
)
def test_a_wrong_problem_is_explained(name, message):
    with pytest.raises(StrategyError, match=message):
        study(["random_search"], [name])


def test_ranks_agree_with_scipy(module):
    frame = study(["random_search", "exhaustive", "genetic_algorithm"], [f"{module}:bowl"], 4, 6)
    table = frame.groupby(["seed", "strategy"], sort=False).best.last().unstack()
    expected = rankdata(table.to_numpy(), axis=1).mean(axis=0)
    found = studies.mean_ranks(frame)
    assert [found.ranks[name] for name in table.columns] == pytest.approx(expected.tolist())
    # Demsar 2006, Table 5: the critical value of Nemenyi's test for three classifiers is 2.343.
    assert found.critical_difference == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 4)), rel=1e-3)
    text = studies.study_to_markdown(frame)
    assert "## bowl, 4 runs" in text
    assert "| exhaustive |" in text


def test_a_run_without_success_has_the_worst_value():
    space = Space({"a": list(range(1, 9))})
    problem = problems.FunctionProblem(
        "odd", space, lambda c: None if c["a"] % 2 else float(c["a"]), "maximize", 8.0
    )
    frame = study(["exhaustive", "random_search"], [problem], 8, 1)
    summary = studies.summarise_study(frame).set_index("strategy")
    worst = frame["value"].min()
    lost = frame.best.isna().groupby(frame.strategy).sum()
    assert lost.sum() > 0
    for name, runs in frame.groupby("strategy"):
        assert summary.loc[name, "mean"] == pytest.approx(runs.best.fillna(worst).mean())
        assert summary.loc[name, "regret"] == pytest.approx(8 - runs.best.fillna(worst).mean())


def test_tables_and_plots_without_any_success(tmp_path):
    problem = problems.FunctionProblem("fails", Space({"a": [1, 2, 3]}), lambda c: None)
    frame = study(["exhaustive", "random_search"], [problem], 2, 3)
    text = studies.study_to_markdown(frame)
    assert "| exhaustive | - | - | - | 100% |" in text
    assert "mean rank " not in text
    with pytest.raises(ValueError, match="a problem with a success"):
        studies.mean_ranks(frame)
    pytest.importorskip("matplotlib")
    studies.plot_curves(frame, tmp_path / "curves.png")


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_an_optimum_that_is_beaten_gives_a_warning(direction):
    problem = problems.FunctionProblem(
        "beaten", Space({"a": [1, 2, 3]}), lambda c: c["a"], direction, 2.0
    )
    with pytest.warns(BacoWarning, match="is better than optimum = 2, so") as caught:
        frame = study(["exhaustive"], [problem], 1, 3)
    assert caught[0].filename == __file__
    assert frame.regret.min() == -1.0


def test_strategies_of_a_study_have_settings_as_on_the_command_line():
    problem = problems.FunctionProblem("own", Space({"a": [1, 2, 3]}), lambda c: c["a"])
    name = "genetic_algorithm:population=7"
    assert read_contender(name) == Contender(name, "genetic_algorithm", {"population": 7})
    assert set(study([name], [problem], 1, 2).strategy) == {name}
    with pytest.raises(StrategyError, match=r"'population' in .* needs the form name=value"):
        study(["genetic_algorithm:population"], [problem])


def test_one_strategy_or_problem_instead_of_a_list_is_explained():
    problem = problems.FunctionProblem("own", Space({"a": [1, 2, 3]}), lambda c: c["a"])
    with pytest.raises(StrategyError, match=r"strategies = 'auto': expected a list"):
        study("auto", [problem])
    for single in ("branin", problem):
        with pytest.raises(StrategyError, match=r"problems = .*: expected a list"):
            study(["auto"], single)


def raise_for_seed_one(job):
    if job.seed != 1:
        return run_study_job(job)
    if job.problem.name == "foreign":
        raise json.JSONDecodeError("wrong", "text", 0)  # cannot be rebuilt from its message alone
    raise MissingExtra("torch", "gp")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("foreign", RuntimeError, "JSONDecodeError: wrong"),
        ("own", StrategyError, "torch is not installed"),
    ],
)
def test_an_error_in_a_run_names_the_run(tmp_path, monkeypatch, name, kind, message):
    monkeypatch.setattr(sys.modules[study.__module__], "run_study_job", raise_for_seed_one)
    problem = problems.FunctionProblem(name, Space({"a": [1, 2, 3]}), math.isnan)
    path = tmp_path / "runs.jsonl"
    where = f"strategy 'exhaustive' on problem '{name}' with seed 1: {message}"
    with pytest.raises(kind, match=where) as caught:
        study(["exhaustive"], [problem], [0, 1], 3, path=path)
    copy = pickle.loads(pickle.dumps(caught.value))  # as another process sends it
    assert str(copy) == str(caught.value)
    events = map(json.loads, path.read_text().splitlines())
    assert [event["seed"] for event in events if "seed" in event] == [0]  # the finished run is kept


def test_joined_groups():
    ranks = np.array([1.0, 1.5, 2.4, 4.0])
    assert joined_groups(ranks, 1.0) == [(0, 1), (1, 2)]
    assert joined_groups(ranks, 0.1) == []
    assert joined_groups(ranks, 5.0) == [(0, 3)]


def test_samplers_of_optuna_are_asked_for_active_parameters_only():
    pytest.importorskip("optuna")
    frame = study(["optuna:TPESampler"], ["conditional_kernel", "conditional_nested"], 1, 15)
    assert frame.groupby("problem").value.count().to_dict() == {
        "conditional_kernel": 15,
        "conditional_nested": 15,
    }


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_no_draw_of_a_standard_problem_is_better_than_its_optimum(name):
    problem = problems.load_problem(name)
    configs = problem.space.sample(100, seed=1)
    values = np.array([problem(config) for config in configs], dtype=float)
    assert np.isfinite(values).any()
    copy = pickle.loads(pickle.dumps(problem))
    assert copy(configs[0]) == pytest.approx(values[0], nan_ok=True)
    if not name.startswith(("flags", "mixed_0", "mixed_1")) or name.startswith("mixed_14"):
        assert problem.best_value <= np.nanmin(values) + 1e-9


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("branin", {"x": np.pi, "y": 2.275}),
        ("hartmann_3", {"x0": 0.114614, "x1": 0.555649, "x2": 0.852547}),
        ("hartmann_order", {"order": (2, 0, 4, 1, 3, 5)}),
    ],
)
def test_published_optima(name, config):
    problem = problems.load_problem(name)
    if name == "hartmann_order":
        levels = sorted([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
        best = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
        config = {"order": tuple(levels.index(level) for level in best)}
    assert problem(config) == pytest.approx(problem.best_value, abs=1e-4)


def test_two_fifths_of_mixed_14_fail():
    problem = problems.load_problem("mixed_14_0")
    values = [problem(config) for config in problem.space.sample(1000, seed=3)]
    assert len(problem.space.names) == 14
    assert 0.35 < np.isnan(values).mean() < 0.45


def test_the_command_writes_tables_and_plots(module, tmp_path, capsys):
    command = [
        "compare",
        "--strategies",
        "random_search,exhaustive",
        "--problems",
        f"{module}:bowl",
    ]
    command += ["--repeats", "2", "--budget", "5", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "## bowl, 2 runs" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"table.md", "evaluations.csv", "summary.csv", "curves.png", "ranks.png"} <= names
