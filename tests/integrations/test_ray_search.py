"""The searcher, in the real package; the runs use processes of Ray, so there are few of them."""

from __future__ import annotations

import copy
import math
import pickle
import re
import runpy
import signal
from pathlib import Path

import pytest

from baco_like import Aim, Ordinal, Permutation, Space
from baco_like.exceptions import JournalError, TrialError

ROOT = Path(__file__).parents[2]
SPACE = Space(
    {"tile": Ordinal([1, 2, 4, 8], log=True), "loops": Permutation(["i", "j"])},
    constraints=["tile > 1 or pos(loops, 'i') == 0"],
)


@pytest.fixture(scope="module", autouse=True)
def packages():
    """Import Ray for the first test: it takes a second, which each worker would spend to collect the tests."""
    global ray, tune, Searcher, BacoSearch
    tune = pytest.importorskip("ray.tune")
    import ray
    from ray.tune.search import Searcher

    from baco_like.integrations import BacoSearch


def measured(config):
    return abs(config["tile"] - 4) + 2 * (config["loops"] == ("j", "i"))


def run_without_ray(searcher, number):
    """Run a searcher without Ray for some trials and return its suggestions."""
    asked = []
    for i in range(number):
        config = searcher.suggest(f"t{i}")
        asked.append(config)
        searcher.on_trial_complete(f"t{i}", {"time": measured(config)})
    return asked


def test_several_metrics_are_several_objectives(tmp_path):
    searcher = BacoSearch(SPACE, ["time", "speed"], ["min", "max"], strategy="nsga2")
    for name in "abcd":
        searcher.suggest(name)
    searcher.on_trial_complete("a", {"time": 1.0, "speed": 5.0})
    searcher.on_trial_complete("b", {"time": 2.0, "speed": 9.0})
    searcher.on_trial_complete("c", {"time": 0.5, "speed": math.nan})
    searcher.on_trial_complete("d", {"time": 2.0, "speed": 5.0})
    searcher.add_evaluated_point({"tile": 3, "loops": ("i", "j")}, [3.0, 9.5])
    optimizer = searcher.optimizer
    assert [t.value for t in optimizer.front] == [1.0, 2.0]  # tile = 3 is outside the space
    assert optimizer.trials[4].metrics["speed"] == 9.5
    assert [t.failure for t in optimizer.trials] == [None, None, "runtime", None, None]
    assert optimizer.trials[2].message == "the metric 'speed' is not a finite number"
    with pytest.raises(TrialError, match="one number for each"):
        searcher.add_evaluated_point({"tile": 1, "loops": ("i", "j")}, 3.0)
    searcher.save(str(tmp_path / "state.json"))
    again = BacoSearch(SPACE, strategy="nsga2")
    again.restore(str(tmp_path / "state.json"))
    assert again.optimizer.options.aim == Aim({"time": "minimize", "speed": "maximize"})
    assert len(again.optimizer.front) == 2


@pytest.mark.parametrize(
    ("metric", "mode"),
    [
        ("time", "best"),
        (["time", "size"], "min"),
        (["time", "size"], ["min"]),
        ([], []),
        (["time", 1], ["min", "max"]),
        (None, ["min"]),
    ],
)
def test_wrong_metrics_are_rejected_before_the_run(metric, mode):
    with pytest.raises(ValueError, match="expected a name with 'min' or 'max'"):
        BacoSearch(SPACE, metric, mode)


def test_metric_and_mode_from_ray_configuration():
    searcher = BacoSearch(SPACE)
    with pytest.raises(ValueError, match="metric and mode are missing"):
        searcher.suggest("t")
    assert searcher.set_search_properties("speed", "max", {})
    assert not searcher.set_search_properties("time", "min", {"x": 1})
    assert searcher.optimizer.objective.direction == "maximize"
    assert searcher.optimizer.objective.name == "speed"


def test_failures_are_observed():
    searcher = BacoSearch(SPACE, "time", "min", strategy="random_search")
    for name in "abcde":
        searcher.suggest(name)
    searcher.on_trial_complete("a", None, error=True)
    searcher.on_trial_complete("b", {"time": math.nan})
    searcher.on_trial_complete("c", {"other": 1.0})
    searcher.on_trial_complete("d", {"time": 1.0, "failed": "compile", "message": "no such"})
    searcher.on_trial_complete("e", {"time": 1.0, "time_total_s": 2.0})
    searcher.on_trial_complete("unknown", {"time": 1.0})
    trials = searcher.optimizer.trials
    assert [t.failure for t in trials] == ["runtime", "runtime", "runtime", "compile", None]
    assert trials[3].message == "no such"
    assert trials[4].extra["seconds"] == {"run": 2.0}
    searcher.add_evaluated_point({"tile": 3, "loops": ("i", "j")}, 0.5)
    searcher.add_evaluated_point({"tile": 4, "loops": ("i", "j")}, math.nan, error=True)
    assert [t.value for t in searcher.optimizer.trials[5:]] == [0.5, None]


def test_save_and_restore_continue_the_run(tmp_path):
    whole = run_without_ray(BacoSearch(SPACE, "time", "min", seed=1), 5)
    first = BacoSearch(SPACE, seed=1)
    first.set_search_properties("time", "min", {})
    assert run_without_ray(first, 2) == whole[:2]
    flying = first.suggest("x")
    first.save(str(tmp_path / "state"))
    saved = BacoSearch(SPACE, seed=1)
    saved.restore(str(tmp_path / "state"))
    for other in (saved, pickle.loads(pickle.dumps(first)), copy.deepcopy(first)):
        other.on_trial_complete("x", {"time": measured(flying)})
        assert flying == whole[2]
        assert run_without_ray(other, 2) == whole[3:]
    with pytest.raises(JournalError, match="seed was 1, now 2"):
        BacoSearch(SPACE, seed=2).restore(str(tmp_path / "state"))


def test_a_run_with_results_of_earlier_runs_survives_a_checkpoint(tmp_path):
    results = [({"tile": 8, "loops": ("j", "i")}, 6.0), ({"tile": 2, "loops": ("i", "j")}, None)]
    searcher = BacoSearch(SPACE, "time", "min", strategy="random_search", warm_start=results)
    run_without_ray(searcher, 2)
    searcher.save(str(tmp_path / "searcher.json"))
    copied = pickle.loads(pickle.dumps(searcher))
    restored = BacoSearch(SPACE, "time", "min", strategy="random_search", warm_start=results)
    restored.restore(str(tmp_path / "searcher.json"))
    left = [run_without_ray(each, SPACE.feasible_size - 4) for each in (searcher, copied, restored)]
    assert left[0] == left[1] == left[2]
    assert searcher.suggest("last") == Searcher.FINISHED  # the two results were not suggested


def test_wrong_arguments_are_rejected():
    with pytest.raises((ValueError, AssertionError), match="min"):
        BacoSearch(SPACE, "time", "smallest")


# With Ray running -------------------------------------------------------------------------------------------------


INIT = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False}


@pytest.fixture(scope="module")
def cluster(packages):
    handler = signal.getsignal(signal.SIGINT)  # Ray Tune replaces it, for good
    ray.init(**INIT)
    yield
    ray.shutdown()
    signal.signal(signal.SIGINT, handler)


@pytest.mark.filterwarnings("ignore")
def test_a_run_of_ray_tune(cluster, tmp_path):
    def trainable(config):  # by value to the workers, which cannot import this file
        if config["tile"] == 8:
            raise RuntimeError("out of registers")
        time = abs(config["tile"] - 4) + 2 * (config["loops"] == ("j", "i"))
        tune.report({"time": float(time), "scale": config["scale"]})

    loops = Permutation(["i", "j"])
    one_fails = ["tile < 8 or pos(loops, 'i') == 0"]  # its actor starts again, which takes seconds
    space = Space({"tile": Ordinal([2, 4, 8]), "loops": loops}, constraints=one_fails)
    search = BacoSearch(space, strategy="random_search")
    tuner = tune.Tuner(
        trainable,
        param_space={"scale": 3},
        tune_config=tune.TuneConfig(
            metric="time",
            mode="min",
            search_alg=search,
            num_samples=20,
            max_concurrent_trials=1,  # two in the page and the example
            reuse_actors=True,  # the start of an actor takes two seconds
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert len(results) == space.feasible_size == 5  # not 20: the space is exhausted
    assert results.num_errors == 1
    best = results.get_best_result()
    assert best.metrics["time"] == 0.0
    assert (best.config["tile"], tuple(best.config["loops"])) == (4, ("i", "j"))
    trials = search.optimizer.trials
    assert {trial["tile"] for trial in trials if trial.failure} == {8}
    assert len(trials) == space.feasible_size
    assert not search.optimizer.pending


@pytest.mark.filterwarnings("ignore")
def test_the_documentation_page_runs(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "ray.md"
    short = page.read_text().replace("=6", "=3")
    assert short != page.read_text()
    for code in re.findall(r"```python\n(.*?)```", short, re.S):
        exec(code, {})
    assert "best" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_the_example_runs(cluster, monkeypatch, capsys):
    """It runs on the cluster of the other tests: the start of one takes many seconds."""
    calls = []
    monkeypatch.setattr(ray, "init", lambda **arguments: calls.append(arguments))
    runpy.run_path(str(ROOT / "examples" / "ray_tune.py"))["main"](4)
    assert calls == [INIT]
    assert "best" in capsys.readouterr().out
