"""Who evaluated each trial, when, and the seconds of each stage: in trials, tables and files."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from baco_like import MaxEvals, Optimizer, Sharing, Space, Workers, tune
from baco_like.results import read
from baco_like.results.formats import FORMATS

SPACE = Space({"a": [1, 2, 4, 8], "worker": [0, 1]})


@pytest.fixture
def finished(tmp_path):
    before = time.time()
    optimizer = Optimizer(
        SPACE, {"time": "minimize"}, storage=tmp_path / "run.jsonl", sharing=Sharing(worker="n1")
    )
    first, second = optimizer.suggest(2)
    optimizer.observe(
        first, {"time": 1.0, "seconds_of_sleep": 7.0}, seconds={"compile": 40, "run": 2}
    )
    optimizer.observe(second, failed="compile", seconds={"compile": 3})
    optimizer.observe({"a": 8, "worker": 1}, 2.0)
    assert all(before - 0.01 <= t.ended <= time.time() + 0.01 for t in optimizer.trials)
    return optimizer


def test_trials_know_their_times(finished, tmp_path):
    for optimizer in (finished, Optimizer.load(tmp_path / "run.jsonl")):
        first, second, third = optimizer.trials
        assert first.started == second.started <= first.ended <= second.ended
        assert (first.worker, third.worker) == ("n1", None)
        assert third.started is None
    assert [t.ended for t in optimizer.trials] == [t.ended for t in finished.trials]


def test_the_columns_of_a_data_frame(finished):
    frame = finished.to_dataframe()
    times = ["trial_worker", "started", "ended", "seconds_compile", "seconds_run"]
    assert list(frame.columns[-6:]) == [*times, "trial_seconds_of_sleep"]
    assert frame["trial_worker"].tolist()[:2] == ["n1", "n1"]
    assert frame["seconds_compile"].tolist()[:2] == [40.0, 3.0]
    assert frame["ended"].tolist() == [t.ended for t in finished.trials]


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "baco"])
def test_every_format_keeps_them(finished, tmp_path, kind):
    finished.export(kind, tmp_path / "out")
    table = read(tmp_path / "out").to_dataframe()
    ours = finished.to_dataframe()
    for name in ("started", "ended", "seconds_compile", "seconds_run"):
        assert table[name].fillna(-1).tolist() == ours[name].fillna(-1).tolist()
    assert table["trial_worker"].tolist()[:2] == ["n1", "n1"]


def test_a_data_frame_written_by_pandas_keeps_them(finished, tmp_path):
    finished.to_dataframe().to_csv(tmp_path / "frame.csv", index=False)
    again = read(tmp_path / "frame.csv")
    assert again.outcomes[0].extra["seconds"] == {"compile": 40.0, "run": 2.0}
    assert again.outcomes[0].extra["worker"] == "n1"
    assert again.outcomes[0].metrics == {"trial_seconds_of_sleep": 7.0}
    assert again.to_dataframe()["ended"].tolist() == [t.ended for t in finished.trials]


def test_a_journal_as_a_recording(finished, tmp_path):
    assert read(tmp_path / "run.jsonl").to_dataframe()["started"].tolist()[:2] == [
        t.started for t in finished.trials[:2]
    ]


def test_a_trial_that_is_suggested_again_starts_again(tmp_path):
    path = tmp_path / "run.jsonl"
    first = Optimizer(SPACE, storage=path, sharing=Sharing(lease=0.05, worker="n1"))
    second = Optimizer(SPACE, storage=path, sharing=Sharing(lease=60, worker="n2"))
    lost = first.suggest()
    time.sleep(0.1)
    again = second.suggest()
    assert again.id == lost.id
    second.observe(again, 1.0)
    (trial,) = second.trials
    assert trial.worker == "n2"
    assert trial.started >= lost.started + 0.09
    assert read(path).to_dataframe()["trial_worker"].tolist() == ["n2"]


def test_worker_processes_note_the_time_of_the_evaluation(tmp_path):
    def slow(trial):
        time.sleep(0.05)
        return 1.0

    with ThreadPoolExecutor(1) as pool:
        result = tune(
            slow,
            SPACE,
            stop=MaxEvals(2),
            workers=Workers(executor=pool, max_pending=2),
            progress=False,
        )
    assert all(t.ended - t.started >= 0.05 for t in result.trials)
