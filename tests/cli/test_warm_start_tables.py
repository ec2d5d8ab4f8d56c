"""Warm starts in run files; values of another program, machine or unit are never compared with those of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from baco_like import Optimizer, Space, WarmStart, cli
from baco_like.exceptions import ConfigError, WarmStartWarning
from baco_like.journal.header import UNIT
from baco_like.results import read, write
from baco_like.running.run_file import read as read_run_file

FILE = """
[space.tile]
type = "ordinal"
values = [8, 16, 32, 64]
[space.fast]
type = "categorical"
values = ["no", "yes"]
[evaluator]
kind = "replay"
file = "table.json"
[budget]
evaluations = 3
"""


@pytest.fixture
def folder(tmp_path):
    rows = [
        {"tile": tile, "fast": fast, "time": tile / (1 + (fast == "yes"))}
        for tile in (8, 16, 32, 64)
        for fast in ("no", "yes")
    ]
    names = ["tile", "fast"]
    table = {
        "tune_params_keys": names,
        "tune_params": {name: list({row[name] for row in rows}) for name in names},
        "cache": {f"{row['tile']},{row['fast']}": row for row in rows},
    }
    (tmp_path / "table.json").write_text(json.dumps(table))
    return tmp_path


def written(folder, text):
    path = folder / "job.toml"
    path.write_text(FILE + text)
    return path


def test_relative_files_and_several_sources(folder):
    text = """
[[warm_start]]
file = "table.json"
[[warm_start]]
file = "old/run.jsonl"
mode = "configs"
best = 2
"""
    assert read_run_file(written(folder, text)).warm_start == (
        WarmStart(folder / "table.json"),
        WarmStart(folder / "old" / "run.jsonl", "configs", best=2),
    )


@pytest.mark.filterwarnings("default")
def test_a_warning_about_the_source_is_printed_once(folder, capsys):
    path = written(folder, '[warm_start]\nfile = "known.csv"\nmode = "prior"\n')
    (folder / "known.csv").write_text("tile,value\n8,1\n16,2\n32,3\n7,4\n")
    assert cli.main(["tune", str(path), "--out", str(folder / "out"), "--budget", "2"]) == 0
    assert capsys.readouterr().err.count("1 of 4 results are left out") == 1


def test_a_run_begins_with_it_and_resumes_without_the_source(folder, capsys):
    text = '[warm_start]\nfile = "known.json"\nmode = "configs"\nbest = 1\n'
    (folder / "known.json").write_text((folder / "table.json").read_text())
    path, out = written(folder, text), folder / "out"
    assert cli.main(["tune", str(path), "--out", str(out), "--budget", "2"]) == 0
    assert json.loads((out / "best.json").read_text())["value"] == 4.0
    (folder / "known.json").unlink()
    assert cli.main(["tune", str(path), "--out", str(out), "--resume"]) == 0
    assert len(Optimizer.load(out / "run.jsonl").trials) == 3


@pytest.mark.parametrize(
    "text",
    [
        '[warm_start]\nfile = "missing.json"\n',
        '[warm_start]\nfile = "table.json"\nmode = "prior"\n[optimizer]\nstrategy = "random_search"\n',
    ],
)
def test_what_cannot_be_used_ends_in_one_line(folder, text, capsys):
    out = folder / "out"
    assert cli.main(["tune", str(written(folder, text)), "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


@pytest.mark.filterwarnings("default:.*does not say how its values were measured")
def test_successes_of_earlier_runs_do_not_hide_a_run_without_any(folder, capsys):
    path = written(folder, '[warm_start]\nfile = "earlier.csv"\n')
    text = path.read_text().replace('kind = "replay"\nfile = "table.json"', 'kind = "command"')
    text = text.replace(
        'kind = "command"', 'kind = "command"\nrun = "false {tile} {fast}"\nmeasure = "wall"'
    )
    text = text.replace("evaluations = 3", "evaluations = 5\nidentical_failures = 2")
    path.write_text(text + "[objective]\nunit = 's'\n")
    (folder / "earlier.csv").write_text("tile,fast,value\n8,no,3.5\n16,no,4.5\n")
    assert cli.main(["tune", str(path), "--out", str(folder / "out")]) == 1
    assert "2 evaluations in a row failed alike" in capsys.readouterr().err


# ---- Values of another program, machine or unit are never compared with those of a run ----


COMMAND_FILE = """
[space.x]
type = "integer"
low = 1
high = 8
default = 1
[objective]
unit = "ms"
[evaluator]
kind = "command"
run = "expr {ADDED} + {{x}}"
measure = "regex"
pattern = "(.*)"
[optimizer]
strategy = "random_search"
[budget]
evaluations = 6
"""


def tune(folder: Path, added: int, more: str = "", out: str = "out", *options: str) -> int:
    (folder / "job.toml").write_text(COMMAND_FILE.format(ADDED=added) + more)
    path = str(folder / out)
    return cli.main(["tune", str(folder / "job.toml"), "--out", path, *options])


def test_the_way_out_of_a_refused_resume_compares_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path, 50) == 0
    assert tune(tmp_path, 100, "", "out", "--resume") == 2
    message = capsys.readouterr().err
    (file,) = re.findall("file = '(.*?)'", message)
    (mode,) = re.findall("mode = '(.*?)'", message)
    # Without the mode, the old values would win: it is refused, and the differences are named.
    assert tune(tmp_path, 100, f"[warm_start]\nfile = '{file}'\n", "data") == 2
    message = capsys.readouterr().err
    assert "expr 50 + {x}" in message
    assert "mode='prior'" in message
    # Done exactly so, all values are of the new program.
    more = f"[warm_start]\nfile = '{file}'\nmode = '{mode}'\n"
    more = more + "[optimizer]\nstrategy = 'auto'\n"
    text = COMMAND_FILE.replace('[optimizer]\nstrategy = "random_search"\n', "")
    (tmp_path / "job.toml").write_text(text.format(ADDED=100) + more)
    assert cli.main(["tune", str(tmp_path / "job.toml"), "--out", str(tmp_path / "new")]) == 0
    best = json.loads((tmp_path / "new" / "best.json").read_text())
    assert 101 <= best["value"] <= 108
    assert all(t.value > 100 for t in Optimizer.load(tmp_path / "new" / "run.jsonl").trials)


def test_results_of_the_same_evaluator_count_and_the_default_is_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path, 50) == 0
    assert (
        tune(tmp_path, 50, "[warm_start]\nfile = 'out/run.jsonl'\n", "again", "--budget", "1") == 0
    )
    trials = Optimizer.load(tmp_path / "again" / "run.jsonl").trials
    assert [t.origin for t in trials] == ["warm"] * 6 + ["enqueued"]
    assert trials[-1]["x"] == 1
    assert "may not be comparable" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["t4", "kernel_tuner", "ktt"])
def test_exported_results_keep_their_origin(tmp_path: Path, kind: str) -> None:
    assert tune(tmp_path, 50) == 0
    write(read(tmp_path / "out" / "run.jsonl"), tmp_path / "old.json", kind)
    assert tune(tmp_path, 50, "[warm_start]\nfile = 'old.json'\n", "same") == 0
    assert tune(tmp_path, 100, "[warm_start]\nfile = 'old.json'\n", "other") == 2


@pytest.mark.filterwarnings("default:.*does not say how its values were measured")
def test_a_value_of_the_default_that_differs_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.csv").write_text("x,value\n1,51\n2,50.5\n3,52\n")
    assert tune(tmp_path, 100, "[warm_start]\nfile = 'old.csv'\n") == 0
    out, err = capsys.readouterr()
    assert "does not say how its values were measured" in err
    assert "has 51 for the default, this run has measured 101" in out


# In Python -----------------------------------------------------------------------------------------------------------

SPACE = Space({"x": list(range(8))})


def source(folder: Path, context: dict[str, Any], host: dict[str, Any] | None = None) -> Path:
    """Return the journal of a run with the values 1000 x + 1000, as if another machine had made it."""
    path = folder / "old.jsonl"
    optimizer = Optimizer(SPACE, storage=path, context=context, strategy="random_search")
    for trial in optimizer.suggest(6):
        optimizer.observe(trial, [1000.0 * trial["x"] + 1000, 1000.0 * trial["x"] + 1002])
    return path


def test_units_of_time_are_converted(tmp_path: Path) -> None:
    path = source(tmp_path, {UNIT: "us"})
    for data in (path, Optimizer.load(path)):
        for trial in Optimizer(SPACE, warm_start=data, context={UNIT: "ms"}).trials:
            assert trial.value == pytest.approx(trial["x"] + 1.001)
            assert trial.repeats == pytest.approx((trial["x"] + 1, trial["x"] + 1.002))
            assert trial.sem == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({UNIT: "us"}, {UNIT: "GFLOP/s"}),
        ({"gpu": "A100"}, {"gpu": "H100"}),
        ({"gpu": "A100", "clock": 1}, {"gpu": "A100"}),
        ({"[evaluator] run": "a"}, {"[evaluator] run": "b"}),
        ({"compiler": "gcc 12"}, {"compiler": "gcc 13"}),
    ],
)
def test_other_origins_are_refused(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any]
) -> None:
    path = source(tmp_path, old)
    with pytest.raises(ConfigError, match="use mode='prior'"):
        Optimizer(SPACE, warm_start=path, context=new)
    related = Optimizer(SPACE, warm_start=WarmStart(path, "prior"), context=new)
    assert not related.trials
    pairs = [(t.config, t.value) for t in Optimizer.load(path).trials]
    with pytest.warns(WarmStartWarning, match="does not say"):
        Optimizer(SPACE, warm_start=pairs, context=new)


def test_another_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source(tmp_path, {})
    with monkeypatch.context() as patch:
        patch.setattr("baco_like.optimizer.warm_start.describe_host", lambda: {"cpu": "Z80"})
        with pytest.raises(ConfigError, match=r"machine was .*Z80"):
            Optimizer(SPACE, warm_start=path)
    assert len(Optimizer(SPACE, warm_start=path).trials) == 6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"[evaluator] ahead": 1, "gpu": "A"}, {"gpu": "A"}),
        ({"[evaluator] timeout": 1, "gpu": "A"}, {"[evaluator] timeout": 2, "gpu": "A"}),
        ({"[evaluator] repeats": 1, "gpu": "A"}, {"gpu": "A"}),
        ({"folder": "a", "gpu": "A"}, {"folder": "b", "gpu": "A"}),
        ({}, {"compiler": "gcc 12"}),
        ({"gpu": "A"}, {}),
    ],
)
def test_what_decides_no_value_or_is_unknown_is_accepted(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert len(Optimizer(SPACE, warm_start=source(tmp_path, old), context=new).trials) == 6
