"""No command and no function replaces its input or the results of a run, whatever name the output gives to the file."""

import argparse
import json
import os
import shlex
import signal
from pathlib import Path

import pytest

from baco_like import Optimizer, Ordinal, Space, cli
from baco_like.cli.arguments import build_parser
from baco_like.integrations import write_samples
from baco_like.records import Objective
from baco_like.results import read, write
from baco_like.results.hypermapper_csv import Layout
from baco_like.running.drawing import plot_convergence
from baco_like.shipping import read_table, ship

RUN_FILE = """
[space.tile]
type = "ordinal"
values = [8, 16, 32]
default = 8
[objective]
name = "time"
unit = "ms"
[evaluator]
kind = "replay"
file = "times.csv"
[budget]
evaluations = 3
"""
JOURNAL, BEST = "runs/job/run.jsonl", "runs/job/best.json"
TABLE, TIMES, FILE, OTHER = "tuned.json", "times.csv", "job.toml", "other.jsonl"

CHECKED = "check tuned.json --run-file job.toml --report OUT"
COMPARED = "compare times.csv --strategies random_search --out OUT"

REFUSED = {
    "ship": [
        ("ship runs/job --format json --out OUT", (JOURNAL, f"{JOURNAL}.lock", BEST, OTHER)),
        ("ship runs/job/run.jsonl --format c --out OUT", (JOURNAL, BEST)),
        ("ship tuned.json --format python --out OUT", (TABLE, OTHER)),
    ],
    "check": [
        (CHECKED, (TABLE, TIMES, FILE, JOURNAL)),
        ("check job.toml --report OUT", (JOURNAL, BEST, FILE, OTHER)),
    ],
    "report": [("report runs/job -o OUT", (JOURNAL, BEST, OTHER))],
    "export": [("export times.csv OUT --format csv", (TIMES, BEST, OTHER))],
    "repair": [("repair runs/job/run.jsonl OUT", (JOURNAL, BEST, OTHER))],
    "compare": [
        (f"{COMPARED}/table.md", (TIMES, OTHER)),
        (f"{COMPARED}/ranks.png", (TIMES, OTHER)),
    ],
    "tune": [
        ("tune job.toml --out OUT/best.json", (FILE, TIMES, OTHER)),
        ("tune job.toml --out OUT/report.html", (FILE, OTHER)),
    ],
    "serve": [("serve scenario.json", (OTHER,))],
    "flags": [
        ("flags 'gcc {flags} a.c -o {workdir}/a' --size --file OUT", (FILE, TIMES, JOURNAL, OTHER))
    ],
    "passes": [("passes a.c --opt opt --file OUT", (FILE, TIMES, JOURNAL, OTHER))],
}
WRITE_NOTHING = {"mcp", "show", "watch", "schema", "strategies"}  # mcp: without --write
RUN_COMMANDS_OF_THE_USER = {"rebuild", "simplify"}
CASES = [
    (words, Path(file)) for cases in REFUSED.values() for words, files in cases for file in files
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run file with its results, the journal of a run that is going on, a table, and another journal."""
    folder = tmp_path_factory.mktemp("outputs")
    (folder / FILE).write_text(RUN_FILE)
    (folder / TIMES).write_text("tile,time\n8,4\n16,3\n32,2\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(signal, "signal", lambda number, handler: None)
        assert cli.main(["tune", FILE]) == 0
        assert cli.main(["ship", "runs/job", "--format", "json", "--out", TABLE]) == 0
        opt = Optimizer(Space({"x": [1, 2]}), storage=OTHER)
        opt.observe(opt.suggest(), 1.0)
        Path(f"{JOURNAL}.lock").touch()
    return folder


@pytest.fixture
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    return folder


def contents(folder):
    """Return the bytes, or the target, of all files and links below a folder."""
    files = [path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]
    return {f: os.readlink(f) if f.is_symlink() else f.read_bytes() for f in files}


def name_of(protected, kind, place):
    """Return a name of a file: its own, or that of a link in another folder."""
    if kind == "itself":
        return protected
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "symbolic link":
        place.symlink_to(protected.resolve())
    else:
        os.link(protected, place)
    return place


def test_every_command_is_tested_or_writes_nothing():
    (commands,) = (
        action.choices
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert set(commands) == REFUSED.keys() | WRITE_NOTHING | RUN_COMMANDS_OF_THE_USER


@pytest.mark.parametrize("kind", ["itself", "symbolic link", "hard link"])
@pytest.mark.parametrize(("words", "protected"), CASES)
def test_an_output_that_is_an_input_or_a_journal_is_refused(
    inside, tmp_path, capsys, words, protected, kind
):
    name = words.rpartition("OUT/")[2] if "OUT/" in words else "output"
    if words.startswith("serve"):
        name = "samples.csv"
        scenario = {"application_name": "a", "optimization_objectives": ["t"]}
        scenario |= {"hypermapper_mode": {"mode": "client-server"}}
        scenario |= {"input_parameters": {"x": {"parameter_type": "integer", "values": [0, 9]}}}
    if "OUT/" in words and kind == "itself":
        pytest.skip("the command names this file itself")
    target = name_of(protected, kind, tmp_path / name)
    words = words.replace(f"OUT/{name}", str(target.parent)).replace("OUT", str(target))
    if words.startswith("serve"):
        file = tmp_path / "scenario.json"
        file.write_text(json.dumps({**scenario, "output_data_file": str(target.absolute())}))
        words = f"serve {file} --allow-dir {tmp_path} --allow-dir {inside}"
    before = contents(inside), contents(tmp_path)
    assert cli.main(shlex.split(words)) == 2
    assert target.name in capsys.readouterr().err
    assert (contents(inside), contents(tmp_path)) == before


LAYOUT = Layout({"tile": Ordinal([8, 16, 32])}, "time")

WRITERS = {
    "Optimizer.ship": lambda opt, path: opt.ship("json", path),
    "Optimizer.export": lambda opt, path: opt.export("csv", path),
    "write": lambda opt, path: write(read(TIMES), path, "csv"),
    "ship": lambda opt, path: ship(read_table(TABLE), "c", path),
    "plot_convergence": lambda opt, path: plot_convergence(opt.history, Objective(), path),
    "write_samples": lambda opt, path: write_samples(path, opt.trials, LAYOUT),
}


@pytest.mark.parametrize("kind", ["itself", "symbolic link", "hard link"])
@pytest.mark.parametrize("protected", [JOURNAL, OTHER])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_function_replaces_a_journal(inside, tmp_path, writer, protected, kind):
    opt = Optimizer.load(JOURNAL)
    target = name_of(Path(protected), kind, tmp_path / "output")
    before = contents(inside), contents(tmp_path)
    with pytest.raises(
        (OSError, ValueError), match=r"the results of a run|a file of the run|not supported"
    ):
        WRITERS[writer](opt, target)
    assert (contents(inside), contents(tmp_path)) == before


@pytest.mark.parametrize("writer", ["Optimizer.ship", "Optimizer.export"])
def test_an_optimizer_keeps_the_other_files_of_its_run(inside, writer):
    opt = Optimizer.load(JOURNAL)
    for file in (BEST, f"{JOURNAL}.lock"):
        before = Path(file).read_bytes()
        with pytest.raises(OSError, match="a file of the run"):
            WRITERS[writer](opt, file)
        assert Path(file).read_bytes() == before


def test_inputs_may_be_named_to_the_functions(inside, tmp_path):
    link = name_of(Path(TIMES), "symbolic link", tmp_path / "times.csv")
    with pytest.raises(OSError, match="an input"):
        write(read(TIMES), link, "t4", inputs=[TIMES])
    with pytest.raises(OSError, match="an input"):
        ship(read_table(TABLE), "c", TABLE, inputs=["missing", "\0", TABLE])


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_replaces_a_link_and_keeps_its_target(inside, tmp_path, writer):
    other, link = tmp_path / "other", tmp_path / "output"
    for target in (other, tmp_path / "missing"):
        other.write_bytes(b"kept")
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        WRITERS[writer](Optimizer.load(JOURNAL), link)
        assert not link.is_symlink()
        assert link.stat().st_size
        assert other.read_bytes() == b"kept"
        assert not (tmp_path / "missing").exists()


def test_recording_a_baseline_updates_the_table_behind_a_link(inside, tmp_path):
    table, link = tmp_path / "shipped.json", tmp_path / "link.json"
    table.write_bytes(Path(TABLE).read_bytes())
    link.symlink_to(table)
    assert cli.main(["check", str(link), "--run-file", FILE, "--record"]) == 0
    assert link.is_symlink()
    assert read_table(table).entries[0].evidence.ratios
