"""An objective that is declared exact is never measured again, and no sentence speaks of luck."""

import pytest

from baco_like import Confirm, MaxEvals, Measuring, Optimizer, Recheck, RunFileError, Search, tune
from baco_like.records import Objective
from baco_like.running import run_file
from baco_like.running.findings import Findings
from baco_like.running.journal_view import JournalView
from baco_like.running.telling import format_summary

SPACE = {"level": [1, 2, 4, 8]}
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
        SPACE,
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
    optimizer = Optimizer(SPACE, both, storage=path)
    optimizer.observe(optimizer.suggest(), {"time": 1.0, "size": 2.0})
    assert JournalView(path).objectives == both


@pytest.mark.parametrize(
    "given", [{"repeats": 2}, {"confirm": Confirm(2)}, {"recheck": Recheck(5)}]
)
def test_measurements_again_of_an_exact_objective_are_refused(given):
    with pytest.raises(ValueError, match="the objective is exact; leave them out"):
        tune(sizes, SPACE, stop=MaxEvals(4), aim=SIZE, progress=False, measuring=Measuring(**given))


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
