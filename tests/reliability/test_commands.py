"""The short version of every command of benchmarks/reliability, and that a command sees what it looks for."""

import importlib
import os
import sys
from functools import partial
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "reliability"
COMMANDS = sorted(
    path for path in FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
)

ELSEWHERE = {"orders", "fuzz"}  # tests/test_stateful.py, `make fuzz`
NIGHTLY = {"large"}
SHORT = [
    pytest.param(path, marks=[pytest.mark.nightly] if path.stem in NIGHTLY else [], id=path.stem)
    for path in COMMANDS
    if path.stem not in ELSEWHERE
]

linux = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits of Linux")


@linux
@pytest.mark.parametrize("path", SHORT)
def test_the_short_version_finds_no_violation(path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = forked.run("-W", "error", path, "--quick", env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "- 0 violations" in done.stdout


def test_there_is_a_command_for_every_point():
    points = {
        path.read_text(encoding="utf-8").split('"""', 1)[1].split(".")[0] for path in COMMANDS
    }
    assert points >= set(map(str, range(1, 13))) - {"6", "10"}  # which tests alone check


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield lambda name: importlib.import_module(name)
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_a_lost_result_is_seen(module, tmp_path, capsys):
    kills, harness = module("kills"), module("harness")
    path, log = tmp_path / "j", tmp_path / "log"
    kills.go_on(0, 3, path, log)
    report = harness.Report()
    kills.check(report, path, log, 1)
    assert report.wrong == 0
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    kills.check(report, path, log, 1)
    assert report.wrong == 1
    assert "result of trial 2 is lost" in capsys.readouterr().out


def test_a_log_goes_on_after_an_incomplete_line(module, tmp_path):
    harness, path = module("harness"), tmp_path / "log"
    harness.Log(path).write(["observed", 0])
    with path.open("ab") as file:
        file.write(b'["observed"')
    harness.Log(path).write(["observed", 1])
    assert harness.entries(path) == [["observed", 0], ["observed", 1]]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_reader_that_fails_or_acts_is_seen(module, tmp_path, capsys, monkeypatch):
    fuzz, harness, mutations = module("fuzz"), module("harness"), module("mutations")
    monkeypatch.setattr(fuzz, "MEMORY", 2**20)  # a fork has what other tests have loaded

    def read(path):
        if b"NaN" in path.read_bytes():
            (path.parent / mutations.CANARY).touch()
            raise KeyError("x")

    target = fuzz.Target([b"hello"], mutations.bytes_changed, read)
    for seconds in (0.5, 5.0, 50.0):  # until an input with NaN was drawn
        folder = tmp_path / str(seconds)
        os.waitpid(harness.forked(partial(fuzz.fuzz, target, "bad", seconds, 1, folder, None)), 0)
        report = harness.Report()
        fuzz.judged(report, folder, "bad", 0)
        if report.wrong:
            break
    assert report.wrong == 1
    assert "KeyError" in capsys.readouterr().out
    assert [path.name for path in fuzz.traces(folder)].count(mutations.CANARY) >= 1
