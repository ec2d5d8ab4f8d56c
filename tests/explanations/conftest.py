import pytest
from known_run import run


@pytest.fixture(scope="session")
def optimizer(tmp_path_factory):
    return run(storage=tmp_path_factory.mktemp("run") / "run.jsonl")
