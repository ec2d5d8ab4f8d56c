"""``baco-like check`` on real commands and files: exit codes, reports and stale files."""

import json
import signal
from pathlib import Path

import pytest

from baco_like import Optimizer, Space, cli
from baco_like.shipping import read_table

FILE = """
[space.tile]
type = "ordinal"
values = [8, 16, 32]
default = 8
[objective]
name = "time"
unit = "ms"
direction = "minimize"
[evaluator]
kind = "replay"
file = "FILE"
[budget]
evaluations = 3
"""
WORDS = ("--run-file", "job.toml")


def recorded(folder, winner):
    rows = "".join(f"{tile},{value}\n" for tile, value in {8: 4.0, 16: 3.0, 32: winner}.items())
    (folder / "times.csv").write_text(f"tile,time\n{rows}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a run file, its journal in runs/job, and the table that was shipped from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BACO_LIKE_MACHINE_CHECK", "0")
    (tmp_path / "job.toml").write_text(FILE.replace("FILE", "times.csv"))
    recorded(tmp_path, 2.0)
    assert run("tune", "job.toml") == 0
    journal = Path("runs/job/run.jsonl")
    assert run("ship", journal, "--format", "json", "--out", "tuned.json") == 0
    return tmp_path


def run(*words):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        return cli.main([*map(str, words)])
    except SystemExit as end:
        return end.code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_table_with_recorded_rounds_finds_a_slow_down(folder, capsys):
    assert run("check", "tuned.json", *WORDS) == 0
    assert "only the order of the winner and the default was checked" in capsys.readouterr().out
    assert run("check", "tuned.json", *WORDS, "--record") == 0
    evidence = read_table("tuned.json").entries[0].evidence
    assert (evidence.ratios, evidence.candidates) == ((2.0,) * 20, 1)
    assert run("check", "tuned.json", *WORDS, "--report", "report.json") == 0
    assert json.loads(Path("report.json").read_text())["status"] == "fine"
    recorded(folder, 2.1)
    assert run("check", "tuned.json", *WORDS, "--slowdown", "20") == 0
    recorded(folder, 3.5)
    capsys.readouterr()
    assert run("check", "tuned.json", *WORDS) == 1
    out = capsys.readouterr().out
    assert "regressed: the winner is slower than when it was shipped" in out
    assert "75.0 % slower" in out


def test_a_run_file_or_journal_names_the_winner_of_its_run(folder, capsys):
    assert run("check", "job.toml") == 0
    assert run("check", "runs/job", *WORDS) == 0
    recorded(folder, 9.0)
    assert run("check", "job.toml") == 1
    assert "the winner is slower than the default configuration" in capsys.readouterr().out


def test_a_failing_winner_has_regressed(folder, capsys):
    (folder / "times.csv").write_text("tile,time\n8,4\n16,3\n")
    assert run("check", "tuned.json", *WORDS) == 1
    assert "regressed: the winner fails" in capsys.readouterr().out


def test_another_device_is_no_baseline(folder, capsys):
    assert run("check", "tuned.json", *WORDS, "--record", "--device", "old") == 0
    recorded(folder, 3.0)
    assert run("check", "tuned.json", *WORDS, "--device", "old") == 1
    capsys.readouterr()
    assert run("check", "tuned.json", *WORDS, "--device", "new") == 0
    assert "it was tuned with device 'old', now it is 'new'" in capsys.readouterr().out


def test_results_of_a_source_that_was_edited_say_so(folder, capsys):
    """Of `show`, `ship` and both kinds of `check`."""
    ship = ("ship", "runs/job", "--format", "c", "--out", "tuned.h")
    assert run(*ship) == 0
    assert run("show", "runs/job") == 0
    assert "was edited" not in capsys.readouterr().out
    times = Path("times.csv").read_text()
    Path("times.csv").write_text(times + "\n")
    commands = (["show", "runs/job"], ship, ["check", "runs/job", *WORDS])
    for command in commands:
        assert run(*command) == 0
        assert (
            "times.csv was edited after the run, so the values belong to" in capsys.readouterr().out
        )
    Path("times.csv").unlink()
    assert run("show", "runs/job") == 0
    assert "was edited" not in capsys.readouterr().out


def test_a_stale_file_is_refused(folder, capsys):
    text = Path("job.toml").read_text()
    Path("job.toml").write_text(text.replace("16, 32]", "16, 32, 64]"))
    assert run("check", "tuned.json", *WORDS) == 2
    assert "tuned.json is stale: the space has changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"), [("minimize", "maximize"), ('name = "time"', 'name = "energy"')]
)
def test_ratios_of_another_objective_are_refused(folder, capsys, old, new):
    text = Path("job.toml").read_text()
    Path("job.toml").write_text(text.replace(old, new))
    Path("times.csv").write_text(Path("times.csv").read_text().replace("time", "energy"))
    assert run("check", "tuned.json", *WORDS) == 2
    assert "has the objective 'time' to minimize, and the run file" in capsys.readouterr().err


def test_a_table_that_names_no_objective_fits_every_one(folder, capsys):
    table = json.loads(Path("tuned.json").read_text())
    del table["stamp"]["objective"]
    Path("tuned.json").write_text(json.dumps(table))
    assert run("check", "tuned.json", *WORDS) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["other.toml", "--run-file", "job.toml"],
            "start a run by baco-like tune without --resume, or name its",
        ),
        (["tuned.json"], "name it: baco-like check tuned.json --run-file FILE.toml"),
        (["none.json", *WORDS], "none.json"),
        (["tuned.json", "--run-file", "none.toml"], "none.toml"),
        (["tuned.json", *WORDS, "--task", "n=3"], "no entry has the task n=3"),
        (["tuned.json", *WORDS, "--rounds", "4"], "needs a whole number from 5"),
        (["tuned.json", *WORDS, "--slowdown", "100"], "between 0 and 100"),
        (["runs/job", *WORDS, "--record"], "--record writes into a table"),
        (["front.jsonl", *WORDS], "several objectives"),
    ],
)
def test_mistakes_are_explained(folder, words, message, capsys):
    both = {"a": "minimize", "b": "minimize"}
    Optimizer(Space({"tile": [8]}), both, storage="front.jsonl")
    capsys.readouterr()
    assert run("check", *words) == 2
    assert message in capsys.readouterr().err


def test_several_entries_need_the_name_of_one(folder, capsys):
    tasks = ["--task", "n=1", "--task", "n=2"]
    journal = "runs/job/run.jsonl"
    assert run("ship", journal, journal, *tasks, "--format", "json", "--out", "two.json") == 0
    assert run("check", "two.json", *WORDS) == 2
    assert "name the one to check by --task" in capsys.readouterr().err
    assert run("check", "two.json", *WORDS, "--task", "n=2") == 0
