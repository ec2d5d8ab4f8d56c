"""A process computes the proposals of a store from the journal."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from baco_like import Optimizer, Sharing
from baco_like.optimizer import model_process
from baco_like.optimizer.ahead import propose
from baco_like.optimizer.model_process import ModelProcess

SPACE = {"x": list(range(30)), "y": list(range(30))}


@pytest.fixture(scope="module")
def process():
    process = ModelProcess()
    yield process
    process.close()


def value(trial):
    return float((trial["x"] - 7) ** 2 + trial["y"])


def run(path, results):
    optimizer = Optimizer(SPACE, storage=path, seed=3)
    for trial in optimizer.suggest(results):
        optimizer.observe(trial, value(trial))
    return optimizer


def known_to(proposals):
    (known,) = {each.basis["known"] for each in proposals}
    return known


def test_it_follows_the_journal_and_proposes_what_this_process_would(process, tmp_path):
    optimizer = run(tmp_path / "run.jsonl", 12)
    nothing, path = np.empty((0, 2)), tmp_path / "run.jsonl"
    for _ in range(2):
        own = propose(optimizer.state, nothing, 3, 1, None)
        found = process.propose(path, nothing, 3, 1, None)
        assert [each.trial for each in found] == [each.trial for each in own]
        assert {each.trial.origin for each in found} == {"strategy"}
        assert known_to(found) == optimizer.state.mark.number
        optimizer.observe(dict(found[0].trial.config), 5.0)
    # Proposals in store are left out, also one that was suggested in the meantime.
    pending = optimizer.suggest()
    stored = optimizer.space.encode([pending.config, *(each.trial.config for each in found[1:])])
    later = process.propose(path, stored, 4, 1, None)
    configs = [dict(each.trial.config) for each in later]
    assert not [
        c for c in configs if c in ([dict(pending.config), *(dict(e.trial.config) for e in found)])
    ]


def test_events_that_the_disk_has_refused_are_forgotten(process, tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = run(path, 3)
    before, nothing = path.read_bytes(), np.empty((0, 2))
    optimizer.observe({"x": 1, "y": 1}, 2.0)
    assert known_to(process.propose(path, nothing, 1, 1, None)) == optimizer.state.mark.number
    path.write_bytes(before)
    found = process.propose(path, nothing, 1, 1, None)
    assert known_to(found) == optimizer.state.mark.number - 1


def test_a_run_continues_when_the_process_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(model_process, "_PAUSE", 0.0)
    process = ModelProcess()
    optimizer = run(tmp_path / "run.jsonl", 2)
    optimizer.share(Sharing(ahead=2), process)
    number = optimizer.suggest().id
    pids = set()
    for _ in range(2):
        while not (process._pool is not None and process._pool._processes):
            time.sleep(0.01)
        (pid,) = process._pool._processes
        pids.add(pid)
        os.kill(pid, signal.SIGKILL)
        trials = optimizer.suggest(3)  # more than the store has
        assert [t.id for t in trials] == [number + 1, number + 2, number + 3]
        number += 3
    assert len(pids) > 1  # it was started again
    optimizer.share(Sharing())
    process.close()


def test_a_thread_computes_where_no_process_can_be_started(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError("no semaphores here")

    monkeypatch.setattr(model_process, "ProcessPoolExecutor", refuse)
    optimizer = run(tmp_path / "run.jsonl", 2)
    optimizer.share(Sharing(ahead=2), ModelProcess())
    assert [trial.origin for trial in optimizer.suggest(3)] == ["strategy"] * 3
    optimizer.share(Sharing())


PARENT = """
import sys, numpy
from pathlib import Path
from baco_like.optimizer.model_process import ModelProcess

if __name__ == "__main__":
    process = ModelProcess()
    process.propose(Path(sys.argv[1]), numpy.empty((0, 2)), 1, 1, None)
    print(*process._pool._processes, flush=True)
    input()
"""


def test_it_ends_with_a_parent_that_is_killed(tmp_path):
    run(tmp_path / "run.jsonl", 1)
    (tmp_path / "parent.py").write_text(PARENT)
    command = [sys.executable, tmp_path / "parent.py", tmp_path / "run.jsonl"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as parent:
        child = int(parent.stdout.readline())
        os.kill(child, 0)  # it exists
        parent.kill()
    until = time.monotonic() + 60
    while time.monotonic() < until and Path(f"/proc/{child}").exists():
        time.sleep(0.02)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
