"""`flags` and `passes` write a run file, print its name and start it."""

import json
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest

from baco_like import cli
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import Listing
from baco_like.reporting.understanding import reproduction_section

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
needs_llvm = pytest.mark.skipif(
    shutil.which("opt-14") is None or shutil.which("clang-14") is None,
    reason="needs opt, llc and clang of LLVM 14",
)
PROGRAM = """
#include <stdio.h>
int main(void) { int s = 0; for (int i = 0; i < 99; i++) s += i * i; return !printf("%d", s); }
"""
BUILD = "gcc -O1 -Wall -O2 {flags} app.c -o {workdir}/app"


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    (tmp_path / "app.c").write_text(PROGRAM)
    return tmp_path


def start(*words):
    return cli.main([*map(str, words)])


def tables(name):
    return tomllib.loads(Path(name).read_text())


@needs_gcc
def test_flags_writes_what_it_tunes_and_knows_equal_programs(inside, capsys):
    assert start("flags", BUILD, "--size", "--budget", 2, "--seed", 3, "--out", "out") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("run file: app-flags.toml\n")
    file = tables("app-flags.toml")
    assert file["evaluator"]["build"] == "gcc -Wall {flags} app.c -o {workdir}/app"
    assert file["flags"]["level"] == "-O2"  # the last one counts
    assert (file["budget"]["evaluations"], file["optimizer"]["seed"]) == (2, 3)
    records = [json.loads(line) for line in Path("out/run.jsonl").read_text().splitlines()]
    outcomes = [row for record in records for row in record.get("outcomes", [])]
    assert all("program" in row["extra"] for row in outcomes)
    best = json.loads(Path("out/best.json").read_text())
    assert best["commands"]["build"].startswith("gcc -Wall -O2 ")


@needs_gcc
def test_a_run_file_is_written_once_and_never_replaced(inside, capsys):
    only = ("flags", BUILD, "--size", "--write-only")
    assert start(*only) == start(*only) == 0
    assert capsys.readouterr().out == "run file: app-flags.toml\n" * 2
    assert start(*only, "--budget", 7) == 0
    assert capsys.readouterr().out == "run file: app-flags-2.toml\n"
    assert start(*only, "--budget", 8, "--file", "app-flags.toml") == 2
    assert "app-flags.toml exists" in capsys.readouterr().err
    timed = ("flags", BUILD, "--run", "{workdir}/app", "--pattern", r"\d+", "--check", "true")
    assert start(*timed, "--file", "timed.toml", "--write-only") == 0
    evaluator = tables("timed.toml")["evaluator"]
    assert (evaluator["measure"], evaluator["pattern"]) == ("regex", r"\d+")
    assert (evaluator["check"], evaluator["run"]) == ("true", "{workdir}/app")
    assert sorted(path.name for path in inside.iterdir()) == [
        *("app-flags-2.toml", "app-flags.toml", "app.c", "timed.toml"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gcc -O2 app.c -o {workdir}/app", "--size"), "needs {flags} and -o {workdir}/NAME"),
        (("gcc {flags} app.c -o app", "--size"), "needs {flags} and -o {workdir}/NAME"),
        ((BUILD,), "by --run '{workdir}/app', or minimise the size by --size"),
        ((BUILD, "--run", "./app"), "by --run '{workdir}/app'"),
        (("make {flags} -o {workdir}/app", "--size"), "name the one it starts by --compiler"),
        ((BUILD, "--run", "{workdir}/app {n}"), "unknown placeholder {n}"),
    ],
)
@needs_gcc
def test_a_mistake_is_told_and_nothing_is_written(inside, capsys, words, message):
    assert start("flags", *words) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in inside.iterdir()] == ["app.c"]


@needs_llvm
@pytest.mark.parametrize("measure", ["instructions", "time"])
def test_passes_finds_a_pipeline_that_is_not_worse_than_the_level(inside, capsys, measure):
    given = ("passes", "app.c", "--opt", "opt-14", "--passes", "O1", "--measure", measure)
    assert start(*given, "--budget", 4, "--out", "out") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("run file: app-passes.toml\n")
    assert "-Oz " in printed  # the values of the levels
    records = [json.loads(line) for line in Path("out/run.jsonl").read_text().splitlines()]
    outcomes = [row for record in records for row in record.get("outcomes", [])]
    first = next(row["value"] for row in outcomes)
    best = json.loads(Path("out/best.json").read_text())
    assert measure == "time" or best["value"] <= first
    assert Path("out/app.sh").read_text().startswith("#!/bin/sh")
    assert "program of the winner: out/app.sh\n" in printed
    command = "sh out/app.sh"
    assert start("show", "out") == 0
    shown = capsys.readouterr().out
    assert f"To build the winner: {command}" in shown
    (levels,) = re.findall(r"Optimization levels to compare with, .*: -O0 .*, -Oz .*", shown)
    assert ("another minute" in levels) == (measure == "time")
    assert start("rebuild", "out") == 2
    assert f"builds the winner: {command};" in capsys.readouterr().err
    section = reproduction_section(RunFacts(Path("out/run.jsonl")))
    assert command in [part.text for part in section.parts if isinstance(part, Listing)]
    assert start(*given, "--budget", 4, "--out", "out") == 2
    resume = "'baco-like tune app-passes.toml --out out --resume'"
    assert f"continue it by {resume}" in capsys.readouterr().err
    assert start(*shlex.split(resume.strip("'"))[1:]) == 0
