"""Warm starts in the TOML file of ``baco-like tune``."""

import json

import pytest

from baco_like import Optimizer, WarmStart, cli
from baco_like.running.run_file import read

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
    assert read(written(folder, text)).warm_start == (
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
