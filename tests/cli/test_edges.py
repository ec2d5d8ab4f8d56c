"""Extreme values, names and clocks end no run, and each mistake gets a message."""

from __future__ import annotations

import itertools
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from baco_like import Optimizer, Space, WarmStart, Workers, cli, tune
from baco_like._tables import Table
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.command import measure
from baco_like.evaluators.protocol import RunArguments
from baco_like.exceptions import BacoError, RunFileError
from baco_like.records import Trial
from baco_like.records.workers import read_utilisation
from baco_like.results import read
from baco_like.running import MaxEvals
from baco_like.running.journal_view import JournalView, describe_progress

FILE = """
[space.x]
type = "integer"
low = 1
high = 4
default = 1
[evaluator]
kind = "command"
run = "RUN"
measure = "regex"
pattern = "(.*)"
[optimizer]
strategy = "random_search"
[budget]
evaluations = 4
"""

LONG = "n" * 300


def write(folder: Path, run: str = "echo {x}", **changes: str) -> str:
    text = FILE.replace("RUN", run)
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "job.toml").write_text(text)
    return str(folder / "job.toml")


# Values near the largest double --------------------------------------------------------------------------------------


@pytest.fixture
def extreme(tmp_path: Path) -> Path:
    """Return the folder of a run whose values are the largest and the smallest double."""
    space = Space({"x": [1, 2, 3, 4, 5, 6]})
    optimizer = Optimizer(
        space, "maximize", strategy="random_search", storage=tmp_path / "run.jsonl"
    )
    for sign in (-1, 0, 1):
        optimizer.observe(optimizer.suggest(), sign * 1.7976931348623157e308)
    return tmp_path


def test_the_bar_has_a_range_that_is_no_double(extreme: Path) -> None:
    assert describe_progress(JournalView(extreme), 80).endswith("▁▅█")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("arguments", [["watch"], ["show"], ["report"]])
def test_commands_show_extreme_values(
    extreme: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments, str(extreme)]) == 0


@pytest.mark.filterwarnings("default")
def test_a_plot_that_fails_ends_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "printf 1.{x}e308")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("baco_like.cli.runs.plot_convergence", lambda *_: 1 / 0)
        patch.setattr("baco_like.cli.runs.format_summary", lambda *_: 1 / 0)
        assert cli.main(["tune", path, "--out", str(tmp_path / "out")]) == 0
    assert "convergence.png is not shown or written: division by zero" in capsys.readouterr().out
    assert (tmp_path / "out" / "best.json").exists()


def test_progress_that_fails_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Any] = []

    def fail(*arguments: Any) -> None:
        calls.append(arguments)
        raise OverflowError("too large")

    monkeypatch.setattr("baco_like.running.progress.TrialProgress.update", fail)
    result = tune(lambda t: t["x"], Space({"x": [1, 2, 3]}), stop=MaxEvals(3))
    assert len(result.trials) == 3
    assert len(calls) == 1
    assert "the progress is not shown or written: too large" in capsys.readouterr().out


# Journals and names --------------------------------------------------------------------------------------------------


def test_a_journal_that_ends_within_its_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Optimizer(Space({"x": [1, 2]}), storage=tmp_path / "run.jsonl")
    (tmp_path / "cut.jsonl").write_bytes((tmp_path / "run.jsonl").read_bytes()[:200])
    cut = str(tmp_path / "cut.jsonl")
    with pytest.raises(RunFileError, match="ends within its first line"):
        read(cut)
    with pytest.raises(RunFileError, match="ends within its first line"):
        Optimizer(Space({"x": [1, 2]}), warm_start=WarmStart(cut, "prior"))
    assert cli.main(["export", cut, str(tmp_path / "t.csv"), "--format", "csv"]) == 2
    path = write(tmp_path, command=f'replay"\nfile = "{cut}')
    text = re.sub("run = .*\nmeasure.*\npattern.*", "", Path(path).read_text())
    Path(path).write_text(text)
    assert cli.main(["tune", path]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", LONG, "t.csv", "--format", "csv"],
        ["export", "out/run.jsonl", LONG, "--format", "csv"],
        ["export", "t.csv", "out/run.jsonl", "--format", "csv"],
        ["ship", LONG, "--format", "json", "--out", "t.json"],
        ["ship", "out/run.jsonl", "--format", "json", "--out", LONG],
        ["ship", "t.json", "--format", "json", "--out", "out/run.jsonl"],
        ["tune", LONG],
        ["tune", "job.toml", "--out", LONG],
        ["report", LONG],
        ["show", LONG],
        ["repair", "out/run.jsonl", LONG],
        ["rebuild", LONG],
    ],
)
def test_names_of_files_that_cannot_be(
    tmp_path: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    (tmp_path / "out").mkdir()
    Optimizer(Space({"x": [1, 2]}), storage=tmp_path / "out" / "run.jsonl")
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.startswith("baco-like: error: ")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["export", "t.csv", "run.jsonl", "--format", "csv"], "export SOURCE TARGET"),
        (["ship", "t.json", "--format", "json", "--out", "run.jsonl"], "ship JOURNAL --out FILE"),
    ],
)
def test_swapped_arguments(
    arguments: list[str],
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Optimizer(Space({"x": [1, 2]}), storage=tmp_path / "run.jsonl")
    assert cli.main(arguments) == 2
    assert f"{arguments[1]} does not exist and run.jsonl does" in (err := capsys.readouterr().err)
    assert hint in err


@pytest.mark.parametrize(
    "command", ["export", "ship", "tune", "show", "report", "rebuild", "watch"]
)
def test_empty_names_of_files(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, ""])
    assert "needs a name" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a\0b", LONG, "\x1b[2J", "line\nline"])
def test_names_of_parameters(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, quoted = write(tmp_path, "echo 1"), name.replace("\0", "\\u0000")
    quoted = quoted.replace("\x1b", "\\u001b").replace("\n", "\\n")
    Path(path).write_text(Path(path).read_text().replace("space.x", f'space."{quoted}"'))
    out = str(tmp_path / "out")
    assert cli.main(["tune", path, "--out", out, "--budget", "1"]) == 0
    assert cli.main(["show", out]) == 0
    assert cli.main(["rebuild", out]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err


@pytest.mark.parametrize("path", ["", "a\0b", LONG])
def test_names_in_python(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space = Space({"x": [1, 2]})
    for call in (
        lambda: Optimizer(space, storage=path),
        lambda: Optimizer(space, warm_start=path),
        lambda: Optimizer.load(path),
        lambda: read(path),
    ):
        with pytest.raises((BacoError, ValueError)):
            call()


# Limits --------------------------------------------------------------------------------------------------------------


def test_a_pattern_that_takes_years(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_SEARCH_SECONDS", 1.0)
    entries = {"kind": "command", "measure": "regex", "pattern": "^(?:a+)+$|([0-9])"}
    entries["run"] = "echo {x}"
    run = RunArguments(Space({"x": ["a" * 40 + "!", "7"]}), "", tmp_path)
    evaluator = command.from_table(Table("evaluator", entries), run)
    for i, x in enumerate(run.space.parameters["x"].values or ()):
        evaluator.submit(Trial(i, {"x": x}))
    slow, quick = evaluator.wait()[0], evaluator.wait()[0]
    evaluator.close()
    assert slow.failed == "runtime"
    assert slow.message.startswith("run: the search for")
    assert quick.value == 7.0  # another process searches


def test_the_work_for_thousands_of_parameters_is_linear_in_their_number() -> None:
    """Calls of functions until the second suggestion; 3,000 parameters once took 25 s without a message."""

    def count_calls(number: int) -> int:
        calls = itertools.count()
        sys.setprofile(lambda *_: next(calls) and None)
        try:
            optimizer = Optimizer(Space({f"p{i}": [0, 1, 2] for i in range(number)}))
            optimizer.observe(optimizer.suggest(), 1.0)
            optimizer.suggest()
        finally:
            sys.setprofile(None)
        return next(calls)

    count_calls(10)  # imports
    assert count_calls(1000) < 12 * count_calls(100)


@pytest.mark.parametrize("number", ["12345678901234567890", "1000001"])
def test_a_number_of_repeats_without_end(
    tmp_path: Path, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, echo=f'echo"\nrepeats = {number}\n#')
    text = Path(path).read_text().replace('run = "echo"', 'run = "echo 1"')
    Path(path).write_text(text)
    assert cli.main(["tune", path]) == 2
    assert "a whole number, 1 to 1000000" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:the clock of this machine")
@pytest.mark.parametrize("now", [-5.0, -1e12, 1e12])
def test_a_clock_that_is_wrong_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: float
) -> None:
    real = time.time
    jumped = iter([True])

    def clock() -> float:
        return real() if next(jumped, False) else now

    monkeypatch.setattr(time, "time", clock)
    executor = ThreadPoolExecutor(2)
    result = tune(
        lambda t: t["x"],
        Space({"x": [1, 2, 3]}),
        stop=MaxEvals(3),
        storage=tmp_path / "r.jsonl",
        workers=Workers(lease=5.0, executor=executor),
        progress=False,
    )
    utilisation = read_utilisation(result.optimizer.history)
    assert utilisation is not None
    assert utilisation.present < 600
    executor.shutdown()
    assert len(Optimizer.load(tmp_path / "r.jsonl").trials) == 3
