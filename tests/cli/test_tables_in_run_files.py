"""Run files with tasks or several objectives: what is refused, tune, resume, show, and the files of the result."""

import json
from pathlib import Path

import pytest
from new_processes import started

from baco_like import Optimizer, Sharing, cli
from baco_like.cli import main
from baco_like.cli.arguments import build_parser
from baco_like.cli.runs import sharing_arguments
from baco_like.records import Cover, Objective
from baco_like.running.run_file import read

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
    assert "The run has 2 tasks. The table has the best configuration of each." in shown
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
    assert cli.main(one) == 1
    assert "regressed" in capsys.readouterr().out


def tasks_of(folder, **named):
    """Return the tasks of a run's trials; with ``worker``, of those that this process has suggested."""
    trials = Optimizer.load(folder / "run.jsonl").trials
    return [dict(t.task) for t in trials if not named or (t.worker in named.values())]


def test_one_task_of_a_run_is_tuned(tmp_path):
    path, out = write(tmp_path), tmp_path / "out"
    tune = ["tune", str(path), "--out", str(out)]
    assert cli.main([*tune, "--task", "n=256", "--budget", "3"]) == 0
    assert tasks_of(out) == 3 * [{"n": 256}]
    assert cli.main([*tune, "--task", "n=64", "--resume"]) == 0  # as on the next device
    assert tasks_of(out) == 3 * [{"n": 256}] + 2 * [{"n": 64}]


def test_processes_with_names_share_a_run(tmp_path):
    path, out = write(tmp_path, 'goal = "each"'), tmp_path / "out"
    text = path.read_text().replace('known = ["tile <= n"]', "known = []")
    path.write_text(text.replace("32, 64]", "32, 64, 128, 256, 512, 1024, 2048]"))
    options = {"a": ["--task", "n=64"], "b": ["--task", "n=256", "--lease", "600"]}
    members = [
        started("tune", path, "--out", out, "--worker", name, *more)
        for name, more in options.items()
    ]
    for member in members:
        assert "results are in" in member.communicate(timeout=100)[0]
        assert member.returncode == 0
    best = json.loads((out / "best.json").read_text())
    assert 5 <= best["evaluations"] == len(tasks_of(out)) <= 6
    tune = ["tune", str(path), "--out", str(out), "--budget", "8"]
    assert cli.main([*tune, "--worker", "c", "--task", "n=256"]) == 0  # joins without --resume
    assert tasks_of(out, worker="c")
    for name, task in (("a", 64), ("b", 256), ("c", 256)):
        assert all(each == {"n": task} for each in tasks_of(out, worker=name))
    assert len(tasks_of(out)) == 8
    assert cli.main(tune) == 2, "without a name, an existing run needs --resume"


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        (["--task", "n=65"], "", "the tasks are n=64, n=256"),
        (["--task", "A4000"], "", "the tasks are n=64, n=256"),
        (["--task", "n=64"], "[optimizer]\nahead = 2\n", "leave one of them out"),
        (["--worker", "a"], "", "--worker needs --out DIR"),
    ],
)
def test_wrong_arguments(arguments, more, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["tune", str(write(tmp_path, more=more)), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_each_process_would_confirm_a_shared_run(tmp_path, capsys):
    path = write(tmp_path, more="[confirmation]\n")
    text = path.read_text().replace(
        '[tasks]\nlist = [{ n = 64 }, { n = 256 }]\ngoal = "single"', ""
    )
    path.write_text(text.replace('known = ["tile <= n"]', "known = []"))
    out = tmp_path / "out"
    assert cli.main(["tune", str(path), "--out", str(out), "--worker", "a"]) == 2
    assert "with --worker, leave it out" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    "sharing",
    [
        Sharing(),
        Sharing(task="A4000"),
        Sharing("node 2", 60.0, {"n": 64, "half": True, "device": "A4000"}),
    ],
)
def test_the_hint_how_to_continue_has_the_same_arguments(sharing):
    args = build_parser().parse_args(["tune", "run.toml", *sharing_arguments(sharing)])
    assert Sharing(args.worker, args.lease, args.task) == sharing


@pytest.mark.parametrize(
    ("tasks", "goal"),
    [
        ("", Cover()),
        ("goal = 2", Cover(2)),
        ('within = 1.1\naggregate = "worst"', Cover(None, 1.1, "worst")),
    ],
)
def test_goals(tasks, goal, tmp_path):
    assert read(write(tmp_path, tasks)).aim.goal == goal


def test_constraints_of_one_task(tmp_path):
    space = read(write(tmp_path, 'constraints = { "n=64" = ["tile <= 8"] }')).space
    assert space.at_task(0).feasible_size == 1
    assert space.at_task(1).feasible_size == 4


COMMANDS = """
[space.tile]
type = "ordinal"
values = [1, 2, 3]

[tasks]
list = [{ n = 1 }, { n = 2 }, { n = 3 }]
goal = GOAL

[evaluator]
kind = "command"
run = "expr 10 + ( {tile} - {n} ) * ( {tile} - {n} ) + {tile}"
measure = "regex"
pattern = "(.*)"

[optimizer]
strategy = "random_search"

[budget]
evaluations = 9
"""


@pytest.mark.parametrize("goal", ["1", "2", '"each"'])
def test_every_command_gives_the_recommended_configuration(goal, tmp_path, capsys):
    (tmp_path / "run.toml").write_text(COMMANDS.replace("GOAL", goal.replace("1", '"single"')))
    out = tmp_path / "out"
    assert cli.main(["tune", str(tmp_path / "run.toml"), "--out", str(out)]) == 0
    found = Optimizer.load(out / "run.jsonl").recommend()
    best = json.loads((out / "best.json").read_text())
    assert [row["config"] for row in best["tasks"]] == [dict(c.config) for c in found.choices]
    assert best["commands"] is None
    for choice, row in zip(found.choices, best["tasks"], strict=True):
        tile, n = choice.config["tile"], choice.task["n"]
        run = f"expr 10 + '(' {tile} - {n} ')' '*' '(' {tile} - {n} ')' + {tile}"
        assert row["commands"]["run"] == run
        for name in (choice.name, f"n={n}"):
            capsys.readouterr()
            assert cli.main(["rebuild", str(out), "--task", name]) == 0
            assert run in capsys.readouterr().out
        assert cli.main(["show", str(out), "--task", f"n={n}"]) == 0
        assert f"tile  {tile}\n" in capsys.readouterr().out
    assert cli.main(["show", str(out)]) == 0
    shown = capsys.readouterr().out
    for config in found.configs:
        assert f"recommended: tile={config['tile']} (for " in shown
    code = cli.main(["rebuild", str(out)])
    if len(found.configs) == 1:
        assert code == 0
    else:
        assert code == 2
        assert "--task n=1 or n=2 or n=3" in capsys.readouterr().err
    assert cli.main(["rebuild", str(out), "--task", "n=7"]) == 2
    assert "nothing is recommended for {'n': 7}; name" in capsys.readouterr().err
    optimizer = Optimizer.load(out / "run.jsonl")
    for choice in found.choices:  # a later and worse measurement is not the one that is recommended
        optimizer.observe({**choice.config, **choice.task}, choice.value + 9)
        assert cli.main(["show", str(out), "--task", choice.name]) == 0
        assert f"  {choice.value:.4g}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["rebuild", "show"])
def test_a_task_needs_a_run_with_tasks(command, tmp_path, capsys):
    optimizer = Optimizer({"x": [1, 2]}, storage=tmp_path / "run.jsonl")
    optimizer.observe(optimizer.suggest(), 1.0)
    assert cli.main([command, str(tmp_path), "--task", "n=1"]) == 2
    assert "this run has no tasks" in capsys.readouterr().err


# ---- Several objectives ----


TEXT = (Path(__file__).parent / "golden" / "objectives.toml").read_text()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(TEXT)
    return path


def test_the_tables_are_read_in_order(file):
    run_file = read(file)
    assert run_file.aim.first == Objective("time", "ms")
    assert run_file.aim.objectives == (
        Objective("time", "ms"),
        Objective("rate", direction="maximize"),
    )


def test_one_table_in_brackets_is_one_objective(file):
    text = TEXT.replace('[[objective]]\nname = "rate"\ndirection = "maximize"\n', "")
    file.write_text(text)
    assert read(file).aim.several == ()
    assert read(file).aim.first == Objective("time", "ms")


def test_a_run_writes_the_front_and_show_describes_it(file, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["tune", str(file), "--out", str(out)]) == 0
    assert "front of 3: time 11 to 41 ms, rate 1 to 4" in capsys.readouterr().out
    content = json.loads((out / "best.json").read_text())
    assert [point["values"] for point in content["front"]] == [
        {"time": 11, "rate": 1},
        {"time": 21, "rate": 2},
        {"time": 41, "rate": 4},
    ]
    assert content["config"] in [point["config"] for point in content["front"]]
    assert main(["show", str(out / "run.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "front of 3: time 11 to 41 ms, rate 1 to 4" in shown
    assert "time (ms)" in shown
    assert "outlook" not in shown
    assert main(["watch", str(out / "run.jsonl")]) == 0
    assert "best time so far" in capsys.readouterr().out
    file.write_text(TEXT.replace('direction = "maximize"', 'direction = "minimize"'))
    assert main(["tune", str(file), "--out", str(out), "--resume"]) != 0
    assert "objectives was" in capsys.readouterr().err


def test_the_report_has_the_front(file, tmp_path, capsys):
    pytest.importorskip("vl_convert")
    out = tmp_path / "out"
    assert main(["tune", str(file), "--out", str(out), "--report"]) == 0
    page = (out / "report.html").read_text()
    assert "No configuration is the best in all objectives: front of 3" in page
    assert "The front: rate over time" in page
    assert "There is no estimate for several objectives." in page
    assert "Importance for rate" in page
    assert "Tuning of time (ms) and rate" in page
    assert "A peak is the best value of one objective." in page
    assert "Write the best value that the machine allows" not in page
    assert main(["report", str(out / "run.jsonl"), "--peak", "10"]) != 0
    assert "the run has several objectives, and a peak" in capsys.readouterr().err


@pytest.mark.filterwarnings("default::baco_like.exceptions.FailureWarning")
def test_an_objective_that_is_nan_is_a_failure_and_the_run_goes_on(file, tmp_path, capsys):
    values = "time: %s rate: %s' {a} {b}"
    file.write_text(
        TEXT.replace("time: %s%s rate: %s' {a} {b} {a}", values)
        .replace("values = [1, 2, 4]\ndefault = 1", 'values = ["nan", "3"]')
        .replace("evaluations = 8", "evaluations = 6")
    )
    out = tmp_path / "out"
    assert main(["tune", str(file), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "runtime: rate: the value nan is not a finite number" in shown
    assert "6 evaluations; failures: runtime 3" in shown


def test_a_trial_is_shown_with_the_repeats_of_each_objective(tmp_path, capsys):
    objectives = {"time": "minimize", "energy": "minimize"}
    run = Optimizer({"a": [1, 2]}, objectives, storage=tmp_path / "run.jsonl")
    run.observe(run.suggest(), {"time": [1.5, 2.5], "energy": [3.0, 4.5, 5.0]})
    assert main(["show", str(tmp_path / "run.jsonl"), "--trial", "0"]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {"time 2", "repeats 1.5, 2.5", "energy 4.5", "repeats, energy 3, 4.5, 5"} <= set(shown)


def test_a_prior_from_an_earlier_run(file, tmp_path):
    """The earlier run is the same, so the second suggestion is on the front."""
    assert main(["tune", str(file), "--out", str(tmp_path / "first")]) == 0
    warm = '[[warm_start]]\nfile = "first/run.jsonl"\nmode = "prior"\n'
    file.write_text(TEXT.replace("evaluations = 8", "evaluations = 4") + warm)
    assert main(["tune", str(file), "--out", str(tmp_path / "second")]) == 0
    optimizer = Optimizer.load(tmp_path / "second" / "run.jsonl")
    told = [trial["b"] for trial in optimizer.trials if (trial.tag or {}).get("phase") == "sources"]
    assert told == [1]
