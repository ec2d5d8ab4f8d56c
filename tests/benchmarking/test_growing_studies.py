"""Studies of what a run file measures, studies that were killed, and studies that get more evaluations."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from baco_like import Space
from baco_like.benchmarking import problems, study
from baco_like.exceptions import EvaluatorError, JournalError, RunFileError

CODE = """
char room[100 * LANES];
int f(int x)
{
    int sum = 0;
    for (int i = 0; i < 100; i++) sum += x * room[i % LANES];
    return sum;
}
"""

RUN_FILE = """
[space.LANES]
type = "integer"
low = 1
high = 9
default = 2

[space.level]
type = "categorical"
values = ["-O1", "-O2", "-O3", "-Oso"]
default = "-O1"

[constraints]
known = ["LANES != 4"]
limits = ["room <= 600"]

[objective]
name = "size"
unit = "bytes"
direction = "maximize"
exact = true

[evaluator]
kind = "command"
build = "gcc {level} -DLANES={LANES} -c f.c -o {workdir}/f.o"
run = "true"
measure = "size"
metrics = { size = "text({workdir}/f.o)", room = "bss({workdir}/f.o)" }

[budget]
evaluations = 8
"""

TIMES = ["suggestion_seconds", "evaluation_seconds"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    (tmp_path / "f.c").write_text(CODE)
    path = tmp_path / "sizes.toml"
    path.write_text(RUN_FILE)
    return path


def cells(result: Any) -> Any:
    return result.to_dataframe().drop(columns=TIMES)


def test_contenders_are_run_on_what_a_run_file_describes(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    names = ["genetic_algorithm", "random_search", "optuna:TPESampler"]
    result = study(names, [file, "branin"], 2, path=tmp_path / "runs.jsonl")
    frame = result.to_dataframe()
    own = frame[frame.problem == "sizes"]
    assert own.groupby(["strategy", "seed"]).size().tolist() == [8] * 6
    assert frame[frame.problem == "branin"].evaluation.max() == 60
    assert set(own.direction) == {"maximize"}
    for _, row in own.iterrows():
        config = json.loads(row.configuration)
        assert config["LANES"] != 4
        if config["level"] == "-Oso":
            assert row.status == "compile"
        else:
            assert row.status == ("limit" if config["LANES"] > 6 else "ok")
    assert set(own.status) == {"ok", "compile", "limit"}
    first = own[own.evaluation == 1]
    assert set(first.configuration) == {'{"LANES": 2, "level": "-O1"}'}  # the default
    assert first.value.nunique() == 1
    assert own[own.status == "ok"].value.nunique() > 3
    assert (own.evaluation_seconds > 0).all()
    assert [
        row["mean"] >= first.value.max() for row in result.figures.rows if row["problem"] == "sizes"
    ]
    assert (
        result.figures.row("random_search", "sizes")["fraction_of_optimum"] != 1.0
    )  # it is not known
    before = (tmp_path / "runs.jsonl").read_bytes()
    again = study(names, [file, "branin"], 2, path=tmp_path / "runs.jsonl")
    assert (tmp_path / "runs.jsonl").read_bytes() == before
    assert again.to_dataframe().equals(frame)


def test_what_changes_a_measured_value_is_noticed(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    study(["random_search"], [file], 1, 2, path=path)
    for name, old, new, message in (
        ("sizes.toml", "-c f.c", "-g -c f.c", r"context: \[evaluator\] build = 'gcc"),
        ("sizes.toml", "<= 600", "<= 500", "limits = "),
        ("sizes.toml", "high = 9", "high = 8", "digest = "),
        ("f.c", "x * room", "x + room", "sizes: context: .*f.c"),
    ):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace(old, new))
        with pytest.raises(JournalError, match=message):
            study(["random_search"], [file], 1, 2, path=path)
        (tmp_path / name).write_text(text)
    study(["random_search"], [file], 1, 2, path=path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[objective]", '[[objective]]\nname = "size"\n\n[[objective]]', r"cannot have several"),
        ("[budget]", "[budgets]", r"there is no table \[budgets\]"),
    ],
)
def test_run_files_that_cannot_be_compared(file: Path, old: str, new: str, message: str) -> None:
    text = RUN_FILE.replace('name = "size"', 'name = "room"') if "[[" in new else RUN_FILE
    file.write_text(text.replace(old, new))
    with pytest.raises(RunFileError, match=message):
        study(["random_search"], [file])


def test_a_broken_evaluator_ends_a_study(file: Path) -> None:
    file.write_text(RUN_FILE.replace('build = "gcc', 'build = "no_such_compiler'))
    with pytest.raises(EvaluatorError, match="no_such_compiler"):
        study(["random_search"], [file])


# Interrupted studies


NAMES = ["auto", "simulated_annealing", "optuna:TPESampler"]

SCRIPT = f"""
import sys
from baco_like.benchmarking import study

if __name__ == "__main__":
    number = int(sys.argv[1])
    study({NAMES}, ["sizes.toml", "tour_8"], 1, 9, path="killed.jsonl", processes=number)
"""


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_a_killed_study_goes_on_within_a_run(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", str(processes)]
    killed = Path("killed.jsonl")
    with subprocess.Popen(command) as process:
        ends = time.monotonic() + 200
        while not (killed.exists() and killed.read_bytes().count(b'"problem":"sizes"') > 4):
            assert time.monotonic() < ends
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    kept = killed.read_bytes()
    assert kept.count(b'"event":"finished"') < 6
    result = study(NAMES, ["sizes.toml", "tour_8"], 1, 9, path="killed.jsonl")
    assert killed.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])
    assert cells(result).equals(cells(study(NAMES, ["sizes.toml", "tour_8"], 1, 9)))
    events = [json.loads(line) for line in killed.read_text().splitlines()]
    measured = [e for e in events if e["event"] == "evaluated"]
    assert len(measured) == len(cells(result)) == 6 * 9  # nothing was measured twice


# More evaluations


class Steps:
    """A foreign tool whose suggestions depend on the number of evaluations."""

    def __init__(self, problem: Any, seed: int, evaluations: int) -> None:
        self.given = problem.space.sample(40, seed if evaluations == 5 else seed + 9)

    def ask(self) -> Any:
        return self.given.pop()

    def tell(self, config: Any, value: float | None) -> None:
        pass


def test_a_study_with_more_evaluations_equals_one_made_at_once(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def count(config: Any) -> float:
        calls.append(config["x"])
        return (config["x"] - 7) ** 2 or None

    counted = problems.FunctionProblem("counted", Space({"x": range(30)}), count)
    given = ["auto", "simulated_annealing", Steps], [counted, file]
    path = tmp_path / "runs.jsonl"
    study(*given, 1, 5, path=path)
    few, stored = len(calls), path.read_bytes()
    capfd.readouterr()
    grown = study(*given, 1, 9, path=path)
    said = capfd.readouterr().err
    more = len(calls) - few
    at_once = study(*given, 1, 9)
    assert cells(grown).equals(cells(at_once))
    assert path.read_bytes().startswith(stored)
    # Auto goes on, and Steps is measured anew.
    assert "Steps: 2 runs measured anew: its suggestions depend on the number" in said
    assert "auto" not in said.replace("auto on", "")
    checks = 3
    assert 4 + 4 + 6 <= more - checks <= 4 + 9 + 6
    once = path.read_bytes()
    assert cells(study(*given, 1, 9, path=path)).equals(cells(grown))
    assert path.read_bytes() == once


def test_a_finished_space_is_not_run_again(tmp_path: Path) -> None:
    small = problems.FunctionProblem("small", Space({"x": [1, 2, 3]}), lambda c: c["x"])
    path = tmp_path / "runs.jsonl"
    study(["random_search"], [small], 2, 9, path=path)
    before = path.read_bytes()
    study(["random_search"], [small], 2, 9, path=path)
    assert path.read_bytes() == before
