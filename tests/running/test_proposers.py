"""Commands that propose configurations while a run goes on."""

import copy
import json
import shlex
import sys
import time

import pytest

from baco_like import BacoWarning, MaxEvals, Optimizer, Space, cli, tune
from baco_like.records.sources import source_of
from baco_like.running import Proposer

SPACE = Space({"tile": range(1, 100), "unroll": [1, 2, 4]}, constraints=["tile * unroll <= 300"])


def command(folder, text):
    """Return the command that runs a Python program."""
    path = folder / "ideas.py"
    path.write_text(text)
    return shlex.join([sys.executable, str(path)])


def wait_for(proposer):
    """Wait until the command has ended."""
    proposer._thread.join(30)
    assert not proposer._thread.is_alive()


def step(optimizer, proposer):
    """Observe one trial, and wait for the command if the callback has started it."""
    optimizer.observe(trial := optimizer.suggest(), float(trial["tile"]))
    if proposer._thread is not None:
        wait_for(proposer)


def search(optimizer, proposer, n):
    for _ in range(n):
        step(optimizer, proposer)


def begin(proposer, **arguments):
    return Optimizer(SPACE, strategy="random_search", callbacks=[proposer], **arguments)


IDEAS = """
import json, sys
run = json.load(sys.stdin)
open(sys.argv[0] + ".log", "a").write(json.dumps(run) + "\\n")
print(json.dumps({"config": {"tile": 3, "unroll": 1}, "note": "small"}))
print()
print(json.dumps({"config": {"tile": 99, "unroll": 4}}))
"""


def test_the_command_reads_the_run_and_its_proposals_are_tried(tmp_path):
    proposer = Proposer(command(tmp_path, IDEAS))
    optimizer = begin(proposer)
    optimizer.observe({"tile": 50, "unroll": 2}, failed="compile", message="too large")
    wait_for(proposer)
    search(optimizer, proposer, 7)
    own = [trial for trial in optimizer.trials if source_of(trial) == proposer.source]
    assert [(dict(t), t.tag["note"]) for t in own] == [({"tile": 3, "unroll": 1}, "small")]
    first, second = map(json.loads, (tmp_path / "ideas.py.log").read_text().splitlines())
    assert Space.from_dict(first["space"]).names == SPACE.names
    assert first["objectives"] == [{"name": "value", "direction": "minimize"}]
    assert first["best"] == first["refused"] == []
    assert first["failed"] == [
        {"config": {"tile": 50, "unroll": 2}, "failed": "compile", "message": "too large"}
    ]
    assert first["wanted"] == 8
    assert second["best"][0]["value"] == min(t["value"] for t in second["best"])
    (refused,) = second["refused"]
    assert refused["reason"].startswith("infeasible: tile * unroll <= 300 violated")
    assert SPACE.contains(refused["nearest"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print('no JSON')", "'no JSON' is not a line such as"),
        ("print('[1]')", "is not a line such as"),
        ("print('{\"config\": 3}')", "is not a line such as"),
        ("raise SystemExit('no key')", "exit code 1: no key"),
        ("import time; time.sleep(60)", "stopped after"),
    ],
)
def test_an_error_is_a_warning_and_after_three_the_command_is_not_asked_again(
    tmp_path, text, message
):
    proposer = Proposer(command(tmp_path, text), seconds=0.3 if "sleep" in text else 30)
    optimizer = begin(proposer)
    with pytest.warns(BacoWarning) as caught:
        search(optimizer, proposer, 20)
    texts = [str(w.message) for w in caught]
    assert len(texts) == 3
    assert all(message in text for text in texts)
    assert [text.endswith("it is not asked again") for text in texts] == [False, False, True]
    assert proposer._thread is None


def test_a_missing_program_does_not_end_the_run():
    proposer = Proposer("no_such_program_here")
    with pytest.warns(BacoWarning, match="no_such_program_here"):
        result = tune(
            lambda trial: (time.sleep(0.05), float(trial["tile"]))[1],
            SPACE,
            MaxEvals(20),
            strategy="random_search",
            callbacks=[proposer],
            progress=False,
        )
    assert len(result.trials) == 20


def test_close_ends_a_command_that_runs(tmp_path):
    proposer = Proposer(command(tmp_path, "import time; time.sleep(600)"), seconds=600)
    optimizer = begin(proposer)
    optimizer.observe(optimizer.suggest(), 1.0)
    started = time.monotonic()
    proposer.close()
    assert time.monotonic() - started < 60
    assert not proposer._thread.is_alive()


def test_an_optimizer_with_a_proposer_is_copied(tmp_path):
    optimizer = begin(Proposer(["python3", "ideas.py"], seconds=5))
    copied = copy.deepcopy(optimizer)
    (proposer,) = copied._callbacks
    assert proposer.source == "python3 ideas.py"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"command": ""}, "expected a program"), ({"command": "x", "seconds": 0}, "seconds = 0")],
)
def test_wrong_arguments_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        Proposer(**arguments)


RUN_FILE = """
[space.tile]
type = "integer"
low = 1
high = 99
[evaluator]
kind = "command"
run = "{python} -c 'import os; print(os.environ[\\"BACO_TILE\\"])'"
measure = "regex"
pattern = "(.*)"
[objective]
name = "time"
[budget]
evaluations = 12
[optimizer]
strategy = "random_search"
proposers = ["{python} ideas.py"]
"""


def test_a_run_file_names_proposers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ideas.py").write_text('print(\'{"config": {"tile": 2}, "note": "tiny"}\')')
    (tmp_path / "run.toml").write_text(RUN_FILE.replace("{python}", sys.executable))
    assert cli.main(["tune", "run.toml", "--out", "out"]) == 0
    trials = Optimizer.load("out/run.jsonl").trials
    (own,) = [trial for trial in trials if trial.origin == "proposed"]
    assert (dict(own), own.tag["note"]) == ({"tile": 2}, "tiny")
    output = capsys.readouterr().out
    assert f"trial {own.id} of {own.tag['source']:.40}: 2" in output
    assert f"Found by {own.tag['source']}: 1 trial, " in output


def test_the_best_of_several_tasks_are_not_those_of_the_smallest():
    optimizer = Optimizer(SPACE.with_tasks([{"n": 1}, {"n": 1000}]), strategy="random_search")
    for tile in range(40, 20, -1):
        for n in (1, 1000):
            optimizer.observe({"tile": tile, "unroll": 1, "n": n}, float(n * tile))
    best = [trial["config"] for trial in Proposer("unused")._describe(optimizer)["best"]]
    assert [(config["tile"], config["n"]) for config in best[:4]] == [
        (21, 1),
        (21, 1000),
        (22, 1),
        (22, 1000),
    ]
    assert "<td>1000</td>" in optimizer._repr_html_()
