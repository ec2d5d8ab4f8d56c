"""Workers as jobs of a cluster: dask-jobqueue and submitit, with their executors for this machine."""

import os
import signal
import sys
import threading
from functools import partial
from types import SimpleNamespace

import executor_targets
import pytest

from baco_like import EvaluatorError, MaxEvals, Optimizer, Space, run
from baco_like.evaluators import ExecutorEvaluator, SubmititExecutor
from baco_like.evaluators.executors.base import LostWorker
from baco_like.exceptions import MissingExtra

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


def test_submitit_runs_each_trial_as_a_job(tmp_path, monkeypatch):
    submitit = pytest.importorskip(
        "submitit", reason="submitit is not installed (extra 'submitit')"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    jobs = submitit.AutoExecutor(tmp_path / "jobs", cluster="local")
    jobs.update_parameters(timeout_min=5)
    with SubmititExecutor(jobs, 4, interval=0.02) as executor:
        assert ExecutorEvaluator(object, executor).capacity == 4
        assert set(results(executor, tmp_path, 2)) < set(EXPECTED)
        with pytest.raises(ZeroDivisionError):  # the exception itself, not its text
            executor.submit(divmod, 1, 0).result(60)
        # Slurm's signal before the time limit of the job: submitit raises an error in the function.
        with pytest.raises(LostWorker, match="timed-out"):
            executor.submit(signal.raise_signal, signal.SIGUSR2).result(60)
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(len, "a")


# Without a cluster: jobs that end as a test says ------------------------------------------------------------------


class Job:
    """As much of a job of submitit as the executor uses."""

    num_tasks, job_id, state = 1, "7", "PREEMPTED"

    def __init__(self, folder, call):
        self.paths = SimpleNamespace(result_pickle=folder / f"{id(self)}")
        self.call, self.ended, self.cancelled = call, False, threading.Event()

    def finish(self, with_result=True):
        if with_result:
            self.paths.result_pickle.touch()
        self.ended = True

    def done(self):
        return self.ended

    def result(self):
        return self.call()

    def cancel(self, check):
        self.cancelled.set()


class Jobs:
    def __init__(self, folder):
        self.folder, self.jobs = folder, list[Job]()

    def submit(self, fn, *args):
        self.jobs.append(Job(self.folder, partial(fn, *args)))
        return self.jobs[-1]


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace())
    return Jobs(tmp_path)


def test_a_job_that_ends_without_a_result_is_a_lost_worker(jobs, monkeypatch):
    monkeypatch.setattr("baco_like.evaluators.executors.executors._RESULT_TIMEOUT", 0.05)
    with SubmititExecutor(jobs, 2, interval=0.001) as executor:
        lost, late, good = (executor.submit(abs, -n) for n in (1, 2, 3))
        jobs.jobs[2].finish()
        assert good.result(30) == 3
        monkeypatch.setattr("baco_like.evaluators.executors.executors._RESULT_TIMEOUT", 60.0)
        jobs.jobs[1].finish(with_result=False)
        with pytest.raises(TimeoutError):
            late.result(0.05)
        jobs.jobs[1].finish()  # the file system shows it at last
        assert late.result(30) == 2
        monkeypatch.setattr("baco_like.evaluators.executors.executors._RESULT_TIMEOUT", 0.05)
        jobs.jobs[0].finish(with_result=False)
        with pytest.raises(LostWorker, match=r"job 7 has ended without a result \(PREEMPTED\)"):
            lost.result(30)


def test_a_lost_job_is_sent_again(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr("baco_like.evaluators.executors.executors._RESULT_TIMEOUT", 0.0)
    submit = jobs.submit

    def submit_and_finish(fn, *args):
        job = submit(fn, *args)
        job.finish(with_result=len(jobs.jobs) != 2)
        return job

    jobs.submit = submit_and_finish
    with SubmititExecutor(jobs, 2, interval=0.001) as executor:
        assert results(executor, tmp_path) == EXPECTED
    assert len(jobs.jobs) == 9


def test_cancelling_a_call_cancels_its_job(jobs):
    executor = SubmititExecutor(jobs, 1, interval=0.001)
    first, second = executor.submit(abs, -1), executor.submit(abs, -2)
    assert first.cancel()
    assert jobs.jobs[0].cancelled.wait(30)
    executor.shutdown(cancel_futures=True)
    assert second.cancelled()
    assert jobs.jobs[1].cancelled.is_set()


def test_wrong_jobs_are_refused(jobs, monkeypatch):
    monkeypatch.setattr(Job, "num_tasks", 2)
    executor = SubmititExecutor(jobs, 1)
    with pytest.raises(EvaluatorError, match="2 tasks: set tasks_per_node=1"):
        executor.submit(abs, -1)
    assert jobs.jobs[0].cancelled.is_set()
    for wrong, message in (
        (lambda: SubmititExecutor(jobs, 0), "workers"),
        (lambda: SubmititExecutor(jobs, 1, interval=0), "interval"),
        (lambda: SubmititExecutor(object(), 1), "AutoExecutor"),
    ):
        with pytest.raises(EvaluatorError, match=message):
            wrong()
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtra, match=r"baco-like\[submitit\]"):
        SubmititExecutor(jobs, 1)
