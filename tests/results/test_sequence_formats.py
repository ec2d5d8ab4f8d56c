"""Spaces with a sequence: formats and tools that cannot hold it say the way out."""

import pytest

from baco_like import Optimizer, RunFileError, Sequence, Space, SpaceError
from baco_like.spaces.formats.t1 import to_t1

SPACE = Space({"passes": Sequence(["gvn", "loop(a,b)", "dce"], 4), "u": [1, 2, 4, 8]})


def test_formats_without_sequences_say_so(tmp_path):
    finished = Optimizer(SPACE, strategy="random_search")
    finished.observe(finished.suggest(), 1.0)
    frame = finished.to_dataframe()
    assert len(Optimizer(SPACE, strategy="random_search", warm_start=frame).history) == 1
    finished.ship("json", tmp_path / "best.json")
    assert "passes" in (tmp_path / "best.json").read_text()
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
