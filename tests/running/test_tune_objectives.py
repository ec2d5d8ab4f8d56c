"""`tune` with several objectives: the result, the rules that end a run, the texts and the file of the result."""

import io
import json

import pytest

from baco_like import (
    Confirm,
    MaxEvals,
    Measuring,
    Optimizer,
    Recheck,
    Search,
    Space,
    TrialError,
    tune,
)
from baco_like.records import Objective
from baco_like.running import LowOutlook, NoImprovement, Target
from baco_like.running.drawing import plot_front
from baco_like.running.findings import Findings, write_best
from baco_like.running.progress import Display, TrialProgress
from baco_like.running.telling import format_summary

SPACE = Space({"tile": [1, 2, 4, 8, 16], "unroll": [1, 2, 4, 8]})
OBJECTIVES = {"time": "minimize", "rate": "maximize"}
UNITS = (Objective("time", "ms"), Objective("rate", direction="maximize"))


def measure(trial):
    return {"time": trial["tile"] + 0.1 * trial["unroll"], "rate": float(trial["tile"])}


def tuned(evaluations=20, **settings):
    settings = {"stop": MaxEvals(evaluations), "progress": False, **settings}
    return tune(measure, SPACE, aim=UNITS, **settings)


def test_tune_returns_the_front_and_its_knee():
    result = tuned()
    assert [trial["tile"] for trial in result.front] == [1, 2, 4, 8, 16]
    assert result.best in result.front
    assert result.recommended == result.best


def test_repeats_are_kept_for_each_objective():
    result = tuned(6, measuring=Measuring(repeats=3))
    trial = result.trials[0]
    assert len(trial.repeats) == len(trial.metric_repeats["rate"]) == 3


def test_a_function_without_one_objective_ends_the_run_and_keeps_the_rest():
    def forgetful(trial):
        values = measure(trial)
        return values if trial.id < 3 else {"time": values["time"]}

    with pytest.raises(TrialError, match="the objective 'rate' was not measured") as error:
        tune(forgetful, SPACE, aim=OBJECTIVES, stop=MaxEvals(9), progress=False)
    assert len(error.value.optimizer.trials) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop": MaxEvals(5) | Target(1.0)}, "Target is about the best value of one objective"),
        ({"stop": MaxEvals(5) | LowOutlook()}, "LowOutlook is about .* 'time', 'rate'"),
        ({"measuring": Measuring(confirm=Confirm(2))}, "confirm compares values of one objective"),
        ({"strategy": "genetic_algorithm"}, "optimises one objective"),
    ],
)
def test_settings_for_one_objective_are_refused_before_the_run(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        tuned(storage=tmp_path / "run.jsonl", **settings)
    assert not (tmp_path / "run.jsonl").exists()


def test_rules_and_outlook_for_one_objective_are_refused_by_an_optimizer_too():
    optimizer = Optimizer(SPACE, OBJECTIVES)
    with pytest.raises(ValueError, match="Target is about"):
        optimizer.should_stop(MaxEvals(5) | Target(1.0))
    with pytest.raises(TrialError, match="the outlook needs a single objective"):
        optimizer.outlook()


def observed(*rows):
    optimizer = Optimizer(SPACE, OBJECTIVES)
    configs = SPACE.sample(len(rows), seed=1)
    for config, (time, rate) in zip(configs, rows, strict=True):
        optimizer.observe(config, {"time": time, "rate": rate})
    return optimizer


@pytest.mark.parametrize(
    ("rel", "latest", "ends"),
    [
        (0.0, (1.5, 6.0), False),  # a new point of the front
        (0.0, (2.5, 3.0), True),  # dominated
        (0.0, (1.0, 5.0), True),  # equal to an earlier one
        (0.1, (0.95, 5.0), True),  # 5 % better
        (0.1, (0.85, 5.0), False),
    ],
)
def test_no_improvement_asks_for_new_points_of_the_front(rel, latest, ends):
    optimizer = observed((1.0, 5.0), (2.0, 7.0), latest)
    assert bool(optimizer.should_stop(NoImprovement(1, rel))) is ends


def test_the_summary_shows_the_front_the_knee_and_the_default():
    optimizer = tuned().optimizer
    summary = Findings(optimizer.history, UNITS[0])
    text = format_summary(summary)
    assert summary.speedup is None
    assert "speed-up" not in text
    assert "time (ms)" in text
    assert "front of 5: time 1.1 to 16.1 ms, rate 1 to 16" in text
    assert text.count("knee") == 2, "in the table and in a sentence"


def test_a_large_front_is_shown_in_part_with_its_knee():
    space = Space({"x": range(60)})
    objectives = {"a": "minimize", "b": "maximize"}
    optimizer = Optimizer(space, objectives)
    for x in range(60):
        optimizer.observe({"x": x}, {"a": x, "b": x})
    text = format_summary(Findings(optimizer.history, Objective("a")))
    assert "knee" in text
    assert 20 <= len(text.splitlines()) < 32
    assert "more trials of the front are not shown" in text


def test_the_file_of_the_result_has_the_front(tmp_path):
    optimizer = tuned().optimizer
    summary = Findings(optimizer.history, UNITS[0])
    write_best(summary, tmp_path / "best.json", seed=0)
    content = json.loads((tmp_path / "best.json").read_text())
    assert content["objectives"][0] == {"name": "time", "unit": "ms", "direction": "minimize"}
    assert [point["values"]["rate"] for point in content["front"]] == [1, 2, 4, 8, 16]
    assert content["config"] in [point["config"] for point in content["front"]]
    assert content["speedup"] is None


def test_the_progress_shows_the_front():
    optimizer, terminal = observed((1.0, 5.0), (2.0, 7.0)), io.StringIO()
    TrialProgress(Display(terminal, 4)).update(optimizer.history, optimizer.trials[-1])
    assert "front of 2: time 1 to 2, rate 5 to 7; trial 1: time 2, rate 7" in terminal.getvalue()


def test_the_front_is_plotted(tmp_path):
    pytest.importorskip("matplotlib")
    optimizer = tuned(10).optimizer
    plot_front(optimizer.history, UNITS, tmp_path / "front.png")
    assert (tmp_path / "front.png").stat().st_size > 1000


def test_drift_is_noticed_with_several_objectives():
    result = tuned(30, strategy=Search(noise="repeat"), measuring=Measuring(recheck=Recheck(5)))
    assert any(trial.origin == "control" for trial in result.trials)
