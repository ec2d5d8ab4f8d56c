"""A journal from somebody else is data: looking at it starts no program, and changes no terminal and no other file."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from baco_like import Categorical, Infeasible, MaxEvals, Optimizer, Space, cli, tune
from baco_like._output import print_line
from baco_like.reporting import build_report
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import Listing
from baco_like.reporting.understanding import reproduction_section
from baco_like.running.progress import show_progress

pytest.importorskip("vl_convert")

HOSTILE = ["\x1b[31mred\x1b]0;title\x07", "two\nlines\r", "\u202eright to left", "\x00", "<b>&"]


def write_journal(
    path: Path, evaluator: dict[str, Any] | None = None, objective: str = "value"
) -> Path:
    context = {f"[evaluator] {key}": value for key, value in (evaluator or {}).items()}
    names = {f"n\x1b[2J{i}\n": Categorical(HOSTILE) for i in range(2)}
    if evaluator and "run" in evaluator:  # its commands accept neither such names nor such values
        names = {"fa": Categorical([True, False]), "x": Categorical(["1", "2", "3", "4", "5"])}
    opt = Optimizer(
        Space(names),
        {objective: "minimize"},
        strategy="random_search",
        storage=path,
        context={
            "folder": str(path.parent),
            "c\x1b": "v\x1b\ud800",
            "[objective] unit": "ms",
            **context,
        },
    )
    for i in range(8):
        trial = opt.suggest()
        if i % 3 == 2:
            opt.observe(trial, failed="w\x1b[5m\n\ud801", message="\x1b[31m\r\nroot# \udcff\n")
        else:
            opt.observe(trial, {objective: [1.0 + i, 2.0 + i], "m\x1b\ud802": 2.0})
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.parametrize(
    "arguments", [["show"], ["show", "--trial", 0], ["show", "--trial", 2], ["watch"], ["rebuild"]]
)
def test_texts_of_a_journal_cannot_change_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[Any]
) -> None:
    path = write_journal(tmp_path / "run.jsonl", objective="v\ud803\n")
    code, out = shown(capsys, *arguments, path)
    assert code == (2 if arguments == ["rebuild"] else 0), out
    assert all(char.isprintable() or char == "\n" for char in out), ascii(out)
    assert "lines\n" not in out  # a value stays in its line


def test_a_report_has_the_texts_of_a_journal_as_text(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "run.jsonl", {"kind": "</pre><script>"}, "</script>\ud803")
    assert cli.main(["report", str(path)]) == 0
    body, _, scripts = (tmp_path / "run.html").read_text().partition('<script type="application')
    assert "<script" not in body
    assert "<b>" not in body
    specifications = scripts.partition("</script>")[0]
    assert "u003c/script" in specifications
    assert all(char.isprintable() or char == "\n" for char in body + specifications)


EVIL = "from pathlib import Path\nPath(__file__).with_name('started').touch()\n"


@pytest.mark.parametrize("kind", ["c", "opencl", "halide"])
def test_no_file_that_a_journal_names_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (tmp_path / "evil.py").write_text(EVIL)
    path = write_journal(
        tmp_path / "run.jsonl", {"kind": kind, "problem": "evil.py", "size": 8, "compiler": "cc"}
    )
    code, out = shown(capsys, "rebuild", path)
    assert (code, "runs no commands" in out) == (2, True)
    assert not (tmp_path / "started").exists()


def test_no_compiler_that_a_journal_names_is_started_unless_it_is_in_the_search_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "cc"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    entries = {"kind": "command", "run": "echo {flags}", "measure": "wall"}
    path = write_journal(
        tmp_path / "run.jsonl", {**entries, "flags": {"compiler": str(program), "on_off": ["-fa"]}}
    )
    code, out = shown(capsys, "rebuild", path)
    assert (code, "if you trust the journal" in out) == (2, True)
    assert cli.main(["report", str(path)]) == 0
    assert not (tmp_path / "started").exists()
    assert shown(capsys, "rebuild", "--trust", path)[0] == 2  # it is no compiler
    assert (tmp_path / "started").exists()


def test_no_reference_that_a_journal_names_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {"kind": "command", "run": "echo 1", "measure": "wall", "output": "x"}
    path = write_journal(tmp_path / "run.jsonl", {**entries, "reference": "/dev/zero"})
    code, out = shown(capsys, "rebuild", path)
    assert (code, "echo 1" in out) == (0, True)


def test_sources_that_a_journal_names_are_read_only_if_they_are_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["/dev/zero", "n\x00", "\ud800", "."]
    path = tmp_path / "run.jsonl"
    context = {"folder": str(tmp_path), **{f"content of {name}": "0" * 16 for name in names}}
    Optimizer(Space({"x": [1, 2, 3]}), storage=path, context=context)
    code, text = shown(capsys, "show", path)
    assert code == 0
    assert "was edited" not in text


def test_long_texts_of_a_journal_make_no_long_report(tmp_path: Path) -> None:
    space = Space({"x": list(range(9)), "long": Categorical(["v" * 100_000, "w"])})
    opt = Optimizer(space, strategy="random_search", storage=tmp_path / "run.jsonl")
    for i in range(12):
        trial = opt.suggest()
        if i % 3 == 2:
            opt.observe(trial, failed="w" * 100_000, message="m" * 100_000)
        else:
            opt.observe(trial, float(i))
    page = build_report(tmp_path / "run.jsonl")
    assert page.count("v" * 200) > 0
    # The configuration to copy is whole.
    assert page.count("v" * 6000) <= 100_000 // 6000
    assert "m" * 6000 not in page
    assert len(page) < 1_500_000


def test_the_name_of_a_journal_stays_one_word_in_the_command_to_copy(tmp_path: Path) -> None:
    entries = {"kind": "command", "run": "echo 1", "measure": "wall"}
    path = write_journal(tmp_path / "x; touch y.jsonl", entries)
    section = reproduction_section(RunFacts(path, None))
    (line,) = [p.text for p in section.parts if isinstance(p, Listing) and "rebuild" in p.text]
    assert shlex.split(line)[:3] == ["baco-like", "rebuild", str(path)]


def test_a_report_replaces_no_journal_and_follows_no_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_journal(tmp_path / "run.jsonl")
    before = path.read_bytes()
    code, out = shown(capsys, "report", path, "-o", path)
    assert (code, "it is an input here" in out) == (2, True)
    page = path.rename(tmp_path / "run.html")
    assert shown(capsys, "report", page)[0] == 2
    assert page.read_bytes() == before
    page.rename(path)
    other = tmp_path / "other"
    other.write_text("mine")
    page.symlink_to(other)
    assert shown(capsys, "report", path)[0] == 0
    assert other.read_text() == "mine"
    assert page.read_text().startswith("<!")


def test_lines_and_tabs_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\tb\x1b\r\n\n\u202f\u2028")
    assert capsys.readouterr().out == "a\tb\\x1b\\r\n\n\u202f\\u2028\n"


def test_a_terminal_without_a_character_ends_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(tmp_path / "run.jsonl")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert cli.main(["watch", str(path)]) == 0
    sys.stdout.flush()
    assert rb"best so far \u2581" in written.getvalue()


def test_a_log_of_a_failure_cannot_change_the_terminal_of_a_run() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    progress = show_progress(stream, 3)

    def fail(trial: Any) -> float:
        raise Infeasible("\x1b[31m\udcff")

    optimizer = Optimizer(Space({"x": [1, 2, 3]}), strategy="random_search")
    trial = optimizer.suggest()
    optimizer.observe(trial, failed="w\x1b", message="\x1b[31m\udcff")
    progress.update(optimizer.history, optimizer.trials[0])
    progress.close()
    stream.seek(0)
    text = stream.read()
    assert "31m" in text
    assert "\x1b" not in text
    tune(fail, {"x": [1, 2, 3]}, stop=MaxEvals(2), progress=True)
