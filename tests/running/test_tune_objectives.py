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
    RunFileError,
    Search,
    Space,
    TrialError,
    tune,
)
from baco_like.records import Objective
from baco_like.running import LowOutlook, NoImprovement, Target, run_file
from baco_like.running.drawing import plot_front
from baco_like.running.findings import Findings, write_best
from baco_like.running.journal_view import JournalView
from baco_like.running.progress import Display, TrialProgress
from baco_like.running.sentences import format_summary

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
    assert "improvement" not in text
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


# ---- An objective that is declared exact is never measured again, and no sentence speaks of luck ----


LEVELS = {"level": [1, 2, 4, 8]}
SIZE = Objective("size", "bytes", exact=True)
FILE = """
[space.level]
type = "ordinal"
values = [1, 2, 4]
default = 4
[objective]
name = "size"
{exact}
[evaluator]
kind = "command"
run = "echo {{level}}"
measure = "regex"
pattern = '(\\d+)'
{repeats}
[budget]
evaluations = 3
{more}
"""


def read(folder, exact="exact = true", repeats="", more=""):
    (folder / "job.toml").write_text(FILE.format(exact=exact, repeats=repeats, more=more))
    return run_file.read(folder / "job.toml")


def sizes(trial):
    return {"size": 100.0 * trial["level"]}


def test_a_python_objective_is_exact_in_the_journal_too(tmp_path):
    path = tmp_path / "run.jsonl"
    result = tune(
        sizes,
        LEVELS,
        stop=MaxEvals(4),
        aim=[SIZE],
        storage=path,
        progress=False,
        strategy=Search(noise="repeat"),
    )
    assert dict(result.best_config) == {"level": 1}
    assert JournalView(path).objective == SIZE
    again = Optimizer.load(path)
    assert (again.objective.name, again.objectives) == ("size", ())


def test_several_objectives_have_their_units_and_exactness(tmp_path):
    path = tmp_path / "run.jsonl"
    both = (Objective("time", "ms"), SIZE)
    optimizer = Optimizer(LEVELS, both, storage=path)
    optimizer.observe(optimizer.suggest(), {"time": 1.0, "size": 2.0})
    assert JournalView(path).objectives == both


@pytest.mark.parametrize(
    "given", [{"repeats": 2}, {"confirm": Confirm(2)}, {"recheck": Recheck(5)}]
)
def test_measurements_again_of_an_exact_objective_are_refused(given):
    with pytest.raises(ValueError, match="the objective is exact; leave them out"):
        tune(
            sizes, LEVELS, stop=MaxEvals(4), aim=SIZE, progress=False, measuring=Measuring(**given)
        )


@pytest.mark.parametrize("exact", [True, False])
def test_only_noisy_values_are_partly_luck(exact):
    optimizer = Optimizer({"level": [1, 2, 4]}, strategy=Search(initial=[{"level": 4}]))
    space = optimizer.space
    for level in (4, 2, 1):
        optimizer.observe({"level": level}, float(level))
    summary = Findings(optimizer.history, Objective("size", exact=exact))
    assert space.default_config is None
    object.__setattr__(summary, "default", optimizer.trials[0])
    assert ("luck" in format_summary(summary)) is not exact


def test_a_run_file_with_an_exact_objective_measures_once(tmp_path):
    exact, noisy = read(tmp_path), read(tmp_path, exact="")
    assert exact.aim.is_exact
    assert exact.recheck.every == 0 < noisy.recheck.every
    assert exact.evaluator_table.entries["repeats"] == 1
    assert "repeats" not in noisy.evaluator_table.entries
    kept = exact.context_on_resume(noisy.context)
    assert not [key for key in kept if "exact" in key]  # a run may go on after the declaration


@pytest.mark.parametrize(
    ("repeats", "more", "key"),
    [
        ("repeats = 3", "", r"\[evaluator\] repeats"),
        ("max_repeats = 9\nrelative_error = 0.1", "", r"\[evaluator\] max_repeats"),
        ("", "[confirmation]\ntop = 2", r"\[confirmation\] top"),
        ("", "[drift]", r"\[drift\]"),
    ],
)
def test_a_run_file_cannot_ask_for_exact_values_again(repeats, more, key, tmp_path):
    with pytest.raises(RunFileError, match=f"{key} measures again, and the objective is exact"):
        read(tmp_path, repeats=repeats, more=more)


@pytest.mark.parametrize(
    "metric", ["size(job.toml)", "text(/bin/true)", "data(/bin/true)", "bss(/bin/true)"]
)
def test_sizes_are_exact_by_themselves(metric, tmp_path):
    text = FILE.format(exact="", repeats="", more="").replace("[objective]", "[[objective]]")
    text += f'[[objective]]\nname = "bytes"\n[evaluator.metrics]\nbytes = "{metric}"\n'
    (tmp_path / "job.toml").write_text(text)
    found = run_file.read(tmp_path / "job.toml")
    assert [objective.exact for objective in found.aim.objectives] == [False, True]
    assert found.recheck.every > 0
