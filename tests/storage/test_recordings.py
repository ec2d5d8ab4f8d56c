"""Results of every format, read by one function."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco_like import Optimizer, Ordinal, Permutation, Space
from baco_like.exceptions import RunFileError
from baco_like.records.trial import Status
from baco_like.storage.recordings import read

SPACE = Space(
    {"tile": Ordinal([1, 2, 4], log=True), "loops": Permutation(["i", "j"])},
    constraints=["tile > 1 or pos(loops, 'i') == 0"],
)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    context = {"[objective] unit": "ms"}
    opt = Optimizer(SPACE, objective="time", storage=path, context=context)
    one, two, three, _pending = opt.suggest(4)
    opt.observe(one, [1.0, 3.0], extra={"seconds": {"build": 0.5, "run": 1.5}})
    opt.observe(two, failed="compile", message="error\nand more")
    opt.observe(three, failed="timeout", bound=10.0)
    return path


def test_a_journal(journal: Path) -> None:
    found = read(journal)
    trials = Optimizer.load(journal).trials
    assert found.names == ("tile", "loops")
    assert found.configs == [dict(trial.config) for trial in trials]
    assert [one.status for one in found.outcomes] == [Status.OK, Status.FAILED, Status.CENSORED]
    assert found.outcomes[0].value == 2.0
    assert found.outcomes[0].repeats == (1.0, 3.0)
    assert found.outcomes[0].extra["seconds"] == {"compile": 0.5, "run": 1.5}
    assert found.outcomes[1].message == "error\nand more"
    assert found.outcomes[2].bound == 10.0
    assert (found.objective, found.unit, found.goal) == ("time", "ms", "minimize")
    assert found.space().to_dict() == SPACE.to_dict()


def test_a_journal_without_an_observation(tmp_path: Path) -> None:
    Optimizer(SPACE, storage=tmp_path / "run.jsonl").suggest()
    with pytest.raises(RunFileError, match="nothing was observed"):
        read(tmp_path / "run.jsonl")
