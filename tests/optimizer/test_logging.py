"""The logger ``baco_like``."""

import logging
import subprocess
import sys

import pytest

from baco_like import Infeasible, MaxEvals, Optimizer, Space, tune

SPACE = Space({"a": [1, 2, 4]})


def cost(trial):
    if trial["a"] == 2:
        raise Infeasible("no room")
    return float(trial["a"])


def test_a_run_logs_its_milestones(caplog, tmp_path):
    path = tmp_path / "run.jsonl"
    with caplog.at_level(logging.INFO, "baco_like"):
        tune(cost, SPACE, stop=MaxEvals(3), storage=path, progress=False)
        Optimizer.load(path)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith(f"new run in {path}: Space(a")
    assert messages[1] == "the run begins: up to 1 trials at a time by FunctionEvaluator"
    assert any(text.endswith("1.0 with {'a': 1}") for text in messages)
    assert messages[-2] == "the run ended: 3 evaluations; 3 observed"
    assert messages[-1] == f"resumed the run in {path}: 3 observed, 0 pending"
    assert {record.name for record in caplog.records} == {
        "baco_like.optimizer",
        "baco_like.running",
    }


def test_debug_has_every_trial(caplog):
    with caplog.at_level(logging.DEBUG, "baco_like"):
        optimizer = Optimizer(SPACE)
        trial = optimizer.suggest()
        optimizer.observe(trial, failed="compile", message="no room")
        optimizer.abandon(optimizer.suggest(), "tired")
    text = caplog.text
    assert "suggested trial 0 (strategy) in 0.0" in text
    assert "observed trial 0: compile no room" in text
    assert "abandoned trial 1 tired" in text


def test_an_error_that_ends_the_run_is_logged(caplog):
    def broken(trial):
        raise KeyError("oops")

    with caplog.at_level(logging.INFO, "baco_like"), pytest.raises(KeyError):
        tune(broken, SPACE, stop=MaxEvals(3), progress=False)
    assert caplog.messages[-1] == "the run ended by KeyError: 'oops'"


def test_nothing_is_printed_without_a_handler():
    code = "import baco_like; baco_like.Optimizer({'a': [1, 2]}).suggest()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("baco_like").handlers)
