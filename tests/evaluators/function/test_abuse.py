"""A kernel that crashes, hangs, floods, eats memory or leaves children: the run continues, and no process is left.

Each misdeed is committed under every evaluator that isolates. The limits here are the only time that any of it takes.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import patient
import pytest

from baco_like.evaluators import Evaluator, isolated_function
from baco_like.evaluators._processes import child
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.settings_table import RunArguments, Table
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
HERE = Path(__file__).parent
LIMIT = {"command": 2.0, "function": 1.0}  # the former has an interpreter to start
MEMORY = 2 << 30
MISDEEDS = {
    "segfault": ("runtime", ["SIGSEGV"]),
    "abort": ("runtime", ["SIGABRT"]),
    "exit": ("runtime", ["exit code 3"]),
    "memory": ("runtime", ["MemoryError"]),
    "loop": ("timeout", ["stopped after"]),
    "children": ("runtime", ["SIGSEGV"]),
    "ignore": ("timeout", ["stopped after"]),
    "flood": ("timeout", ["stopped after"]),
}
SPACE = Space({"does": ["nothing", *MISDEEDS], "tag": ["none", "other"]})


def by_command(folder: Path) -> Evaluator:
    table = {
        "run": f"{sys.executable} objective_targets.py {{does}} {{tag}}",
        "measure": "regex",
        "pattern": "time: (.*)",
        "timeout": LIMIT["command"],
        "memory": MEMORY,
    }
    return command.from_table(
        Table("evaluator", {**table, "memory": "2GiB"}), RunArguments(SPACE, "ms", HERE)
    )


def by_isolation(folder: Path) -> Evaluator:
    return isolated_function(
        "objective_targets:misbehave", timeout=LIMIT["function"], memory=MEMORY, path=[str(HERE)]
    )


@pytest.fixture(autouse=True)
def temporary(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files are made there by children too."""
    monkeypatch.setenv("TMPDIR", str(temporary))
    return temporary


def running(tag: str) -> bool:
    """Whether a process with the tag in its command line lives, or is a zombie of ours."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if tag.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                return True
        except OSError:
            continue
    return False


def zombies() -> set[str]:
    """Return our children that have ended and were not collected."""
    found = set()
    for children in Path("/proc/self/task").glob("*/children"):
        for number in children.read_text().split():
            state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
            found |= {number} if state == "Z" else set()
    return found


@pytest.mark.parametrize("make", [by_command, by_isolation], ids=["command", "function"])
@pytest.mark.parametrize("does", MISDEEDS)
def test_the_run_goes_on(make: Callable[[Path], Evaluator], does: str, tmp_path: Path) -> None:
    child.prepare()
    before = zombies()
    tag, evaluator = f"tag-{uuid.uuid4().hex}", make(tmp_path)
    word, texts = MISDEEDS[does]
    outcome = patient.evaluate(
        evaluator, Trial(1, {"does": does, "tag": tag}), lambda outcome: word == "timeout"
    )
    assert outcome.failed == word, outcome.message
    assert any(text in outcome.message for text in texts), outcome.message
    assert len(outcome.message) < 10_000
    harmless = Trial(2, {"does": "nothing", "tag": tag})
    assert patient.evaluate(evaluator, harmless).value == 1.0  # the run continues
    evaluator.close()
    deadline = time.monotonic() + 60
    while running(tag) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running(tag)
    assert zombies() <= before
