"""The command line on real commands: what it writes, how it ends, what it says of bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from baco_like.storage.jsonl import JsonlJournal

FILE = """
[space.tile]
type = "ordinal"
values = [8, 16, 32, 64]
log = true
default = 8
[space.order]
type = "permutation"
elements = ["i", "j", "k"]
default = ["i", "j", "k"]

[constraints]
known = ["pos(order, 'k') > pos(order, 'i')"]

[objective]
name = "time"
unit = "ms"
goal = "minimize"

[evaluator]
kind = "command"
run = "{python} -c 'import os; t = int(os.environ[\\"BACO_TILE\\"]); print(\\"time:\\", t if t < 64 else 1 / 0)'"
measure = "regex"
pattern = "time: (.*)"
timeout = 20
repeats = 2

[budget]
evaluations = 6

[optimizer]
initial = 3
"""


@pytest.fixture
def toml(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(FILE.replace("{python}", sys.executable))
    return path


def baco(*args, cwd=None, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "baco_like", *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        **kwargs,
    )


def test_tune_writes_all_its_files(toml, tmp_path):
    done = baco("tune", toml, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "speed-up" in done.stdout
    assert "6/6" in done.stdout
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "best.json",
        "convergence.png",
        "run.jsonl",
    ]
    best = json.loads((tmp_path / "out" / "best.json").read_text())
    assert best["value"] == min(8, best["value"])
    assert best["default_value"] == 8
    assert best["speedup"] == best["default_value"] / best["value"]
    assert best["repeats"] == [best["value"]] * 2
    assert best["evaluations"] == 6
    assert (tmp_path / "out" / "convergence.png").read_bytes().startswith(b"\x89PNG")


def configs(folder):
    events = JsonlJournal(folder / "run.jsonl").read()
    return [t["config"] for e in events if e["event"] == "suggested" for t in e["trials"]]


def test_the_same_seed_gives_the_same_suggestions_and_resume_goes_on(toml, tmp_path):
    for name in ("one", "two"):
        assert baco("tune", toml, "--out", tmp_path / name, "--seed", 7).returncode == 0
    assert configs(tmp_path / "one") == configs(tmp_path / "two")
    assert (
        baco("tune", toml, "--out", tmp_path / "three", "--seed", 7, "--budget", 4).returncode == 0
    )
    again = baco("tune", toml, "--out", tmp_path / "three", "--resume")
    assert again.returncode == 0, again.stderr
    assert configs(tmp_path / "three") == configs(tmp_path / "one")


def test_an_existing_journal_needs_resume_or_another_folder(toml, tmp_path):
    assert (
        baco(
            "tune",
            toml,
            cwd=tmp_path,
        ).returncode
        == 0
    )
    assert baco("tune", toml, "--budget", 2, cwd=tmp_path).returncode == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["job", "job-2"]
    refused = baco("tune", toml, "--out", tmp_path / "runs" / "job")
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    assert baco("tune", toml, "--budget", 3, "--resume", cwd=tmp_path).returncode == 0
    assert len(configs(tmp_path / "runs" / "job-2")) == 3


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_what_there_is(toml, tmp_path, sent):
    slow = tmp_path / "slow.toml"
    slow.write_text(toml.read_text().replace("import os;", "import os, time; time.sleep(0.3);"))
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "baco_like",
            "tune",
            slow,
            "--out",
            tmp_path / "out",
            "--budget",
            "12",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    journal = tmp_path / "out" / "run.jsonl"
    for _ in range(400):
        if journal.exists() and journal.read_text().count('"observed"') >= 2:
            break
        time.sleep(0.05)
    os.kill(child.pid, sent)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert "--resume" in out
    assert (tmp_path / "out" / "best.json").exists()
    done = baco("tune", slow, "--out", tmp_path / "out", "--resume", "--budget", 5)
    assert done.returncode == 0, done.stderr
    assert len(configs(tmp_path / "out")) == 5


BAD = {
    "unknown parameter in a constraint": ("pos(order, 'k') > pos(order, 'i')", "tiel > 3", "tiel"),
    "empty domain": ("values = [8, 16, 32, 64]", "values = []", "tile"),
    "duplicate values": ("values = [8, 16, 32, 64]", "values = [8, 16, 16]", "tile"),
    "nothing satisfies it": ("pos(order, 'k') > pos(order, 'i')", "tile > 100", "tile > 100"),
    "unknown key": ("repeats = 2", "repeat = 2", "repeat"),
    "unknown table": ("[budget]", "[buget]", "buget"),
    "unknown evaluator": ('kind = "command"', 'kind = "comand"', "comand"),
    "missing program": (sys.executable, "no-such-compiler", "no-such-compiler"),
    "unknown strategy": ("initial = 3", 'strategy = "bayesain"', "bayesain"),
    "unknown setting": ("initial = 3", "inital = 3", "inital"),
    "bad syntax": ("[budget]", "[budget", "job.toml"),
    "bad budget": ("evaluations = 6", "evaluations = 0", "evaluations"),
    "bad expression": ("pos(order, 'k') > pos(order, 'i')", "__import__('os')", "__import__"),
}


@pytest.mark.parametrize(("old", "new", "named"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_nothing_is_written(toml, tmp_path, old, new, named):
    text = toml.read_text()
    assert old in text
    toml.write_text(text.replace(old, new))
    before = sorted(tmp_path.iterdir())
    done = baco("tune", toml, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("baco-like: error: ")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert named in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_file_and_wrong_arguments(tmp_path):
    assert "none.toml" in baco("tune", tmp_path / "none.toml").stderr
    for wrong in (
        ["tune"],
        ["tune", "x", "--budget", "0"],
        ["tune", "x", "--seed", "-1"],
        ["nothing"],
    ):
        assert baco(*wrong).returncode == 2


def test_strategies_lists_names_and_settings():
    done = baco("strategies")
    assert done.returncode == 0
    assert "bayesian" in done.stdout
    assert "initial=10" in done.stdout


def test_the_command_is_installed():
    script = Path(sys.executable).parent / "baco-like"
    if not script.exists():
        pytest.skip("the package is not installed in this environment")
    assert subprocess.run([script, "--help"], capture_output=True, check=False).returncode == 0
