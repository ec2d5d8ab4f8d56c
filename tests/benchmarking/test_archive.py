"""Archives of studies: read without running anything, repeated, and refused where they are wrong."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import forked
import pytest
from recorded_table import t4

from baco_like import StrategyError
from baco_like.benchmarking import problems, studies, study
from baco_like.cli import main

MODULE = """
from baco_like import Integer
from baco_like.benchmarking.problems import problem

@problem({"x": Integer(0, 20)}, direction="maximize", optimum=20.0)
def line(config):
    print("called", flush=True)
    return None if config["x"] == 3 else config["x"]

class Draws:
    def __init__(self, problem, seed, evaluations):
        self.drawn = problem.space.sample(99, seed)

    def ask(self):
        return self.drawn.pop()

    def tell(self, config, value):
        pass
"""

RUN_FILE = """
[space.word]
type = "categorical"
values = ["a", "bb", "ccc", "wrong"]
default = "bb"

[objective]
name = "length"
exact = true

[evaluator]
kind = "command"
run = "sh length.sh {word}"
measure = "regex"
pattern = "([0-9]+)"

[budget]
evaluations = 3
"""

LENGTH = "[ $1 != wrong ] && echo ${#1}\n"

FILES = ("table.md", "table.tex", "figures.csv", "evaluations.csv")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_figures: None) -> Path:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/one.json").write_text(json.dumps(t4()))
    (tmp_path / "length.sh").write_text(LENGTH)
    (tmp_path / "word.toml").write_text(RUN_FILE)
    (tmp_path / "archived.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "archived", raising=False)
    return tmp_path


def compare(*words: str) -> int:
    return main(["compare", *words, "--repeats", "2", "--jobs", "1"])


def test_an_archive_makes_the_same_tables_and_repeats_the_study(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ["word.toml", "archived:line", "listed_flags", "tables"]
    given = [*names, "--strategies", "own=archived:Draws,small=genetic_algorithm:population=3"]
    assert compare(*given, "--budget", "3", "--out", "out", "--archive", "paper.zip") == 0
    said = capfd.readouterr().out
    assert (
        "Problems without a score: word (the distribution of its values is unknown); line" in said
    )
    assert "called" in said
    # In another folder, with nothing but the archive.
    other = folder / "other"
    other.mkdir()
    shutil.move("paper.zip", other)
    os.chdir(other)
    sys.modules.pop("archived")
    assert compare("paper.zip", "--out", "opened") == 0
    assert "called" not in capfd.readouterr().out
    for name in FILES:
        assert (other / "opened" / name).read_bytes() == (folder / "out" / name).read_bytes()
    assert {path.suffix for path in (other / "opened").iterdir()} == {
        ".md",
        ".tex",
        ".csv",
        ".png",
    }
    with zipfile.ZipFile("paper.zip") as archive:
        names = archive.namelist()
        plan = json.loads(archive.read("study.json"))
    assert {"curves.pdf", "ranks.pdf", "scores.pdf", "wins.pdf", *FILES} <= set(names)
    inputs = {name.removeprefix("inputs/") for name in names if name.startswith("inputs/")}
    assert inputs == {
        *(
            "archived.py",
            "recorded/one.json",
            "run_files/word/length.sh",
            "run_files/word/word.toml",
        )
    }
    assert plan["seeds"] == [0, 1]
    assert plan["versions"]["numpy"]
    assert plan["machine"]["cpus"]
    assert "name" not in plan["machine"]
    # The measurements again, from the inputs of the archive.
    assert compare("paper.zip", "--out", "opened", "--again") == 0
    said = capfd.readouterr().out
    assert "called" in said
    rows = [line.split(" | ") for line in said.split("Again:")[1].splitlines() if "| own" in line]
    assert [row[2:4] for row in rows] == [["6 of 6", "6 of 6"]] * 4
    assert [row[-1] for row in rows] == ["+0 |"] * 4
    # A changed program gives other values.
    changed = other / "opened/again/inputs/run_files/word/length.sh"
    assert changed.read_text() == LENGTH
    with zipfile.ZipFile("paper.zip") as old, zipfile.ZipFile("new.zip", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(
                name, data + b"[ $1 != wrong ] && echo 9\n" if name.endswith("length.sh") else data
            )
    assert compare("new.zip", "--out", "changed", "--again") == 0
    (row,) = (
        r for r in capfd.readouterr().out.split("Again:")[1].splitlines() if "own | word" in r
    )
    assert "| 6 of 6 | " in row
    assert "| 6 of 6 | 6 of 6 |" not in row


def test_a_study_in_python_has_an_archive_with_its_script(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    import archived  # type: ignore[import-not-found]

    result = study({"own": archived.Draws}, [archived.line], 2, 4)
    studies.write_archive(result, "own.zip")
    found = studies.read_archive("own.zip")
    assert found.to_dataframe().equals(result.to_dataframe())
    assert studies.to_markdown(found.figures) == studies.to_markdown(result.figures)
    with pytest.raises(
        StrategyError, match=r"own cannot be made again without the script .* inputs"
    ):
        studies.repeat_study("own.zip", folder / "again")
    # The script makes the tables and the figures again.
    with zipfile.ZipFile("own.zip") as archive:
        assert archive.read("inputs/archived.py").decode() == MODULE
        for name in ("again.py", "study.json", "evaluations.csv"):
            archive.extract(name, "unpacked")
    done = forked.run("unpacked/again.py", "made")
    assert done.returncode == 0, done.stderr
    assert Path("made/table.md").read_text() == studies.to_markdown(result.figures)
    assert Path("made/curves.pdf").read_bytes().startswith(b"%PDF")


def test_drawn_values_and_times_survive(folder: Path) -> None:
    result = study(["random_search", "genetic_algorithm"], [Path("tables")], 3, 20, draw=True)
    studies.write_archive(result, "drawn.zip")
    found = studies.read_archive("drawn.zip")
    assert found.figures.time["random_search"].score == result.figures.time["random_search"].score
    assert studies.to_csv(found.figures) == studies.to_csv(result.figures)
    again = studies.repeat_study("drawn.zip", folder / "again")
    assert (
        studies.to_csv(again.figures).splitlines()[0]
        == studies.to_csv(result.figures).splitlines()[0]
    )
    for run, other in zip(result.runs, again.runs, strict=True):
        assert run.costs.tolist() == pytest.approx(other.costs.tolist(), nan_ok=True)


def forged(path: Path, **members: Any) -> Path:
    base = study(["random_search"], [problems.load_problem("branin")], 1, 2)
    studies.write_archive(base, path.with_suffix(".old.zip"))
    with zipfile.ZipFile(path.with_suffix(".old.zip")) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            if name not in members:
                new.writestr(name, old.read(name))
        for name, data in members.items():
            new.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"study.json": "{}"}, "not the archive of a study: 'problems'"),
        ({"study.json": "[" * 5000}, "nested more than"),
        ({"study.json": "nothing"}, "not the archive of a study"),
        ({"study.json": "[1]"}, "not the archive of a study"),
        ({"evaluations.csv": "a,b\n1,2\n"}, "not the archive of a study"),
        ({"evaluations.csv": b"\xff\x00"}, "not the archive of a study"),
    ],
)
def test_wrong_archives_are_explained(folder: Path, members: Any, message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        studies.read_archive(forged(folder / "a.zip", **members))


def test_what_is_no_archive_is_explained(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "a.zip"
    assert main(["compare", str(path), "--out", str(tmp_path / "out")]) == 2
    path.write_bytes(b"PK")
    assert main(["compare", str(path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("is not the archive of a study") == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", ["inputs/../../out.txt", "inputs/a/../../../out.txt", "inputs/C:out", "inputs/a\\..\\b"]
)
def test_no_input_leaves_its_folder(folder: Path, name: str) -> None:
    path = forged(folder / "a.zip", **{name: "x"})
    studies.read_archive(path)
    with pytest.raises(StrategyError, match="outside the archive"):
        studies.repeat_study(path, folder / "b/c")
    assert not list(folder.rglob("*out*"))  # nothing was written


def test_other_names_are_not_unpacked(folder: Path) -> None:
    path = forged(folder / "a.zip", **{"/abs.txt": "x", "../up.txt": "x", "inputs/own.txt": "x"})
    studies.repeat_study(path, folder / "b")
    assert {p.name for p in (folder / "b").rglob("*") if p.is_file()} == {"own.txt", "runs.jsonl"}
    assert not list(folder.rglob("up.txt"))


def test_a_bomb_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = forged(folder / "a.zip", filler=b"0" * 3_000_000)
    monkeypatch.setattr("baco_like.benchmarking.studies.archive._MOST_BYTES", 2**20)
    with pytest.raises(StrategyError, match="more than 10000 files or 1 MiB"):
        studies.read_archive(path)
