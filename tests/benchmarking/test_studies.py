"""Studies: what they run, keep and return, their figures, reports and plots, and the command."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import math
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from recorded_table import t4
from scipy.stats import friedmanchisquare, mannwhitneyu, rankdata

from baco_like import (
    BacoWarning,
    Categorical,
    Integer,
    MaxEvals,
    MissingExtra,
    Optimizer,
    Permutation,
    Real,
    Space,
    StrategyError,
    tune,
)
from baco_like.benchmarking import problems, studies, study
from baco_like.benchmarking.problems.problem import OUTSIDE
from baco_like.benchmarking.problems.recorded import RecordedProblem, find_recorded
from baco_like.benchmarking.score import CUTOFF
from baco_like.benchmarking.studies import Contender, RunBudget
from baco_like.benchmarking.studies.contenders import do_run, read_contender
from baco_like.benchmarking.studies.optuna_samplers import OptunaSampler
from baco_like.benchmarking.studies.parallel import run_parallel
from baco_like.benchmarking.studies.plots import joined_groups
from baco_like.benchmarking.studies.report import TITLES
from baco_like.benchmarking.studies.results_table import (
    COLUMNS,
    StudyFigures,
    clock,
    compute_figures,
    curves_of,
    cutoff_of,
    final_costs,
)
from baco_like.benchmarking.studies.runs import RunJob, StrategyRun, budget_on
from baco_like.benchmarking.studies.statistics import (
    LEVEL,
    compare_pairs,
    interval,
    mean_interval,
    mean_ranks,
)
from baco_like.benchmarking.studies.store import RunStore, run_missing
from baco_like.cli import main
from baco_like.exceptions import FailureWarning, JournalError
from baco_like.running.progress import Display
from baco_like.strategies import Auto, Bayesian, RandomSearch, plain

RANDOM = Contender("random", "random_search")
LISTED = Contender("listed", "exhaustive")

PROBLEM = """
from dataclasses import dataclass

from baco_like import Infeasible, Integer, Space
from baco_like.benchmarking.problems import problem
from baco_like.records import Proposal

@problem({"x": Integer(0, 20), "y": Integer(0, 20)}, optimum=0.0)
def bowl(config):
    if config["x"] > 17:
        raise Infeasible("too wide", "compile")
    return (config["x"] - 3) ** 2 + config["y"]

def height(config):
    return None if config["a"] == 2 else config["a"]

height.space = Space({"a": [1, 2, 3]})
height.direction = "maximize"

@dataclass(frozen=True)
class Last:
    # Proposes the last configurations in a fixed order, after an offset.

    offset: int = 0

    def init(self, problem, rng):
        return None

    def ask(self, problem, history, state, n, rng):
        rows = problem.space.feasible.listed[::-1][self.offset:]
        free = [row for row in rows if not problem.is_excluded(history, row[None])[0]]
        return [Proposal(row, {"offset": self.offset}) for row in free[:n]]

    def tell(self, problem, state, observation, rng):
        return state

class Cycle:
    # A foreign tool: it repeats itself, and leaves the space.

    def __init__(self, problem, seed, evaluations, step=1):
        self.count, self.step, self.told = seed, step, []

    def ask(self):
        self.count += self.step
        return {"x": self.count // 2, "y": 0}

    def tell(self, config, value):
        self.told.append((config["x"], value))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_study_problems.py").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    yield "own_study_problems"
    sys.modules.pop("own_study_problems", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spaces")
    (root / "one.json").write_text(json.dumps(t4()))
    with gzip.open(root / "two.json.gz", "wt") as file:
        json.dump(t4(30, 3.0), file)
    return root


@pytest.fixture(scope="module")
def recorded(folder: Path) -> list[RecordedProblem]:
    return find_recorded(folder, "minimize")[0]


@pytest.fixture(scope="module")
def one(recorded: list[RecordedProblem]) -> RecordedProblem:
    return recorded[0]


def own(function: Any, name: str = "own", **settings: Any) -> problems.FunctionProblem:
    return problems.FunctionProblem(name, Space({"a": [1, 2, 3]}), function, **settings)


# Runs


def test_a_run_evaluates_the_suggestions_of_its_strategy(one: RecordedProblem) -> None:
    found = do_run(RunJob(one, LISTED, 0, RunBudget(30)))
    order = [one.row(config) for config in one.space.decode(one.space.feasible.listed)]
    assert found.rows is not None
    assert found.rows.tolist() == order[:30]
    np.testing.assert_array_equal(found.costs, one.costs[order[:30]])
    assert found.cpu > 0


@pytest.mark.parametrize(
    ("seconds", "count"), [(0.0, 5), (6.0, None), (1e9, 15)]
)  # a run that its time never ends has three times its evaluations
def test_a_run_continues_until_its_time_is_spent(
    one: RecordedProblem, seconds: float, count: int | None
) -> None:
    rows = do_run(RunJob(one, RANDOM, 1, RunBudget(5, seconds))).rows
    assert rows is not None
    times = np.cumsum(one.seconds[rows])
    assert len(rows) == count if count else times[-1] >= seconds > times[-2]
    everything = do_run(RunJob(one, RANDOM, 1, RunBudget(1000))).rows
    assert everything is not None
    assert everything[: len(rows)].tolist() == rows.tolist()
    assert len(everything) == len(set(everything.tolist())) == 76  # it ends with the space


def test_the_seed_decides_a_run_and_its_draws(one: RecordedProblem) -> None:
    a, b, c = (do_run(RunJob(one, RANDOM, seed, RunBudget(40), draw=True)) for seed in (1, 1, 2))
    assert a.rows is not None
    assert b.rows is not None
    assert c.rows is not None
    assert a.rows.tolist() == b.rows.tolist() != c.rows.tolist()
    np.testing.assert_array_equal(a.costs, b.costs)
    for row, cost in zip(a.rows.tolist(), a.costs.tolist(), strict=True):
        entry = one.entries[row]
        assert np.isnan(cost) if entry.value is None else cost in entry.repeats
    assert (a.costs != one.costs[a.rows])[np.isfinite(a.costs)].any()


def test_configurations_outside_the_table_are_failures(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(t4(3)))
    space = Space({"x": list(range(9)), "y": [1, 2]})
    (tmp_path / "t.space.json").write_text(json.dumps(space.to_dict()))
    (small,), _ = find_recorded(tmp_path, "minimize")
    found = do_run(RunJob(small, RANDOM, 0, RunBudget(18)))
    assert found.rows is not None
    assert (found.rows == OUTSIDE).sum() == 12
    (curve,) = curves_of([found], small)
    first = int(np.argmax(np.isfinite(small.costs[found.rows])))
    assert np.isnan(curve[:first]).all()
    assert np.isfinite(curve[first:]).all()


def test_the_budget_is_the_methodologys(one: RecordedProblem) -> None:
    last = one.baseline.evaluations()[1]
    assert budget_on(one, None) == RunBudget(last, one.baseline.time_range()[1])
    assert budget_on(one, 7) == RunBudget(7)
    assert budget_on(problems.load_problem("branin"), None) == RunBudget(60)


def test_samplers_of_optuna_take_part(one: RecordedProblem) -> None:
    optuna = pytest.importorskip("optuna")
    parameters = {"x": Real(0, 1), "n": Integer(1, 8), "k": [1, 2, 4]}
    space = Space({**parameters, "p": Permutation(list("abc")), "one": [7]}, ["n % k == 0"])
    seen = []

    def value(config: Any) -> Any:
        assert space.contains(config)
        seen.append(config)
        return None if config["p"][0] == "c" else config["x"] + config["n"]

    before = optuna.logging.get_verbosity()
    problem = problems.FunctionProblem("own", space, value)
    random = Contender("random", "optuna:RandomSampler")
    result = study(["optuna:TPESampler", random], [problem, one], 1, 8)
    assert [len(run.costs) for run in result.runs] == [8] * 4
    assert len(seen) == 16
    assert optuna.logging.get_verbosity() == before
    assert set(result.figures.evaluations) == {"optuna:TPESampler", "random"}
    conditional = study([random], ["conditional_kernel", "conditional_nested"], 1, 15)
    assert [len(run.costs) for run in conditional.runs] == [15, 15]
    defaults = {"x": Real(0, 1, default=0.25), "n": Integer(1, 8, default=3)}
    order = Permutation(list("abcd"), default=list("cadb"))
    kinds = Categorical([1, "a", True], default="a")
    told = Space({**defaults, "p": order, "k": kinds, "one": [7]})
    problem = problems.FunctionProblem("told", told, lambda c: c["x"])
    tool = OptunaSampler("optuna:TPESampler", {}, problem, 0, 5)
    assert tool.ask() == told.default_config
    assert told.default_config["p"] == tuple("cadb")
    (asked,) = study(["optuna:TPESampler"], [problem], 1, 5).runs
    assert asked.log[0]["config"] == told.default_config
    assert len(asked.costs) == 5
    assert len({str(entry["config"]) for entry in asked.log}) == 5
    with pytest.raises(StrategyError, match="did you mean optuna:TPESampler"):
        study(["optuna:TPSampler"], [problem])


# The store


def specification(**changes: Any) -> dict[str, Any]:
    parts = {
        "common": {"draw": False},
        "problems": {"s": {"digest": "00", "evaluations": 5, "seconds": 0.0}},
        "contenders": {"a": {"strategy": "random_search", "settings": {}}},
    }
    return {**parts, **changes}


def finished(seed: int, full: bool = False) -> StrategyRun:
    run = StrategyRun("s", "a", seed, np.array([1.5, np.nan]), 0.25)
    if not full:
        return run
    return replace(run, rows=np.array([3, OUTSIDE]), budget=2)


@pytest.mark.parametrize("full", [False, True])
def test_stored_runs_are_read_back(tmp_path: Path, full: bool) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore.open(path, specification())
    for seed in range(3):
        store.add(finished(seed, full))
    again = RunStore.open(path, specification())
    assert list(again.runs) == [("s", "a", seed) for seed in range(3)]
    for key, run in again.runs.items():
        assert (run.key, run.cpu) == (key, 0.25)
        np.testing.assert_array_equal(run.costs, [1.5, np.nan])
        np.testing.assert_array_equal(run.rows, [3, OUTSIDE] if full else None)
        assert run.budget == (2 if full else None)


def test_torn_records_are_run_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore.open(path, specification())
    store.add(finished(0))
    whole = path.read_bytes()
    store.add(finished(1))
    for cut in (len(whole) + 1, len(path.read_bytes()) - 3):
        path.write_bytes(path.read_bytes()[:cut])
        again = RunStore.open(path, specification())
        assert list(again.runs) == [("s", "a", 0)]
        again.add(finished(1))
        assert path.read_bytes().startswith(whole)
        assert len(RunStore.open(path, specification()).runs) == 2


def test_a_store_can_be_extended_but_not_contradicted(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    RunStore.open(path, specification()).add(finished(0))
    more = {"b": {"strategy": "exhaustive", "settings": {}}}
    assert RunStore.open(path, specification(contenders=more)).runs
    before = path.read_bytes()
    other = {"b": {"strategy": "exhaustive", "settings": {"x": 1}}}
    for change, message in [
        ({"common": {"draw": True}}, "draw = False, now it is True"),
        (
            {"problems": {"s": {"digest": "01", "evaluations": 5, "seconds": 0.0}}},
            "problem s: digest = '00', now it is '01'",
        ),
        (
            {"problems": {"s": {"digest": "00", "evaluations": 4, "seconds": 0.0}}},
            "problem s: evaluations = 5, now it is 4",
        ),
        ({"contenders": other}, "strategy b: settings: x = None, now it is 1"),
    ]:
        with pytest.raises(JournalError, match=message):
            RunStore.open(path, specification(**change))
        assert path.read_bytes() == before


def test_another_journal_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Optimizer(Space({"a": [1, 2]}), strategy="random_search", storage=path).suggest()
    before = path.read_bytes()
    with pytest.raises(JournalError, match="no runs of a study"):
        RunStore.open(path, specification())
    assert path.read_bytes() == before


def test_only_missing_runs_are_run(tmp_path: Path, recorded: list[RecordedProblem]) -> None:
    path, stream = tmp_path / "runs.jsonl", io.StringIO()
    jobs = [
        RunJob(problem, contender, seed, RunBudget(6))
        for seed in range(3)
        for problem in recorded
        for contender in (RANDOM, LISTED)
    ]
    spec = {"common": {}, "problems": {}, "contenders": {}}
    before = run_missing(jobs, RunStore.open(path, spec), 1, stream)
    assert "12/12  " in stream.getvalue()
    path.write_bytes(path.read_bytes()[:-20])  # ten runs and a torn one
    worked, stream = [], io.StringIO()

    def work(job: RunJob) -> StrategyRun:
        worked.append(job.key)
        return do_run(job)

    again = run_missing(jobs, RunStore.open(path, spec), 1, stream, work)
    assert worked == [jobs[-1].key]
    assert [run.key for run in again] == [run.key for run in before] == [job.key for job in jobs]
    for a, b in zip(again, before, strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
    stream = io.StringIO()
    assert len(run_missing(jobs[:4], RunStore.open(path, spec), 1, stream)) == 4
    assert stream.getvalue() == ""


def fail_for_seed_one(job: RunJob) -> StrategyRun:
    if job.seed != 1:
        return do_run(job)
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
def test_an_error_in_a_run_names_the_run(
    tmp_path: Path, name: str, kind: type[Exception], message: str
) -> None:
    store = RunStore.open(tmp_path / "runs.jsonl", specification())
    jobs = [RunJob(own(len, name), LISTED, seed, RunBudget(3)) for seed in (0, 1)]
    where = f"strategy 'listed' on problem '{name}' with seed 1: {message}"
    with pytest.raises(kind, match=where) as caught:
        run_missing(jobs, store, 1, io.StringIO(), fail_for_seed_one)
    copy = pickle.loads(pickle.dumps(caught.value))  # as another process sends it
    assert str(copy) == str(caught.value)
    assert list(store.runs) == [jobs[0].key]  # the finished run is kept


def test_an_error_in_a_process_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(run_parallel(partial(divmod, 1), [1, 0, 2], 2))


# Studies


def test_a_study_returns_every_evaluation(module: str) -> None:
    result = study(["random_search", "exhaustive"], [f"{module}:bowl", f"{module}:height"], 3, 8)
    frame = result.to_dataframe()
    bowl = frame[(frame.problem == "bowl") & (frame.strategy == "random_search")]
    assert bowl.groupby("seed").size().tolist() == [8, 8, 8]
    for _, run in bowl.groupby("seed"):
        assert run.evaluation.tolist() == list(range(1, 9))
        assert run.best.tolist() == np.fmin.accumulate(run.value.to_numpy()).tolist()
        assert run.regret.equals(run.best)  # the optimum is 0
    height = frame[(frame.problem == "height") & (frame.seed == 0)]
    # The space has three configurations.
    assert height.groupby("strategy").size().tolist() == [3, 3]
    assert set(height.status) == {"ok", "runtime"}
    assert height.value.isna().sum() == 2
    assert (height.groupby("strategy").best.last() == 3).all()
    assert height.regret.isna().all()
    assert set(height.direction) == {"maximize"}
    assert frame.groupby("problem").optimum.first().isna().to_dict() == {
        "bowl": False,
        "height": True,
    }


def test_a_study_continues_and_contradictions_are_errors(
    module: str, one: RecordedProblem, tmp_path: Path
) -> None:
    path, given = tmp_path / "runs.jsonl", [f"{module}:bowl", one]
    first = study(["random_search"], given, 2, 5, path=path).to_dataframe()
    before = path.read_bytes()
    assert study(["random_search"], given, 2, 5, path=path).to_dataframe().equals(first)
    assert path.read_bytes() == before
    more = study(["random_search"], given, 3, 5, path=path).to_dataframe()
    assert more[more.seed < 2].reset_index(drop=True).equals(first)
    with pytest.raises(JournalError, match="evaluations = 5, now it is 4"):
        study(["random_search"], given, 2, 4, path=path)


def test_processes_give_the_same_results(module: str, one: RecordedProblem) -> None:
    given = (["random_search"], [f"{module}:bowl", "tour_8", one], 2, 4)
    columns = ["problem", "seed", "value"]
    alone, together = (study(*given, processes=n).to_dataframe()[columns] for n in (1, 2))
    assert together.equals(alone)


def test_a_frame_survives_files_and_concatenation(module: str, one: RecordedProblem) -> None:
    pandas = pytest.importorskip("pandas")
    given = [f"{module}:bowl", f"{module}:height", "tour_8", one]
    frame = study(["auto", f"{module}:Last:offset=1"], given, 1, 9).to_dataframe()
    text = io.StringIO(frame.to_csv(index=False))
    pandas.testing.assert_frame_equal(pandas.read_csv(text), frame, check_exact=True)
    parts = [rows for _, rows in frame.groupby("problem", sort=False)]
    pandas.testing.assert_frame_equal(pandas.concat(parts), frame)
    pytest.importorskip("pyarrow")
    file = io.BytesIO(frame.to_parquet())
    pandas.testing.assert_frame_equal(pandas.read_parquet(file), frame)
    # The cells agree with the problems.
    for _, row in frame.iterrows():
        config = json.loads(row.configuration)
        if row.problem == "bowl":
            failed = config["x"] > 17
            assert row.status == ("compile" if failed else "ok")
            assert failed or row.value == (config["x"] - 3) ** 2 + config["y"]
            assert json.loads(row.repeats) == ([] if failed else [row.value])
        if row.problem == "one":
            entry = one.entries[one.row(config)]
            assert row.status == (entry.failed or "ok")
            assert json.loads(row.repeats) == list(entry.repeats)
            assert row.evaluation_seconds == one.seconds[one.row(config)]
    tags = frame[(frame.strategy != "auto") & (frame.problem == "bowl")].tag
    assert set(map(str, tags)) == {'{"offset": 1}'}
    assert (frame.suggestion_seconds >= 0).all()
    assert (frame[frame.problem == "tour_8"].evaluation_seconds >= 0).all()


# Own parts


class Flat:
    """A surrogate that cannot predict for no configuration, as many packages."""

    def fit(self, space: Any, data: Any, rng: Any, start: Any = None) -> Any:
        mean = float(np.mean(data.y))

        class Fitted:
            hyperparameters: ClassVar[dict[str, Any]] = {}

            def predict(self, codes: Any) -> Any:
                assert len(codes) > 0
                return np.full(len(codes), mean), np.ones(len(codes))

        return Fitted()


class Middle:
    """An acquisition function that prefers configurations near the middle."""

    def bind(self, model: Any, incumbent: float, rng: Any) -> Any:
        return lambda codes: -np.abs(codes - 10).sum(axis=1) + model.predict(codes)[0]


def test_own_parts_take_part(module: str) -> None:
    sys.path.insert(0, ".")
    Last = importlib.import_module(module).Last
    sys.path.pop(0)
    mine = Bayesian(Flat(), acquisition=Middle())
    name = f"{module}:Last:offset=2"
    given = [
        "exhaustive",
        Last,
        Last(3),
        name,
        f"two={name}",
        mine,
        Contender("own", Last, {"offset": 2}),
    ]
    result = study(given, [f"{module}:bowl"], 2, 6)
    assert result.figures.labels == [
        *("exhaustive", "Last", "Last(offset=3)", name, "two"),
        *("Bayesian(surrogate=Flat, acquisition=Middle)", "own"),
    ]
    costs = {run.label: run.costs.tolist() for run in result.runs if run.seed == 1}
    ys = {label: [None if math.isnan(c) else c for c in own] for label, own in costs.items()}
    assert ys["Last"] == [None] * 6
    assert ys["own"] == ys["two"] == ys[name] == [None] * 6
    frame = result.to_dataframe()
    first = frame[(frame.strategy == "Last(offset=3)") & (frame.evaluation == 1)].configuration
    assert {json.loads(text)["y"] for text in first} == {17}
    assert json.loads(frame[frame.strategy.str.startswith("Bayes")].configuration.iloc[-1])
    with pytest.raises(StrategyError, match="'Last' appears twice"):
        study([Last, Last()], [f"{module}:bowl"], 1, 2)
    with pytest.warns(FailureWarning, match="'bowl': all evaluations failed, .* compile: too wide"):
        by_label = study({"a": Last, "b": Last()}, [f"{module}:bowl"], 1, 2)
    assert by_label.figures.labels == ["a", "b"]


def test_parts_of_the_default_can_be_replaced(module: str) -> None:
    given = {
        "auto": "auto",
        "plain": Auto(parts={"view": plain, "failed_as": None}),
        "own": Auto(surrogate=Flat(), parts={"acquisition": Middle()}),
    }
    result = study(given, [f"{module}:bowl", "wide_0"], 1, 14)
    costs = {run.label: run.costs.tolist() for run in result.runs if run.problem == "bowl"}
    assert costs["auto"] != costs["plain"] != costs["own"] != costs["auto"]
    last = next(run for run in result.runs if run.label == "own").log[-1]["config"]
    assert abs(last["x"] - 10) + abs(last["y"] - 10) < 4  # as its acquisition function prefers
    with pytest.raises(ValueError, match="parts has 'acquisitions'; its names are acquisition"):
        Auto(parts={"acquisitions": Middle()})


def test_a_foreign_tool_takes_part(module: str) -> None:
    asked = study([f"{module}:Cycle", f"{module}:Cycle:step=2"], [f"{module}:bowl"], 1, 30)
    one, two = asked.runs
    # Repeated configurations and those outside the space are answered, but not evaluated.
    assert [entry["config"]["x"] for entry in one.log] == list(range(21))
    assert [entry["config"]["x"] for entry in two.log] == list(range(1, 21))
    assert asked.figures.row(f"{module}:Cycle", "bowl")["failures"] == pytest.approx(3 / 21)
    told = []

    class Tool:
        def __init__(self, problem: Any, seed: int, evaluations: int) -> None:
            self.configs = iter([{"a": 2}, {"a": 9}, {"a": 1}, {"a": 2}, {"a": 3}])

        def ask(self) -> Any:
            return next(self.configs)

        def tell(self, config: Any, value: float | None) -> None:
            told.append((config["a"], value))

    study([Tool], [own(lambda c: None if c["a"] == 1 else c["a"])], 1, 3)
    assert told == [(2, 2.0), (9, None), (1, None), (2, 2.0), (3, 3.0)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "is 3; give a name, a class or an object with init, ask and tell"),
        (Contender("x", Flat(), {}), "'x' is .*Flat object"),
        (
            Contender("x", RandomSearch(), {"a": 1}),
            r"the settings \{'a': 1\}; set them on the object",
        ),
        ("no_such_module:Thing", "cannot import 'no_such_module'"),
        ("own_study_problems:Thing", "has no 'Thing'"),
        ("own_study_problems:Last:ofset=1", "unexpected keyword argument 'ofset'"),
    ],
)
def test_what_cannot_take_part_is_explained(module: str, given: Any, message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        study([given], [f"{module}:bowl"], 1, 2)


def test_what_other_processes_cannot_get_is_explained() -> None:
    with pytest.raises(
        StrategyError, match=r"cannot be sent to another process.*define it in a mod"
    ):
        study(["random_search"], [own(lambda c: c["a"])], 2, 2, processes=2)


def test_own_parts_run_in_other_processes(module: str) -> None:
    given = [f"{module}:Last", f"label={module}:Cycle:step=2"], [f"{module}:bowl"], 2, 3
    alone, together = (study(*given, processes=n) for n in (1, 2))
    values = [
        result.to_dataframe().drop(columns="suggestion_seconds") for result in (alone, together)
    ]
    values = [frame.drop(columns="evaluation_seconds") for frame in values]
    assert values[0].equals(values[1])


# Changes that a file must notice


def test_an_error_of_the_program_ends_a_study_as_it_ends_tune() -> None:
    problem = own(lambda c: c["a"] if c["a"] < 3 else c["b"])
    with pytest.raises(RuntimeError, match="with seed 0: KeyError: 'b'"):
        study(["exhaustive"], [problem], 1, 3)
    with pytest.raises(KeyError):
        tune(problem, problem.space, MaxEvals(3), strategy="exhaustive", progress=False)
    result = study(["exhaustive"], [own(lambda c: None if c["a"] < 3 else 1.0)], 1, 3)
    with pytest.warns(BacoWarning):
        tuned = tune(
            lambda c: None if c["a"] < 3 else 1.0, problem.space, MaxEvals(3), progress=False
        )
    assert sorted(trial.failure or "ok" for trial in tuned.trials) == sorted(
        result.to_dataframe().status
    )


CODE = """
from baco_like import Space
TABLE = {1: 1.0, 2: 2.0, 3: 3.0}
def helper(a):
    return TABLE[a]
def f(config):
    # a comment
    return helper(config["a"])
f.space = Space({"a": [1, 2, 3]})
class Ask:
    def __init__(self, problem, seed, evaluations):
        self.at = 0
    def ask(self):
        self.at = self.at % 3 + 1
        return {"a": self.at}
    def tell(self, config, value):
        pass
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# a comment", "# another comment", ""),
        ("return helper(config", "return  helper( config", ""),
        ('helper(config["a"])', 'helper(config["a"]) * 2', "problem f: code = '"),
        ("3: 3.0", "3: 4.0", "3.0 as the value of problem 'f' at {'a': 3}, now it is 4.0"),
        ("TABLE[a]", "None if a == 3 else TABLE[a]", "at {'a': 3}, now it is None"),
        ("TABLE[a]", "TABLE[a] + __import__('random').random()", ""),  # it is noisy
        ("% 3 + 1", "% 2 + 1", "strategy Ask: strategy: code = '"),
    ],
)
def test_a_changed_function_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(code: str) -> list[float]:
        Path("changing.py").write_text(code)
        sys.modules.pop("changing", None)
        importlib.invalidate_caches()
        found = problems.load_problem("changing:f")
        result = study([sys.modules["changing"].Ask], [found], 1, 3, path="runs.jsonl")
        return result.runs[0].costs.tolist()

    assert old in CODE
    first = run(CODE)
    if message:
        with pytest.raises(JournalError, match=re.escape(message)):
            run(CODE.replace(old, new))
    else:
        assert run(CODE.replace(old, new)) == first
    sys.modules.pop("changing")


def test_contenders_have_settings_as_on_the_command_line() -> None:
    text = "kernel_tuner_bo:acquisition=ei:initial=5"
    settings = {"acquisition": "ei", "initial": 5}
    assert read_contender(text) == Contender(text, "kernel_tuner_bo", settings)
    assert read_contender(f"short={text}") == Contender("short", "kernel_tuner_bo", settings)
    with pytest.raises(StrategyError, match=r"'population' in .* needs the form name=value"):
        study(["genetic_algorithm:population"], ["branin"])


def test_a_wrong_call_is_explained() -> None:
    problem = own(lambda c: c["a"])
    with pytest.raises(StrategyError, match=r"strategies = 'auto': expected a list"):
        study("auto", [problem])
    for single in ("branin", problem):
        with pytest.raises(StrategyError, match=r"problems = .*: expected a list"):
            study(["auto"], single)  # type: ignore[arg-type]
    with pytest.raises(StrategyError, match="problem 'own' appears twice"):
        study(["auto"], [problem, problem])
    with pytest.raises(ValueError, match="evaluations = 0: expected at least one"):
        study(["auto"], [problem], 1, 0)
    with pytest.raises(StrategyError, match="recorded repeats, which 'own' does not have"):
        study(["auto"], [problem], draw=True)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_an_optimum_that_is_beaten_gives_a_warning(direction: Any) -> None:
    problem = own(lambda c: c["a"], direction=direction, optimum=2.0)
    with pytest.warns(BacoWarning, match="is better than optimum = 2, so") as caught:
        result = study(["exhaustive"], [problem], 1, 3)
    assert caught[0].filename == __file__
    assert result.to_dataframe().regret.min() == -1.0


# Figures


def test_the_blocks_of_ranks_are_problems(module: str) -> None:
    names = ["random_search", "exhaustive", "genetic_algorithm"]
    given = [f"{module}:bowl", "tour_8", "branin_order"]
    result = study(["random_search", "genetic_algorithm"], given, 4, 6)
    frame = result.to_dataframe().sort_values(["problem", "seed", "evaluation"])
    ends = frame.groupby(["problem", "seed", "strategy"], sort=False).best.last().unstack()
    expected = rankdata(ends.groupby("problem").mean().to_numpy(), axis=1).mean(axis=0)
    found = result.figures.ranks
    assert found is not None
    assert [found.ranks[name] for name in ends.columns] == pytest.approx(expected.tolist())
    assert found.blocks == 3
    # Three problems cannot show a difference, whatever the ranks are.
    assert found.critical_difference >= 1
    assert found.p_value > 0.2
    one = study(names, [f"{module}:bowl"], 4, 6).figures.ranks
    assert one is not None
    assert one.critical_difference >= 2


def test_ranks_agree_with_published_values() -> None:
    # Demsar 2006, Table 6: four classifiers on 14 data sets, two of them equal only when rounded.
    table = np.array(
        [
            *([0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569]),
            *([0.954, 0.971, 0.968, 0.967], [0.628, 0.661, 0.654, 0.657]),
            *([0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931]),
            *([0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625]),
            *([0.775, 0.838, 0.866, 0.875], [1.000, 1.000, 1.000, 1.000]),
            *([0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669]),
            *([0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970]),
        ]
    )
    found = mean_ranks(["C4.5", "+m", "+cf", "+m+cf"], -table)
    assert found is not None
    assert {k: round(v, 3) for k, v in found.ranks.items()} == {
        **{"+m+cf": 1.964, "+m": 2.0, "+cf": 2.893, "C4.5": 3.143}
    }
    assert found.p_value == pytest.approx(friedmanchisquare(*table.T).pvalue, abs=0.005)
    assert found.critical_difference == pytest.approx(1.25, abs=0.09)  # with the ties of this table


@pytest.mark.parametrize(("runs", "ties"), [(2, False), (5, False), (7, True), (12, True)])
def test_pairs_agree_with_scipy(runs: int, ties: bool) -> None:
    rng = np.random.default_rng(runs)
    costs = [rng.normal(shift, 1, runs).round(0 if ties else 9) for shift in (0.0, 0.5, 3.0)]
    found = compare_pairs(costs)
    raw = {}
    for i, j in ((0, 1), (0, 2), (1, 2)):
        test = mannwhitneyu(costs[i], costs[j])
        assert found.effects[i, j] == pytest.approx(1 - test.statistic / runs**2)
        raw[i, j] = test.pvalue
    assert found.effects.trace() == 1.5
    smallest, middle, largest = sorted(raw, key=lambda pair: raw[pair])
    holm = [3 * raw[smallest]]
    holm.append(max(holm[0], 2 * raw[middle]))
    holm.append(max(holm[1], raw[largest]))
    for pair, expected in zip((smallest, middle, largest), holm, strict=True):
        if ties and runs < 8:  # exact instead of an approximation
            assert found.p_values[pair] == pytest.approx(min(1, expected), abs=0.12)
        else:
            assert found.p_values[pair] == pytest.approx(min(1, expected))
    assert (found.p_values == found.p_values.T).all()
    assert found.wins.tolist() == [
        [bool(found.p_values[i, j] < 0.05 and i < j) for j in range(3)] for i in range(3)
    ]
    assert found.wins.any() == (runs > 4)  # two runs cannot differ significantly


def test_ties_are_not_significant_too_early() -> None:
    # The normal approximation says p = 0.047; 2 of 20 permutations are so extreme.
    assert compare_pairs([np.ones(3), np.full(3, 2.0)]).p_values[0, 1] == pytest.approx(0.1)
    assert compare_pairs([np.ones(9), np.ones(9)]).p_values[0, 1] == 1.0


def test_without_ties_the_p_value_is_exact() -> None:
    runs = np.arange(10.0)
    assert compare_pairs([runs, runs + 100]).p_values[0, 1] == pytest.approx(2 / math.comb(20, 10))


def test_the_order_of_strategies_changes_no_test() -> None:
    for row in ([1, 2, 5, 3, 4], [5, 4, 3, 2, 1]):
        one, other = (mean_ranks(list("abcde"), [own] * 2) for own in ([1, 2, 3, 4, 5], row))
        assert one.critical_difference == other.critical_difference
        assert one.p_value == other.p_value


def test_an_interval_depends_little_on_the_draws_and_stays_in_the_range_of_the_runs() -> None:
    values = np.array([0.413, 0.429, 0.62, 0.954, 0.991, 1.162, 2.022, 12.4, 15.08, 18.18])
    ends = [mean_interval(values, np.random.default_rng(seed)) for seed in range(20)]
    assert np.ptp(ends, axis=0) == pytest.approx([0, 0], abs=0.3)
    assert max(high for _, high in ends) <= values.max()


def test_intervals_need_ten_runs_and_cover() -> None:
    rng = np.random.default_rng(1)
    assert np.isnan(mean_interval(rng.random(9), rng)).all()
    assert np.isnan(interval(np.ones((50, 3)), 9)).all()
    assert mean_interval(np.full(10, 2.0), rng).tolist() == [2.0, 2.0]
    assert np.isnan(
        mean_interval(np.full(10, np.nan), rng)
    ).all()  # the regret of an unknown optimum
    hits = {"mean": 0, "median": 0}
    for _ in range(300):
        sample = rng.exponential(size=10)
        low, high = mean_interval(sample, rng)
        hits["mean"] += low <= 1.0 <= high
        drawn = np.median(sample[rng.integers(10, size=(400, 10))], axis=1)
        low, high = interval(drawn, 10)
        hits["median"] += low <= math.log(2) <= high
    assert all(275 <= count <= 297 for count in hits.values()), hits  # 95 % of 300 is 285


def test_a_run_without_success_has_the_worst_value() -> None:
    problem = problems.FunctionProblem(
        "odd",
        Space({"a": list(range(1, 9))}),
        lambda c: None if c["a"] % 2 else float(c["a"]),
        "maximize",
        8.0,
    )
    result = study(["exhaustive", "random_search"], [problem], 12, 1)
    frame = result.to_dataframe()
    worst = frame["value"].min()
    assert frame.best.isna().any()
    for name, runs in frame.groupby("strategy"):
        row, best = result.figures.row(name, "odd"), runs.best.fillna(worst)
        assert row["mean"] == pytest.approx(best.mean())
        assert row["median_low"] <= row["median"] == best.median() <= row["median_high"]
        assert row["regret"] == pytest.approx(8 - best.mean())
        assert row["failures"] == runs.value.isna().mean()


def test_tables_and_plots_without_any_success(tmp_path: Path) -> None:
    names = ["exhaustive", "random_search", "genetic_algorithm"]
    equal = study(names, [own(lambda c: 1.0)], 1, 3).figures.ranks
    assert equal is not None
    assert set(equal.ranks.values()) == {2.0}
    with pytest.warns(FailureWarning, match="all evaluations failed"):
        result = study(names, [own(lambda c: None)], 2, 3)
    assert "| exhaustive | 100% |" in studies.to_markdown(result.figures)
    assert result.figures.ranks is None
    pytest.importorskip("matplotlib")
    studies.save_figures(result, tmp_path, ["png"])


def test_with_noise_the_cost_is_the_recorded_cost_of_the_incumbent(one: RecordedProblem) -> None:
    ok = [row for row, entry in enumerate(one.entries) if entry.value is not None][:3]
    failing = next(row for row, entry in enumerate(one.entries) if entry.value is None)
    rows = np.array([failing, ok[0], ok[1], ok[1], ok[2], ok[0]])
    drawn = np.array([np.nan, 5.0, 4.0, 8.0, 7.0, 9.0])  # means: 5; 5, 4; 5, 6; 5, 6, 7; 7, 6, 7
    long = StrategyRun("one", "a", 0, drawn, 0.0, rows)
    short = replace(long, seed=1, rows=rows[:3], costs=drawn[:3])
    a, b = one.costs[ok[0]], one.costs[ok[1]]
    np.testing.assert_array_equal(
        curves_of([long, short], one), [[np.nan, a, b, a, a, b], [np.nan, a, b, b, b, b]]
    )


def runs_of(recorded: list[RecordedProblem], label: str, best_first: bool) -> list[StrategyRun]:
    """Return runs that see the table's costs in ascending or in descending order."""
    found = []
    for problem in recorded:
        order = np.argsort(problem.costs[:-1])[: len(problem.baseline.costs)]
        order = order if best_first else order[::-1]
        count = budget_on(problem, None).evaluations
        for seed in range(10):
            rows = np.concatenate([order[:1], np.roll(order[1:], -seed)])[:count]
            found.append(StrategyRun(problem.name, label, seed, problem.costs[rows], 0.01, rows))
    return found


@pytest.fixture(scope="module")
def figures(recorded: list[RecordedProblem]) -> StudyFigures:
    runs = runs_of(recorded, "worst", False) + runs_of(recorded, "best", True)
    budgets = {problem.name: budget_on(problem, None).evaluations for problem in recorded}
    return compute_figures(runs, recorded, budgets)


def test_finding_the_optimum_at_once_scores_1_and_the_worst_below_0(
    figures: StudyFigures,
) -> None:
    for standings in (figures.evaluations, figures.time):
        assert standings["best"].score > 0.9
        assert standings["worst"].score < 0 < standings["best"].low <= standings["best"].score
        for each in standings.values():
            assert each.low <= each.high
            assert (each.band[0] <= each.band[1]).all()
            assert each.score == pytest.approx(np.mean(list(each.by_problem.values())))
    assert figures.wins.tolist() == [[0, 0], [2, 0]]
    assert figures.ranks is not None
    assert figures.ranks.ranks == {"best": 1.0, "worst": 2.0}


def test_the_table_has_every_figure(figures: StudyFigures, recorded: list[RecordedProblem]) -> None:
    text = studies.to_markdown(figures)
    assert text.index("| best |") < text.index("| worst |")
    assert f"{figures.evaluations['best'].score:.3f} (" in text
    lines = list(csv.DictReader(studies.to_csv(figures).splitlines()))
    assert list(lines[0]) == list(COLUMNS)
    # The report has each of these columns, except those that name a row and the ends of intervals.
    ends = [name for name in COLUMNS if name.endswith(("_low", "_high"))]
    assert {*TITLES, "strategy", "problem", "runs", "budget"} == {*COLUMNS} - {*ends}
    assert [(line["strategy"], line["problem"]) for line in lines] == [
        (label, problem) for label in ("worst", "best") for problem in ("one", "two", "all")
    ]
    worst, best = (figures.row(label) for label in ("worst", "best"))
    assert float(lines[5]["score_evaluations"]) == best["score_evaluations"]
    assert float(lines[5]["score_time_low"]) == figures.time["best"].low
    assert (best["wins"], best["losses"], worst["wins"], worst["losses"]) == (2, 0, 0, 2)
    assert best["fraction_of_optimum"] == 1.0
    runs = [run for run in runs_of(recorded, "worst", False) if run.problem == "one"]
    optimum = recorded[0].baseline.optimum
    expected = np.mean([optimum / np.nanmin(run.costs) for run in runs])
    assert figures.row("worst", "one")["fraction_of_optimum"] == pytest.approx(expected)
    assert figures.row("worst", "one")["mean"] == pytest.approx(
        np.mean([run.costs.min() for run in runs])
    )


def test_the_best_and_the_not_worse_are_bold() -> None:
    names = ["exhaustive", "random_search", "a_50%=exhaustive"]
    problem = problems.FunctionProblem("x_1", Space({"a": list(range(40))}), lambda c: c["a"])
    figures = study(names, [problem], 10, 3).figures
    row = figures.row("random_search", "x_1")
    text = f"{row['mean']:.4g} ({row['mean_low']:.4g} to {row['mean_high']:.4g})"
    assert row["p_value"] < 1 - LEVEL
    assert row["effect"] < 0.5
    assert studies.to_latex(figures).splitlines() == [
        *(r"\begin{tabular}{lr}", r"\toprule", r" & x\_1 \\", r"\midrule"),
        *(r"exhaustive & \textbf{0 (0 to 0)} \\", rf"random\_search & {text} \\"),
        *(r"a\_50\% & \textbf{0 (0 to 0)} \\", r"\bottomrule", r"\end{tabular}"),
    ]
    assert "| exhaustive | **0 (0 to 0)** |" in studies.to_markdown(figures)
    assert f"| random_search | {text} |" in studies.to_markdown(figures)


def test_a_run_without_a_success_counts_as_the_worst(one: RecordedProblem) -> None:
    rows = np.full(3, OUTSIDE)
    curves = curves_of([StrategyRun("one", "a", 0, one.costs[rows], 0.0, rows)], one)
    assert final_costs(curves, 7.0, 3).tolist() == [7.0]


def test_the_clock_sums_the_recorded_times(one: RecordedProblem) -> None:
    runs = [
        StrategyRun("one", "a", s, one.costs[rows], 0.0, np.array(rows))
        for s, rows in enumerate([[0, 4, OUTSIDE], [7]])
    ]
    times = clock(runs, one)
    assert times[0] == pytest.approx([one.seconds[0], *[one.seconds[0] + one.seconds[4]] * 2])
    assert times[1, 0] == one.seconds[7]
    assert np.isnan(times[1, 1:]).all()


def test_a_budget_corresponds_to_a_cutoff(one: RecordedProblem) -> None:
    baseline = one.baseline
    assert cutoff_of(baseline, baseline.evaluations()[1]) == CUTOFF
    shares = [cutoff_of(baseline, n) for n in (1, 3, 6, 1000)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1.0
    for n in (3, 6):
        assert abs(baseline.evaluations(cutoff_of(baseline, n))[1] - n) <= 2


def test_joined_groups() -> None:
    ranks = np.array([1.0, 1.5, 2.4, 4.0])
    assert joined_groups(ranks, 1.0) == [(0, 1), (1, 2)]
    assert joined_groups(ranks, 0.1) == []
    assert joined_groups(ranks, 5.0) == [(0, 3)]


# The command


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("randm_search", "did you mean 'random_search'"),
        ("random_search:x=1", "no setting 'x'"),
        ("kernel_tuner_bo:initial", "needs the form name=value"),
        ("kernel_tuner_bo:acquisition=best", "is unknown"),
        ("random_search,random_search", "twice"),
        (",", "at least one"),
        ("random_search --repeats 1", "a whole number from 2"),
    ],
)
def test_a_wrong_argument_ends_before_anything_is_written(
    given: str, message: str, folder: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    words = [str(folder), "--strategies", *given.split(), "--out", str(out)]
    try:
        code = main(["compare", *words])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_without_recorded_spaces_ends_with_one_line(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    assert main(["compare", str(tmp_path), "--out", str(out)]) == 2
    assert "no recorded space" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_writes_all_files_and_continues(
    folder: Path, module: str, tmp_path: Path, capsys: Any, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    words = ["compare", "--strategies", "random_search,exhaustive", "--jobs", "1"]
    words += [str(folder), f"{module}:bowl", "--out", str(out), "--budget", "6"]
    assert main([*words, "--repeats", "2"]) == 0
    names = [*studies.FIGURES, "convergence-bowl", "convergence-one", "convergence-two"]
    plots = {f"{name}.png" for name in names}
    texts = {"runs.jsonl", "table.md", "table.tex", "figures.csv", "evaluations.csv"}
    assert {path.name for path in out.iterdir()} == texts | plots
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "table.md").read_text()
    assert "## bowl, 2 runs, 6 evaluations" in text
    assert text in capsys.readouterr().out
    kept = (out / "runs.jsonl").read_bytes()
    request.getfixturevalue("quick_figures")
    assert main([*words, "--repeats", "3"]) == 0
    assert (out / "runs.jsonl").read_bytes().startswith(kept)
    # The plan, the runs, and each evaluation of the function.
    assert len((out / "runs.jsonl").read_text().splitlines()) == 1 + 3 * 2 * 3 + 3 * 2 * 6
    assert main([*words[:-1], "5", "--repeats", "2"]) == 2
    assert "evaluations = 6, now it is 5" in capsys.readouterr().err


def test_a_budget_too_small_to_score_leaves_the_score_out(
    folder: Path, tmp_path: Path, capsys: Any, quick_figures: None
) -> None:
    words = ["compare", "--strategies", "random_search", str(folder / "one.json"), "--jobs", "1"]
    assert main([*words, "--repeats", "2", "--budget", "1", "--out", str(tmp_path)]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupted_study_continues(folder: Path, tmp_path: Path, quick_figures: None) -> None:
    """test_growing_studies.py kills one."""
    out = tmp_path / "out"
    words = ["--strategies", "random_search", str(folder), "--budget", "30"]
    words += ["--out", str(out), "--repeats"]
    command = [sys.executable, "-m", "baco_like", "compare", *words, "3000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        runs = out / "runs.jsonl"
        ends = time.monotonic() + 200
        while not (runs.exists() and runs.read_bytes().count(b"\n") > 8):
            assert time.monotonic() < ends
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        # The children close the pipe at their end, not before.
        said, _ = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "interrupted" in said
    kept = runs.read_bytes()
    assert main(["compare", *words, "2", "--jobs", "1"]) == 0
    assert runs.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])


def test_lines_of_progress_show_the_count_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("baco_like.running.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Display(stream, 10, done=4, interval=10.0)
    for done, step in ((5, 30.0), (6, 1.0), (7, 20.0)):
        now[0] += step
        lines.show(done, "a on b")
    assert stream.getvalue().splitlines() == [
        " 5/10  a on b, 150 s left",
        " 7/10  a on b, 51 s left",
    ]
