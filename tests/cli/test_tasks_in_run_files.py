"""A run file with tasks: tune, resume, show, best.json, and what is refused."""

import json

import pytest

from baco_like import cli
from baco_like.cli.run_file import read
from baco_like.exceptions import RunFileError, SpaceError
from baco_like.records import Cover

FUNCTION = """
def measure(trial):
    return trial["n"] * (1 + abs(trial["tile"] - trial.task["n"] ** 0.5) / 8)
"""
FILE = """
[space.tile]
type = "ordinal"
values = [8, 16, 32, 64]
default = 16

[constraints]
known = ["tile <= n"]

[tasks]
list = [{ n = 64 }, { n = 256 }]
TASKS

[evaluator]
kind = "function"
function = "kernel_of_tasks:measure"

[budget]
evaluations = 5
"""


def write(folder, tasks='goal = "single"', more=""):
    (folder / "kernel_of_tasks.py").write_text(FUNCTION)
    path = folder / "run.toml"
    path.write_text(FILE.replace("TASKS", tasks) + more)
    return path


def test_a_run_is_tuned_and_shown_by_task(tmp_path, capsys):
    path, out = write(tmp_path), tmp_path / "out"
    assert cli.main(["tune", str(path), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "recommended: tile=" in shown
    assert "relative to the best known value of each task" in shown
    best = json.loads((out / "best.json").read_text())
    assert [row["task"] for row in best["tasks"]] == [{"n": 64}, {"n": 256}]
    assert best["task_goal"] == {"count": 1, "aggregate": "geometric_mean"}
    assert best["config"] == best["tasks"][0]["config"]
    assert best["value"] is None, "values of different tasks do not compare"
    assert cli.main(["tune", str(path), "--out", str(out), "--resume", "--budget", "7"]) == 0
    capsys.readouterr()
    assert cli.main(["show", str(out / "run.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "2 tasks; the best configuration of each is below" in shown
    assert "outlook" not in shown
    rows = [line.split()[:2] for line in shown.splitlines() if line.strip().startswith("n=")]
    assert [row[0] for row in rows] == ["n=64", "n=256"]
    assert sum(int(row[1]) for row in rows) == 7


def test_a_run_is_shipped_and_each_task_checked(tmp_path, capsys):
    path, out, table = write(tmp_path, 'goal = "each"'), tmp_path / "out", tmp_path / "t.json"
    tuned = [str(path), "--budget", "10", "--out", str(out)]
    assert cli.main(["tune", *tuned]) == 0
    assert cli.main(["ship", str(out / "run.jsonl"), "--format", "json", "--out", str(table)]) == 0
    assert "wrote 2 entries" in capsys.readouterr().out
    check = ["check", str(table), "--run-file", str(path)]
    assert cli.main(check) == 2
    assert "there are several tasks" in capsys.readouterr().err
    one = [*check, "--task", "n=64"]
    assert cli.main([*one, "--record"]) == 0
    assert cli.main(one) == 0
    assert cli.main(["check", str(out), *check[2:], "--task", "n=64"]) == 0
    slower = FUNCTION.replace("return ", 'return (1.3 if trial["tile"] == 8 else 1.0) * ')
    (tmp_path / "slow_kernel.py").write_text(slower)
    path.write_text(path.read_text().replace("kernel_of_tasks", "slow_kernel"))
    capsys.readouterr()
    assert cli.main([*one, "--retune", "3", "--out", str(tmp_path / "again")]) == 1
    shown = capsys.readouterr().out
    assert "regressed" in shown
    assert "3 evaluations; failures: none" in shown


@pytest.mark.parametrize(
    ("tasks", "goal"),
    [
        ("", Cover()),
        ("goal = 2", Cover(2)),
        ('within = 1.1\naggregate = "worst"', Cover(None, 1.1, "worst")),
    ],
)
def test_goals(tasks, goal, tmp_path):
    assert read(write(tmp_path, tasks)).goal == goal


def test_constraints_of_one_task(tmp_path):
    space = read(write(tmp_path, 'constraints = { "n=64" = ["tile <= 8"] }')).space
    assert space.at_task(0).feasible_size == 1
    assert space.at_task(1).feasible_size == 4


@pytest.mark.parametrize(
    ("tasks", "more", "error", "message"),
    [
        ('goal = "all"', "", RunFileError, "goal"),
        ("goal = 2\nwithin = 1.1", "", RunFileError, "no key 'goal' beside it"),
        ('constraints = { "n=65" = ["tile <= 8"] }', "", SpaceError, "the tasks are n=64, n=256"),
        ("", "[confirmation]\n", RunFileError, "best configuration of one task"),
        ("", "target = 3\n", RunFileError, "best value of one task"),
    ],
)
def test_what_is_refused(tasks, more, error, message, tmp_path):
    with pytest.raises(error, match=message):
        read(write(tmp_path, tasks, more))
