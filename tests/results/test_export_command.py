"""``baco-like export``."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from baco_like import Optimizer, Space, cli
from baco_like.results.formats import FORMATS, read


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
