"""Files of results: read up to 64 MiB, unpacked, unless the user allows more; and ``baco-like export``."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import tracemalloc
from pathlib import Path

import pytest

from baco_like import Optimizer, Space, WarmStart, cli
from baco_like.benchmarking.problems.recorded import find_recorded
from baco_like.cli import main
from baco_like.evaluators.replay import load
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.integrations import read_samples
from baco_like.results import files, formats, read
from baco_like.results.formats import FORMATS
from baco_like.results.hypermapper_csv import Layout
from baco_like.running.run_file import read as read_run_file

SPACE = Space({"x": list(range(40))})
RUN_FILE = """
[space.x]
type = "integer"
low = 0
high = 39
[evaluator]
kind = "replay"
file = "table.json.gz"
[budget]
evaluations = 2
[[warm_start]]
file = "table.json.gz"
mode = "configs"
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table that is larger than a reduced limit."""
    cache = {
        "tune_params_keys": ["x"],
        "tune_params": {"x": list(range(40))},
        "cache": {str(x): {"x": x, "time": 1.0 + x} for x in range(40)},
    }
    path = tmp_path / "table.json.gz"
    path.write_bytes(gzip.compress(json.dumps(cache).encode() + b" " * 1000))
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    return path


def bomb(path: Path, packed: bool) -> Path:
    """Write 600 MB of zeros, packed into 600 kB or sparse."""
    if packed:
        path.write_bytes(gzip.compress(bytes(2**20)) * 600)
    else:
        path.touch()
        os.truncate(path, 600_000_000)
    return path


@pytest.mark.parametrize("packed", [True, False])
def test_a_bomb_is_refused_in_bounded_memory(tmp_path, packed):
    path = bomb(tmp_path / "results.json", packed)
    tracemalloc.start()
    try:
        with pytest.raises(RunFileError, match=r"more than 64 MiB .unpacked.*--large.*large=True"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 1.2 * 2**26
    finally:
        tracemalloc.stop()


def test_every_reader_has_the_limit_and_the_argument(table):
    message = "more than 0 MiB"
    with pytest.raises(RunFileError, match=message):
        read(table)
    assert len(read(table, large=True)) == 40
    with pytest.raises(EvaluatorError, match=message):
        load(table)
    assert len(load(table, large=True)) == 40
    with pytest.raises(EvaluatorError, match=message):
        find_recorded(table.parent, "minimize")
    (found,), _ = find_recorded(table.parent, "minimize", large=True)
    assert found.source.large
    with pytest.raises(RunFileError, match=message):
        Optimizer(SPACE, {"time": "minimize"}, warm_start=table)
    start = WarmStart(table, large=True)
    assert len(Optimizer(SPACE, {"time": "minimize"}, warm_start=start).trials) == 40


def test_samples_have_the_limit_and_the_argument(tmp_path, monkeypatch):
    path, layout = tmp_path / "samples.csv", Layout(SPACE.parameters, "time")
    path.write_text("x,time,Valid,timestamp\n" + "1,2.0,True,0\n" * 100)
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    with pytest.raises(RunFileError, match="--large"):
        read_samples(path, layout)
    assert len(read_samples(path, layout, large=True)[0]) == 100


def test_the_command_line_has_the_option(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN_FILE)
    commands = [
        ["export", str(table), "out.csv", "--format", "csv"],
        ["tune", "run.toml", "--out", "run"],
    ]
    for command in commands:
        assert main(command) == 2
        assert "--large" in capsys.readouterr().err
        assert main([*command, "--large"]) == 0
    assert main(["tune", "run.toml", "--out", "run", "--resume", "--large", "--budget", "3"]) == 0


def test_a_run_file_has_the_keys(table, tmp_path):
    run_file = tmp_path / "run.toml"
    run_file.write_text(RUN_FILE.replace('json.gz"', 'json.gz"\nlarge = true'))
    (start,) = read_run_file(run_file).warm_start
    assert start.large


def test_a_long_journal_is_no_large_file(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    opt = Optimizer(SPACE, strategy="exhaustive", storage=path)
    opt.observe(opt.suggest(), 1.0)
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    assert len(read(path)) == 1


@pytest.mark.parametrize("cut", [15, 30, -5])
def test_a_damaged_packed_file_is_refused(tmp_path, cut):
    data = bytearray(gzip.compress(json.dumps({"results": list(range(500))}).encode()))
    data[cut] ^= 0xFF
    path = tmp_path / "damaged.json.gz"
    for content in (data, data[: len(data) // 2]):
        path.write_bytes(content)
        with pytest.raises(RunFileError, match=r"cannot be read|damaged"):
            read(path)


@pytest.mark.parametrize(
    "text",
    [
        "a,b,time\n" + "1,2,3.5\n" * 31,
        "a,b,time\r" + "1,2,3.5\r" * 31 + "\n",
        json.dumps({"results": [{}] * 31}),
        json.dumps({"cache": {str(i): {} for i in range(31)}}),
        json.dumps({"Results": [{}] * 31}),
    ],
)
def test_too_many_results_are_refused_before_they_are_read(tmp_path, monkeypatch, text):
    """A row of 10 bytes takes 2 KB of memory."""
    monkeypatch.setattr(files, "MOST_RESULTS", 30)
    path = tmp_path / "results"
    path.write_text(text, newline="")
    with pytest.raises(RunFileError, match=r"results: it has 3[123] \w+, more than 30; .*--large"):
        read(path)
    if "results" not in text.lower() and "cache" not in text:
        with pytest.raises(RunFileError, match=r"more than 30; .*--large"):
            read_samples(path, Layout(SPACE.parameters, "time"))
    with contextlib.suppress(RunFileError):  # some are not complete
        assert len(read(path, large=True)) > 0


@pytest.mark.parametrize("text", ['{"results": [%s]}', '{"cache": {"a": [%s]', "[%s]"])
def test_too_many_values_of_json_are_refused_before_they_are_parsed(tmp_path, monkeypatch, text):
    monkeypatch.setattr(files, "MOST_CELLS", 30)
    monkeypatch.setattr(formats.json, "loads", None)
    path = tmp_path / "results.json"
    path.write_text(text % ",".join(["{}"] * 40))
    with pytest.raises(RunFileError, match=r"it has more than 30 values; .*--large"):
        read(path)


def test_too_many_cells_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_CELLS", 30)
    path = tmp_path / "results.csv"
    path.write_text("a,b,time\n" + "1,2,3.5\n" * 20)
    with pytest.raises(RunFileError, match=r"it has more than 30 cells; .*--large"):
        read(path)
    assert len(read(path, large=True)) > 0


# ---- ``baco-like export`` ----


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)  # of this process
    opt = Optimizer(Space({"x": [1, 2, 4]}), {"time": "minimize"}, storage=tmp_path / "run.jsonl")
    for value in (1.5, 2.5):
        opt.observe(opt.suggest(), value)
    return tmp_path / "run.jsonl"


def test_from_one_format_to_another(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(journal.with_name(name)) for name in ("a", "b")]
    assert cli.main(["export", str(journal), names[0], "--format", "ktt"]) == 0
    assert capsys.readouterr().out == f"wrote 2 results to {names[0]}\n"
    assert cli.main(["export", names[0], names[1], "--format", "t4"]) == 0
    assert read(names[1]).outcomes == read(journal).outcomes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["no.jsonl", "new", "--format", "t4"], "no.jsonl: cannot be read"),
        (["run.jsonl", "run.jsonl", "--format", "t4"], "run.jsonl exists; name another file"),
        (["run.jsonl", "none/new", "--format", "t4"], "none/new cannot be written"),
        (
            ["run.jsonl", "new", "--format", "t4", "--objective", "power"],
            "is 'time', and it has no measurement 'power'",
        ),
    ],
)
def test_a_mistake_is_one_line(
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(journal.parent)
    assert cli.main(["export", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not Path("new").exists()


def test_the_formats_are_those_of_the_results(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    assert ", ".join(FORMATS) in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        cli.main(["export", "old", "new", "--format", "t5"])
    error = capsys.readouterr().err
    assert "invalid choice: 't5'" in error
    assert all(name in error for name in FORMATS)
