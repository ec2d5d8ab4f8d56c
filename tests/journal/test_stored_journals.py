"""A stored journal resumes, and the next suggestions are those of the run that wrote it."""

import json
import shutil
from pathlib import Path

import pytest

from baco_like import Optimizer, Status

JOURNAL = Path(__file__).parent / "data" / "genetic_algorithm.jsonl"

# Suggestions of the program that wrote the file, after it had resumed it.
NEXT_OF_GENETIC_ALGORITHM = [
    (64, 2, 0.025002354096743156, "-O3", ("i", "k", "j")),
    (8, 1, 0.02590902074058492, "-O2", ("j", "i", "k")),
    (8, 7, 0.008266012160376287, "-O2", ("i", "j", "k")),
    (8, 2, 0.1, "-O3", ("i", "k", "j")),
    (8, 2, 0.1, "-O2", ("i", "k", "j")),
    (64, 2, 0.009478434592361328, "-O3", ("i", "j", "k")),
]


@pytest.fixture
def resumed(tmp_path):
    path = tmp_path / "run.jsonl"
    shutil.copy(JOURNAL, path)
    return Optimizer.load(path)


def test_everything_in_a_stored_journal_is_read(resumed):
    counts = {status: sum(t.status is status for t in resumed.trials) for status in Status}
    assert (counts[Status.OK], counts[Status.FAILED], counts[Status.CENSORED]) == (26, 5, 3)
    assert (resumed.history.warm, len(resumed.pending)) == (2, 3)
    assert resumed.best_value == 2.0263857037988746
    assert {t.origin for t in resumed.trials} == {
        "warm",
        "strategy",
        "told",
        "imported",
        "enqueued",
    }


def test_a_stored_run_continues_with_the_same_suggestions(resumed):
    assert [trial.id for trial in resumed.suggest(3)] == [t.id for t in resumed.pending]
    trials = resumed.suggest(6)
    assert [tuple(trial.config.values()) for trial in trials] == NEXT_OF_GENETIC_ALGORITHM


def test_a_new_journal_chains_its_lines(tmp_path):
    opt = Optimizer({"x": [1, 2, 3]}, strategy="random_search", storage=tmp_path / "j")
    opt.observe(opt.suggest(), 1.0)
    Optimizer.load(tmp_path / "j").suggest()
    lines = [json.loads(line) for line in (tmp_path / "j").read_bytes().splitlines()]
    assert lines[0]["schema"] == 2
    assert [line.get("prev") for line in lines] == [None, *(line["crc"] for line in lines[:-1])]
