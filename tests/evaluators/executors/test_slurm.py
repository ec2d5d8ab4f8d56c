"""Workers as jobs of a cluster: dask-jobqueue, with its cluster for this machine."""

import os
import signal
import sys
from functools import partial

import executor_targets
import pytest

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.evaluators import ExecutorEvaluator

SPACE = Space({"x": [1, 2, 3, 4], "does": ["live", "fail"]})


def results(executor, folder, evaluations=99):
    """Return the observations of a run, by default over the whole space, sorted."""
    optimizer = Optimizer(SPACE, strategy="exhaustive")
    make = partial(executor_targets.noted, str(folder))
    run(optimizer, ExecutorEvaluator(make, executor), MaxEvals(evaluations))
    return sorted(((t["x"], t.value, t.failure) for t in optimizer.trials), key=str)


EXPECTED = sorted(
    [(x, float(x), None) for x in range(1, 5)] + [(x, None, "compile") for x in range(1, 5)],
    key=str,
)


@pytest.fixture
def kept_signals():
    """Restore the answer to signals: the import of dask-jobqueue replaces that to Ctrl-C."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore")  # of dask-jobqueue and distributed
@pytest.mark.usefixtures("kept_signals")
def test_dask_jobqueue_starts_workers_that_come_during_the_run(tmp_path, monkeypatch):
    jobqueue = pytest.importorskip(
        "dask_jobqueue.local", reason="dask-jobqueue is not installed (extra 'dask-jobqueue')"
    )
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with (
        jobqueue.LocalCluster(
            cores=1,
            processes=1,
            memory="1GB",
            interface="lo",
            scheduler_options={"dashboard_address": None, "interface": "lo"},
            local_directory=str(tmp_path),
            log_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.scale(jobs=1)  # no worker is there when the run begins
        executor = client.get_executor(pure=False)
        assert ExecutorEvaluator(object, executor).capacity == 1
        assert results(executor, tmp_path) == EXPECTED
