"""Journals of version 0.1.0 resume, and the next suggestions are those of version 0.1.0."""

import json
import shutil
from pathlib import Path

import pytest

from baco_like import Optimizer, Status
from baco_like.journal import repair

DATA = Path(__file__).parent / "data"

# What version 0.1.0 suggested after it had resumed the same file.
NEXT_OF_GENETIC_ALGORITHM = [
    (64, 2, 0.025002354096743156, "-O3", ("i", "k", "j")),
    (8, 1, 0.02590902074058492, "-O2", ("j", "i", "k")),
    (8, 7, 0.008266012160376287, "-O2", ("i", "j", "k")),
    (8, 2, 0.1, "-O3", ("i", "k", "j")),
    (8, 2, 0.1, "-O2", ("i", "k", "j")),
    (64, 2, 0.009478434592361328, "-O3", ("i", "j", "k")),
]


@pytest.fixture
def resume(tmp_path):
    def resume(name):
        path = tmp_path / "run.jsonl"
        shutil.copy(DATA / f"{name}.jsonl", path)
        return Optimizer.load(path)

    return resume


def test_everything_in_an_old_journal_is_read(resume):
    opt = resume("genetic_algorithm")
    counts = {status: sum(t.status is status for t in opt.trials) for status in Status}
    assert (counts[Status.OK], counts[Status.FAILED], counts[Status.CENSORED]) == (26, 5, 3)
    assert (opt.history.warm, len(opt.pending)) == (2, 3)
    assert opt.best_value == 2.0263857037988746
    assert {t.origin for t in opt.trials} == {
        "warm",
        "strategy",
        "told",
        "imported",
        "enqueued",
    }


def test_an_old_run_continues_with_the_same_suggestions(resume):
    trials = resume("genetic_algorithm").suggest(6)
    assert [tuple(trial.config.values()) for trial in trials] == NEXT_OF_GENETIC_ALGORITHM


def test_settings_that_are_younger_than_the_journal_have_their_defaults(resume):
    opt = resume("bayesian")
    assert opt.options.strategy["settings"] == {"initial": 10, "design": "uniform"}
    opt.observe(opt.suggest(), 1.0)
    assert opt.suggest().tag["phase"] == "model"


@pytest.mark.parametrize("name", ["bayesian", "genetic_algorithm"])
def test_an_old_journal_keeps_its_version_when_it_is_continued_or_repaired(resume, tmp_path, name):
    opt = resume(name)
    before = len(opt.trials)
    opt.observe(opt.suggest(), 1.0)
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_bytes().splitlines()]
    assert lines[0]["schema"] == 1
    assert not any("prev" in line for line in lines)
    repair(tmp_path / "run.jsonl", tmp_path / "new.jsonl")
    assert (tmp_path / "new.jsonl").read_bytes() == (tmp_path / "run.jsonl").read_bytes()
    assert len(Optimizer.load(tmp_path / "new.jsonl").trials) == before + 1


def test_a_new_journal_chains_its_lines(tmp_path):
    opt = Optimizer({"x": [1, 2, 3]}, strategy="random_search", storage=tmp_path / "j")
    opt.observe(opt.suggest(), 1.0)
    Optimizer.load(tmp_path / "j").suggest()
    lines = [json.loads(line) for line in (tmp_path / "j").read_bytes().splitlines()]
    assert lines[0]["schema"] == 2
    assert [line.get("prev") for line in lines] == [None, *(line["crc"] for line in lines[:-1])]
