"""A kernel that crashes, hangs, floods, eats memory or leaves children: the run continues, and no process is left.

Each misdeed is committed under every evaluator that isolates. The limits here are the only time that any of it takes.
"""

import sys
import uuid
from pathlib import Path

import patient
import pytest
from process_checks import gone

from baco_like._tables import Table
from baco_like.evaluators import isolated_function
from baco_like.evaluators._processes import child
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.protocol import RunArguments
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


def by_command(folder):
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


def by_isolation(folder):
    return isolated_function(
        "objective_targets:misbehave", timeout=LIMIT["function"], memory=MEMORY, path=[str(HERE)]
    )


@pytest.fixture(autouse=True)
def temporary(temporary, monkeypatch):
    """Temporary files are made there by children too."""
    monkeypatch.setenv("TMPDIR", str(temporary))
    return temporary


def zombies():
    """Return our children that have ended and were not collected."""
    child.prepare()  # it stays
    found = set()
    for children in Path("/proc/self/task").glob("*/children"):
        for number in children.read_text().split():
            state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
            found |= {number} if state == "Z" else set()
    return found


@pytest.mark.parametrize("make", [by_command, by_isolation], ids=["command", "function"])
@pytest.mark.parametrize("does", MISDEEDS)
def test_the_run_goes_on(make, does, tmp_path):
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
    assert gone(tag)
    assert zombies() <= before
