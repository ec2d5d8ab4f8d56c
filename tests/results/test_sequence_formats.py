"""Runs with a sequence in files: those that can hold it are read back, the others say the way out."""

import pytest

from baco_like import Optimizer, RunFileError, Sequence, Space, SpaceError
from baco_like.results import read
from baco_like.spaces.formats.t1 import to_t1

SPACE = Space({"passes": Sequence(["gvn", "loop(a,b)", "dce"], 4), "u": [1, 2, 4, 8]})


@pytest.fixture(scope="module")
def finished():
    """Return a run of ten trials, the first one without passes."""
    optimizer = Optimizer(SPACE, strategy="random_search")
    optimizer.enqueue({"passes": (), "u": 2})
    for trial in optimizer.suggest(10):
        optimizer.observe(trial, len(trial["passes"]) + 1.0 / trial["u"])
    return optimizer


@pytest.mark.parametrize("kind", ["csv", "t4", "kernel_tuner", "ktt", "frame"])
def test_results_are_read_back(finished, kind, tmp_path):
    path = tmp_path / "results"
    if kind == "frame":
        finished.to_dataframe().to_csv(path, index=False)
        assert len(read(path)) == 10
    else:
        assert finished.export(kind, path) == 10
    again = Optimizer(SPACE, strategy="random_search", warm_start=str(path))
    assert [t.config for t in again.history.trials] == [t.config for t in finished.history.trials]


def test_a_frame_and_json_hold_sequences(finished, tmp_path):
    again = Optimizer(SPACE, strategy="random_search", warm_start=finished.to_dataframe())
    assert len(again.history) == 10
    finished.ship("json", tmp_path / "best.json")
    assert "passes" in (tmp_path / "best.json").read_text()


def test_formats_without_sequences_say_so(finished, tmp_path):
    with pytest.raises(SpaceError, match="no sequences; use the journal"):
        finished.export("baco", tmp_path / "results")
    with pytest.raises(RunFileError, match="ship it as json or as python"):
        finished.ship("c", tmp_path / "best.h")
    with pytest.raises(SpaceError, match="a Sequence has no such list"):
        to_t1(SPACE)


def test_tools_without_sequences_say_so():
    optuna = pytest.importorskip("baco_like.integrations._optuna_conversion")
    with pytest.raises(SpaceError, match="no distribution for Sequence; use Optimizer"):
        optuna.optuna_distributions(SPACE)
    configspace = pytest.importorskip("baco_like.integrations.configspace")
    with pytest.raises(SpaceError, match="has no Sequence; keep the space by"):
        configspace.to_configspace(SPACE)
