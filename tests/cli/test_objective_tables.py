"""Run files with several objectives: what is read and refused, the files of the result, and the texts of `show`."""

import json
from pathlib import Path

import pytest

from baco_like import Optimizer
from baco_like.cli import main
from baco_like.records import Objective
from baco_like.running.run_file import read

TEXT = (Path(__file__).parent / "golden" / "objectives.toml").read_text()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(TEXT)
    return path


def test_the_tables_are_read_in_order(file):
    run_file = read(file)
    assert run_file.aim.first == Objective("time", "ms")
    assert run_file.aim.objectives == (
        Objective("time", "ms"),
        Objective("rate", direction="maximize"),
    )


def test_one_table_in_brackets_is_one_objective(file):
    text = TEXT.replace('[[objective]]\nname = "rate"\ndirection = "maximize"\n', "")
    file.write_text(text)
    assert read(file).aim.several == ()
    assert read(file).aim.first == Objective("time", "ms")


def test_a_run_writes_the_front_and_show_describes_it(file, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["tune", str(file), "--out", str(out)]) == 0
    assert "front of 3: time 11 to 41 ms, rate 1 to 4" in capsys.readouterr().out
    content = json.loads((out / "best.json").read_text())
    assert [point["values"] for point in content["front"]] == [
        {"time": 11, "rate": 1},
        {"time": 21, "rate": 2},
        {"time": 41, "rate": 4},
    ]
    assert content["config"] in [point["config"] for point in content["front"]]
    assert main(["show", str(out / "run.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "front of 3: time 11 to 41 ms, rate 1 to 4" in shown
    assert "time (ms)" in shown
    assert "outlook" not in shown
    assert main(["watch", str(out / "run.jsonl")]) == 0
    assert "best time so far" in capsys.readouterr().out
    file.write_text(TEXT.replace('direction = "maximize"', 'direction = "minimize"'))
    assert main(["tune", str(file), "--out", str(out), "--resume"]) != 0
    assert "objectives was" in capsys.readouterr().err


def test_the_report_has_the_front(file, tmp_path, capsys):
    pytest.importorskip("vl_convert")
    out = tmp_path / "out"
    assert main(["tune", str(file), "--out", str(out), "--report"]) == 0
    page = (out / "report.html").read_text()
    assert "No configuration is the best in all objectives: front of 3" in page
    assert "The front: rate over time" in page
    assert "There is no estimate for several objectives." in page
    assert "Importance for rate" in page
    assert "Tuning of time (ms) and rate" in page
    assert "A peak is the best value of one objective." in page
    assert "Write the best value that the machine allows" not in page
    assert main(["report", str(out / "run.jsonl"), "--peak", "10"]) != 0
    assert "the run has several objectives, and a peak" in capsys.readouterr().err


@pytest.mark.filterwarnings("default::baco_like.exceptions.FailureWarning")
def test_an_objective_that_is_nan_is_a_failure_and_the_run_goes_on(file, tmp_path, capsys):
    values = "time: %s rate: %s' {a} {b}"
    file.write_text(
        TEXT.replace("time: %s%s rate: %s' {a} {b} {a}", values)
        .replace("values = [1, 2, 4]\ndefault = 1", 'values = ["nan", "3"]')
        .replace("evaluations = 8", "evaluations = 6")
    )
    out = tmp_path / "out"
    assert main(["tune", str(file), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "runtime: rate: the value nan is not a finite number" in shown
    assert "6 evaluations; failures: runtime 3" in shown


def test_a_trial_is_shown_with_the_repeats_of_each_objective(tmp_path, capsys):
    objectives = {"time": "minimize", "energy": "minimize"}
    run = Optimizer({"a": [1, 2]}, objectives, storage=tmp_path / "run.jsonl")
    run.observe(run.suggest(), {"time": [1.5, 2.5], "energy": [3.0, 4.5, 5.0]})
    assert main(["show", str(tmp_path / "run.jsonl"), "--trial", "0"]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {"time 2", "repeats 1.5, 2.5", "energy 4.5", "repeats, energy 3, 4.5, 5"} <= set(shown)


def test_a_prior_from_an_earlier_run(file, tmp_path):
    """The earlier run is the same, so the second suggestion is on the front."""
    assert main(["tune", str(file), "--out", str(tmp_path / "first")]) == 0
    warm = '[[warm_start]]\nfile = "first/run.jsonl"\nmode = "prior"\n'
    file.write_text(TEXT.replace("evaluations = 8", "evaluations = 4") + warm)
    assert main(["tune", str(file), "--out", str(tmp_path / "second")]) == 0
    optimizer = Optimizer.load(tmp_path / "second" / "run.jsonl")
    told = [trial["b"] for trial in optimizer.trials if (trial.tag or {}).get("phase") == "sources"]
    assert told == [1]
