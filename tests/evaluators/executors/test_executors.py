"""Evaluators on executors: the same results everywhere, and workers that are lost."""

import gc
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import executor_targets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import EvaluatorError, MaxEvals, Optimizer, Outcome, Space, Status, Trial, run
from baco_like.evaluators import (
    CheckedEvaluator,
    ExecutorEvaluator,
    FunctionEvaluator,
    ProcessLanes,
    RayExecutor,
)
from baco_like.evaluators.executors.base import LostWorker, answer, count_workers, is_lost_worker
from baco_like.evaluators.executors.executors import DaskExecutor
from baco_like.exceptions import MissingExtra
from baco_like.records import Utilisation, read_utilisation
from baco_like.records.workers import worker_record

# The same results ------------------------------------------------------------------------------------------------

DOMAINS = {"bx": [8, 16, 32, 64], "by": [1, 2, 4, 8], "unroll": [1, 2, 4, 8]}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A recorded table in which one configuration in seven has failed."""
    rows = []
    for number, values in enumerate(itertools.product(*DOMAINS.values())):
        fails = number % 7 == 3
        rows.append(
            {
                "configuration": dict(zip(DOMAINS, values, strict=True)),
                "invalidity": "compile" if fails else "correct",
                "measurements": [{"name": "time", "value": 1.0 + number, "unit": "ms"}],
                "objectives": ["time"],
                "times": {},
            }
        )
    path = tmp_path_factory.mktemp("table") / "table.json"
    path.write_text(json.dumps({"results": rows, "metadata": {}, "schema_version": "1.0.0"}))
    return path


def results(evaluator, evaluations=60):
    """Return the observations of a run over most of the space, sorted, as the order of arrival varies."""
    optimizer = Optimizer(Space(DOMAINS), strategy="exhaustive")
    run(optimizer, evaluator, MaxEvals(evaluations))
    assert len(optimizer.trials) == evaluations
    return sorted(f"{sorted(t.config.items())} {t.value} {t.failure}" for t in optimizer.trials)


@pytest.fixture(scope="module")
def sequential(table):
    found = results(executor_targets.replay(str(table)))
    assert any("compile" in line for line in found)
    return found


@contextmanager
def dask(workers):
    """Start a cluster of processes on this machine; yields the client."""
    distributed = pytest.importorskip("distributed")
    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=workers, silence_logs=50, **settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
    gc.collect()  # warnings of what the cluster has left open belong to this test


@pytest.fixture(scope="module")
def lanes():
    """Two processes for all tests of this file, as starting them takes a while."""
    with ProcessLanes(2) as made:
        yield made


def test_threads_and_processes_give_the_sequential_results(table, sequential, lanes):
    make = partial(executor_targets.replay, str(table), 0.001)
    with ThreadPoolExecutor(4) as threads:
        assert results(ExecutorEvaluator(make, threads)) == sequential
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert results(ExecutorEvaluator(make, processes)) == sequential
    assert results(ExecutorEvaluator(make, lanes)) == sequential


@pytest.mark.filterwarnings("ignore")  # of a cluster whose workers are killed
def test_dask_gives_the_sequential_results_while_workers_are_killed(table, sequential):
    with dask(2) as client:
        executor = client.get_executor(pure=False)
        assert count_workers(executor) == 2
        make = partial(executor_targets.replay, str(table), 0.02)
        evaluator = ExecutorEvaluator(make, executor, lease=60.0)
        victims = list(client.run(os.getpid).values())
        threading.Timer(0.3, os.kill, (victims[0], signal.SIGKILL)).start()
        assert results(evaluator) == sequential
        deadline = time.monotonic() + 30
        while Path(f"/proc/{victims[0]}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{victims[0]}").exists()


@pytest.fixture(scope="module")
def dask_in_threads():
    """The client of a Dask cluster whose one worker is a thread of this process."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def answer_x(trial):
    if trial["x"] < 0:
        raise TypeError("a mistake")
    return float(trial["x"])


def test_a_result_counts_although_its_dask_worker_dies_just_after_it(dask_in_threads, monkeypatch):
    client, gather = dask_in_threads, dask_in_threads._gather

    async def gather_and_lose(calls, *args, **options):
        results = await gather(calls, *args, **options)
        for call in calls:
            client._handle_lost_data(call.key)  # as when the scheduler reports the worker's death
        return results

    monkeypatch.setattr(client, "_gather", gather_and_lose)
    for executor in (client.get_executor(pure=False), client.get_executor()):
        for evaluator in (
            ExecutorEvaluator(partial(FunctionEvaluator, answer_x), executor, attempts=1),
            FunctionEvaluator(answer_x, executor=executor),
        ):
            evaluator.submit(Trial(0, {"x": 3}))
            assert [outcome.value for outcome in evaluator.wait()] == [3.0]


def test_a_dask_result_that_cannot_be_fetched_is_computed_again(dask_in_threads, monkeypatch):
    client, gather, fails = (
        dask_in_threads,
        dask_in_threads._gather,
        [True, False, True, True, False],
    )

    async def gather_or_fail(*args, **options):
        if fails.pop(0):
            raise OSError("the connection is closed")
        return await gather(*args, **options)

    monkeypatch.setattr(client, "_gather", gather_or_fail)
    make = partial(FunctionEvaluator, answer_x)
    evaluator = ExecutorEvaluator(make, client.get_executor(), attempts=2)
    evaluator.submit(Trial(0, {"x": 3}))
    assert [outcome.value for outcome in evaluator.wait()] == [3.0]
    evaluator.submit(Trial(1, {"x": 4}))
    (outcome,) = evaluator.wait()
    assert outcome.status is Status.ABANDONED
    assert "OSError: the connection is closed" in outcome.message
    evaluator.submit(Trial(2, {"x": -1}))
    with pytest.raises(TypeError, match="a mistake"):  # an error of the function ends the run
        evaluator.wait()
    with_function = FunctionEvaluator(answer_x, executor=client.get_executor())
    fails.append(True)
    with_function.submit(Trial(3, {"x": 3}))
    with pytest.raises(EvaluatorError, match="has lost a worker"):
        with_function.wait()


_noted, _may_end = list[str](), threading.Event()


def note(name):
    """Note a name; the call ``wait`` blocks until `_may_end` is set."""
    _noted.append(name)
    if name == "wait":
        _may_end.wait(60)
    return name


def test_cancelling_a_future_cancels_its_call_on_dask(dask_in_threads):
    def wait_until_worker_has(number):
        deadline = time.monotonic() + 30
        tasks = dask_in_threads.cluster.workers[0].state.tasks
        while sum(key.startswith("note") for key in list(tasks)) != number:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    executor = DaskExecutor(dask_in_threads.get_executor())
    running, waiting = executor.submit(note, "wait"), executor.submit(note, "cancelled")
    wait_until_worker_has(2)
    assert waiting.cancel()
    wait_until_worker_has(1)
    _may_end.set()
    assert running.result(60) == "wait"
    assert executor.submit(note, "last").result(60) == "last"
    assert _noted == ["wait", "last"]


def test_mpi_gives_the_sequential_results(table, sequential):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed (extra 'mpi')")
    beside = str(Path(sys.executable).parent)
    program = shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("there is no mpiexec: install MPICH or Open MPI")
    script = Path(executor_targets.__file__)
    command = [program, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script), str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    if "cannot load MPI library" in done.stderr or "libmpi" in done.stderr:
        pytest.skip("mpi4py finds no MPI library; see its MPI4PY_LIBMPI")
    assert done.returncode == 0, done.stderr
    workers, *found = done.stdout.splitlines()
    assert workers == "2"
    assert found == sequential


class FakeRay:
    """As much of Ray as the shim uses, on threads."""

    def __init__(self):
        self.pool, self.options, self.started = ThreadPoolExecutor(2), list[dict[str, Any]](), 0

    def is_initialized(self):
        return self.started > 0

    def init(self):
        self.started += 1

    def cluster_resources(self):
        return {"CPU": 4.0, "GPU": 1.0}

    def remote(self, fn):
        ray = self

        class Reference:
            def __init__(self, *args):
                self.args = args

            def future(self):
                return ray.pool.submit(fn, *self.args)

        class Task:
            def options(self, **options):
                ray.options.append(options)
                return self

            def remote(self, *args):
                return Reference(*args)

        return Task()


def test_the_shim_for_ray(table, sequential, monkeypatch):
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    with RayExecutor(num_cpus=2) as executor:
        evaluator = ExecutorEvaluator(partial(executor_targets.replay, str(table)), executor)
        assert evaluator.capacity == 2
        assert results(evaluator) == sequential
    assert (ray.started, RayExecutor().num_workers) == (1, 4)
    assert ray.options[0] == {"max_retries": 0, "num_cpus": 2}
    ray.pool.shutdown()


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"baco-like\[ray\]"):
        RayExecutor()


@pytest.mark.skipif("RUN_RAY" not in os.environ, reason="Ray is large and slow to start: RUN_RAY=1")
def test_ray_itself(table, sequential):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    evaluator = ExecutorEvaluator(partial(executor_targets.replay, str(table)), RayExecutor())
    assert results(evaluator) == sequential
    ray.shutdown()


# Lost workers, by hand -------------------------------------------------------------------------------------------


class ByHand:
    """An executor whose calls end as a test says."""

    _max_workers = 3

    def __init__(self):
        self.calls = []
        self.lost_checks = 0  # number of calls that do nothing, and are lost all the same

    def submit(self, fn, /, *args):
        future = Future()
        if fn is not answer:
            self.calls.append((args[-1].id, future))
        elif self.lost_checks:
            self.lost_checks -= 1
            future.set_exception(LostWorker("gone"))
        else:
            future.set_result(fn(*args))
        return future

    def answer(self, call, value=1.0):
        trial_id, future = self.calls[call]
        future.set_result(Outcome.success(trial_id, (value,)))

    def lose(self, call):
        self.calls[call][1].set_exception(LostWorker("gone"))

    @property
    def ids(self):
        return [trial_id for trial_id, _ in self.calls]


def by_hand(**settings):
    executor = ByHand()
    return executor, ExecutorEvaluator(object, executor, **settings)


@pytest.mark.parametrize("answer", [None, Outcome.success(7, (1.0,))])
def test_an_answer_that_is_no_outcome_of_the_trial_is_a_failure(answer):
    executor, evaluator = by_hand()
    evaluator.submit(Trial(0, {"x": 1}))
    executor.calls[0][1].set_result(answer)
    (outcome,) = evaluator.wait()
    assert (outcome.trial_id, outcome.failed) == (0, "runtime")
    assert "not an outcome of trial 0" in outcome.message


@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_of_an_earlier_attempt_counts_and_its_failure_does_not(fails):
    executor, evaluator = by_hand(lease=0.05, attempts=1000)
    evaluator.submit(Trial(0, {"x": 0}))
    executor.calls[0][1].set_running_or_notify_cancel()  # it cannot be taken back
    while len(executor.calls) < 2:
        assert evaluator._receive(0.1) == []
    if fails:
        executor.calls[0][1].set_exception(ValueError("late"))
        executor.answer(-1, 7.0)
    else:
        executor.answer(0, 7.0)
    assert [outcome.value for outcome in evaluator.wait()] == [7.0]
    assert fails or all(future.cancelled() for _, future in executor.calls[1:])


@given(st.lists(st.sampled_from(["answer", "lose", "expire"]), min_size=3, max_size=3))
def test_the_first_answer_of_three_attempts_counts(fates):
    """Else the trial is given up; a configuration that was given up has one more chance. Later answers are kept."""
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("baco_like.evaluators.executors.evaluator.time", clock)
        executor, evaluator = by_hand(lease=60.0, attempts=3)
        late = []
        for trial_id in range(2):
            evaluator.submit(Trial(trial_id, {"x": 0}))
            for fate in fates:
                call = executor.calls[-1][1]
                call.set_running_or_notify_cancel()  # it cannot be taken back
                if fate == "expire":
                    now[0] += 61.0
                    late.append((trial_id, call))
                else:
                    executor.answer(-1, 7.0) if fate == "answer" else executor.lose(-1)
                if outcomes := evaluator._receive(0.0):
                    break
            (outcome,) = outcomes
            sent = executor.ids.count(trial_id)
            if fate == "answer":
                assert outcome.value == 7.0
                continue
            assert (sent, outcome.status) == (
                (1, Status.FAILED) if trial_id else (3, Status.ABANDONED)
            )
            reason = (
                "its worker is lost (LostWorker: gone)"
                if fate == "lose"
                else "no answer within 60 s"
            )
            assert outcome.message == f"handed out {sent} times: {reason}"
        for number, (trial_id, call) in enumerate(late):
            call.set_result(Outcome.success(trial_id, (float(number),)))
        assert evaluator._receive(0.0) == []
        assert [(t.id, t.value) for t in evaluator.take_late()] == [
            (trial_id, number) for number, (trial_id, _) in enumerate(late)
        ]
        assert evaluator.take_late() == []


def test_an_error_after_the_end_is_no_result():
    executor, evaluator = by_hand(lease=0.03, attempts=2)
    evaluator.submit(Trial(4, {"x": 0}))
    executor.calls[0][1].set_running_or_notify_cancel()
    while len(executor.calls) < 2:
        assert evaluator._receive(0.1) == []
    executor.calls[0][1].set_exception(ValueError("late"))
    executor.answer(1, 2.0)
    assert evaluator.wait()[0].value == 2.0
    assert evaluator.take_late() == []


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_cluster_that_is_gone_ends_the_run_without_failures(attempts, monkeypatch):
    """Every call is lost from the 21st on."""
    now = [1000.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)
    )
    monkeypatch.setattr("baco_like.evaluators.executors.evaluator.time", clock)

    class Gone(ByHand):
        def submit(self, fn, /, *args):
            if len(self.calls) >= 20:
                self.lost_checks = 1
            future = super().submit(fn, *args)
            if fn is answer:
                return future
            if len(self.calls) > 20:
                self.lose(-1)
            else:
                self.answer(-1)
            return future

    optimizer = Optimizer(Space({"x": range(99)}), strategy="random_search")
    evaluator = ExecutorEvaluator(object, Gone(), attempts=attempts, capacity=4)
    with pytest.raises(EvaluatorError, match=r"has lost a worker .gone.*still pending"):
        run(optimizer, evaluator, MaxEvals(55))
    assert len(optimizer.trials) == 20
    assert not any(trial.failure for trial in optimizer.trials)
    assert 1 <= len(optimizer.pending) <= 4


def test_a_cluster_that_recovers_gives_up_the_trial_only(monkeypatch):
    monkeypatch.setattr("baco_like.evaluators.executors.evaluator._PAUSE", 0.0)
    executor, evaluator = by_hand(attempts=1)
    executor.lost_checks = 3
    evaluator.submit(Trial(0, {"x": 0}))
    executor.lose(0)
    (outcome,) = evaluator.wait()
    assert (outcome.status, executor.lost_checks) == (Status.ABANDONED, 0)
    assert outcome.message.startswith("handed out 1 times: its worker is lost")


def test_a_cluster_of_ray_without_nodes_ends_the_run(monkeypatch):
    """Its calls would wait for ever; one that starts without nodes may wait for them."""
    cpus, now = [0.0], [1000.0]
    ray = FakeRay()
    ray.cluster_resources = lambda: {"CPU": cpus[0]} if cpus[0] else {}
    monkeypatch.setitem(sys.modules, "ray", ray)
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("baco_like.evaluators.executors.executors.time", clock)
    monkeypatch.setattr("baco_like.evaluators.executors.base._RECOUNT_INTERVAL", 0.0)
    executor = RayExecutor()
    evaluators = [
        ExecutorEvaluator(object, executor, capacity=4),
        FunctionEvaluator(answer_x, executor=executor, max_pending=4),
    ]

    def capacities_after(seconds):
        now[0] += seconds
        return [evaluator.capacity for evaluator in evaluators]

    assert capacities_after(100.0) == [4, 4]
    cpus[0] = 2.0
    assert capacities_after(100.0) == [4, 4]
    cpus[0] = 0.0
    assert capacities_after(20.0) == [4, 4]
    now[0] += 20.0
    for evaluator in evaluators:
        with pytest.raises(EvaluatorError, match="has had no CPU for 30 s"):
            _ = evaluator.capacity
    cpus[0] = 1.0
    assert capacities_after(0.0) == [4, 4]
    ray.pool.shutdown()


_KILLED = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from baco_like.evaluators import ExecutorEvaluator, FunctionEvaluator
from baco_like import Trial

def evaluate(trial):
    os.write(1, b"begun 0\\n")  # one write: lines of two processes do not mix
    time.sleep(600)

pool = ProcessPoolExecutor(4, mp_context=get_context("fork"))
if sys.argv[1] == "function":
    evaluator = FunctionEvaluator(evaluate, executor=pool)
else:
    evaluator = ExecutorEvaluator(partial(FunctionEvaluator, evaluate), pool)
if os.fork() == 0:  # the user's own child lives on
    os.write(1, f"own {os.getpid()}\\n".encode())
    time.sleep(600)
evaluator.submit(Trial(0, {"x": 1}))
evaluator.wait()
"""


def members(group):
    """Return the processes of a group."""
    found = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


@pytest.mark.skipif("not hasattr(os, 'pidfd_open')", reason="needs descriptors of processes")
@pytest.mark.parametrize("kind", ["function", "executor"])
def test_forked_workers_that_have_not_begun_end_with_a_killed_run(kind):
    run = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _KILLED, kind],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines = [run.stdout.readline().split() for _ in range(2)]
    own = next(int(line[1]) for line in lines if line[0] == "own")
    try:
        assert len(members(run.pid)) == 6
        run.kill()
        run.wait()
        deadline = time.monotonic() + 20
        while members(run.pid) != [own] and time.monotonic() < deadline:
            time.sleep(0.02)
        assert members(run.pid) == [own]
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.stdout.close()


def test_a_closed_client_of_dask_ends_the_run():
    client = SimpleNamespace(status="running", ncores=lambda: {"a": 2, "b": 1})
    executor = SimpleNamespace(_client=client)
    assert count_workers(executor) == 3
    client.status = "closed"
    with pytest.raises(EvaluatorError, match="scheduler is gone"):
        count_workers(executor)


def test_an_error_ends_the_run_after_what_is_done():
    executor, evaluator = by_hand()
    for number in range(2):
        evaluator.submit(Trial(number, {"x": number}))
    executor.calls[0][1].set_exception(TypeError("a mistake"))
    executor.answer(1)
    assert [one.trial_id for one in evaluator.wait()] == [1]
    with pytest.raises(TypeError, match="a mistake"):
        evaluator.wait()


@pytest.mark.parametrize("error", [OSError("no space"), RuntimeError("shut down")])
def test_a_trial_that_cannot_be_sent_again_ends_the_run_after_other_outcomes(error, monkeypatch):
    executor, evaluator = by_hand()
    for number in range(2):
        evaluator.submit(Trial(number, {"x": number}))

    def refuse(fn, /, *args):
        raise error

    monkeypatch.setattr(executor, "submit", refuse)
    executor.answer(1)
    executor.lose(0)
    assert [one.trial_id for one in evaluator.wait()] == [1]
    with pytest.raises((OSError, EvaluatorError), match=str(error)):
        evaluator.wait()


def test_collecting_takes_back_what_has_not_started():
    executor, evaluator = by_hand()
    for number in range(3):
        evaluator.submit(Trial(number, {"x": number}))
    executor.calls[0][1].set_running_or_notify_cancel()
    executor.answer(0)
    executor.calls[1][1].set_running_or_notify_cancel()
    assert [one.trial_id for one in evaluator.collect(0.05)] == [0]
    assert executor.calls[2][1].cancelled()
    evaluator.close()


def test_an_abandoned_trial_is_no_longer_pending_and_may_come_again():
    """With a run around it: the configuration that is lost three times comes back, and fails then."""

    class Losing(ByHand):
        def submit(self, fn, /, *args):
            future = super().submit(fn, *args)
            if fn is answer:
                return future
            if args[-1]["x"] == 2:
                self.lose(-1)
            else:
                self.answer(-1)
            return future

    executor = Losing()
    optimizer = Optimizer(Space({"x": [1, 2, 3]}), strategy="exhaustive")
    reason = run(optimizer, ExecutorEvaluator(object, executor), MaxEvals(9))
    assert reason == "the space is exhausted"
    assert sorted((t["x"], t.failure) for t in optimizer.trials) == [
        (1, None),
        (2, "runtime"),
        (3, None),
    ]
    assert len(executor.calls) == 2 + 3 + 1
    assert optimizer.pending == []


# Late results, signs of life, workers that come and go -------------------------------------------------------------


def test_a_run_records_late_answers_as_further_results():
    class Slow(ByHand):
        """Loses its first call; answers it after all, when the second configuration is sent."""

        def submit(self, fn, /, *args):
            future = super().submit(fn, *args)
            future.set_running_or_notify_cancel()
            if len(self.calls) == 2:
                self.answer(-1, 2.0)
            elif len(self.calls) > 2:
                if not self.calls[0][1].done():
                    self.answer(0, 1.5)
                self.answer(-1, 3.0)
            return future

    executor = Slow()
    evaluator = CheckedEvaluator(
        ExecutorEvaluator(object, executor, lease=0.03, capacity=1), lambda trial, outcome: None
    )
    optimizer = Optimizer(Space({"x": [1, 2]}), strategy="exhaustive")
    assert run(optimizer, evaluator, MaxEvals(9)) == "the space is exhausted"
    found = [(t["x"], t.value, t.origin, t.extra.get("late")) for t in optimizer.trials]
    assert found == [
        (1, 2.0, "strategy", None),
        (2, 3.0, "strategy", None),
        (1, 1.5, "late", 0),
    ]


def test_workers_may_come_and_go(monkeypatch):
    monkeypatch.setattr("baco_like.evaluators.executors.base._RECOUNT_INTERVAL", 0.0)
    monkeypatch.setattr("baco_like.evaluators.executors.base._WAIT_SLICE", 0.01)

    class Client:
        def __init__(self):
            self.workers = {}

        def ncores(self):
            return self.workers

    class Cluster(ByHand):
        """Three workers come while the first call runs, and two of them go."""

        _max_workers = 0  # not the attribute that counts
        _client = Client()

        def submit(self, fn, /, *args):
            future = super().submit(fn, *args)
            capacities.append(evaluator.capacity)
            if len(self.calls) == 1:
                self._client.workers = {"a": 1, "b": 2}
            elif len(self.calls) == 3:
                self._client.workers = {"a": 1}
                for call in range(3):
                    self.answer(call)
            elif len(self.calls) > 3:
                self.answer(-1)
            return future

    executor, capacities = Cluster(), list[int]()
    evaluator = ExecutorEvaluator(object, executor)
    optimizer = Optimizer(Space({"x": list(range(6))}), strategy="exhaustive")
    run(optimizer, evaluator, MaxEvals(6))
    assert len(optimizer.trials) == 6
    assert capacities == [1, 3, 3, 1, 1, 1]


def test_a_cluster_that_does_not_answer_keeps_its_number_of_workers(monkeypatch):
    monkeypatch.setattr("baco_like.evaluators.executors.base._RECOUNT_INTERVAL", 0.0)

    class Cluster:
        answers = True

        @property
        def num_workers(self):
            if not self.answers:
                raise OSError("no answer")
            return 3

        def submit(self, fn, /, *args):
            return Future()

    cluster = Cluster()
    evaluator = ExecutorEvaluator(object, cluster)
    cluster.answers = False
    assert evaluator.capacity == 3


def test_trials_may_wait_beside_those_that_are_evaluated():
    _, evaluator = by_hand(waiting=2)
    assert evaluator.capacity == 5


def test_the_idle_share_of_workers():
    history = Optimizer(Space({"x": [1, 2, 3, 4, 5, 6]}), strategy="exhaustive")
    assert read_utilisation(history.history) is None
    times = [("a", 0.0, 2.0), ("a", 3.0, 1.0), ("b", 50.0, 4.0), ("b", 54.0, 2.0)]
    for name, start, seconds in times:
        record = worker_record(name, "s", start, seconds)
        history.observe(history.suggest(), 1.0, extra={"worker": record})
    history.observe(history.suggest(), 1.0, extra={"worker": {"start": "now"}})
    history.observe(history.suggest(), 1.0, extra={"worker": record, "cached": True})
    found = read_utilisation(history.history)
    assert found == Utilisation(2, 9.0, 10.0)
    assert found.describe() == "2 workers, idle 10.0 % of their time"


def test_every_worker_is_named_in_its_outcomes(tmp_path, lanes):
    evaluator = ExecutorEvaluator(partial(executor_targets.noted, str(tmp_path)), lanes)
    found = evaluate(evaluator, [{"x": 1, "does": "live"}])[0].extra["worker"]
    pid = (tmp_path / "begun").read_text().split()[1]
    assert found["name"].split(":")[1] == pid
    assert set(found) == {"name", "session", "start", "seconds"}
    assert 0.0 <= found["seconds"] < 60.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"lease": 0.0},
        {"capacity": 0},
        {"waiting": -1},
        {"waiting": 1, "capacity": 2},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_arguments(wrong):
    with pytest.raises(EvaluatorError, match=next(iter(wrong))):
        by_hand(**wrong)


def test_lost_is_known_by_name():
    def of(module, name):
        error = type(name, (Exception,), {"__module__": module})()
        return error

    assert is_lost_worker(of("distributed.scheduler", "KilledWorker"))
    assert is_lost_worker(of("distributed.scheduler", "NoWorkerError"))
    assert is_lost_worker(of("ray.exceptions", "WorkerCrashedError"))
    assert is_lost_worker(LostWorker())
    assert not is_lost_worker(of("other", "KilledWorker"))
    assert not is_lost_worker(ValueError())


# Real deaths -----------------------------------------------------------------------------------------------------


def begun(folder):
    return sorted(int(line.split()[0]) for line in (folder / "begun").read_text().splitlines())


def evaluate(evaluator, configs):
    waiting, found = [Trial(i, c) for i, c in enumerate(configs)], dict[int, Outcome]()
    flying = 0
    while waiting or flying:
        while waiting and flying < evaluator.capacity:
            evaluator.submit(waiting.pop(0))
            flying += 1
        outcomes = evaluator.wait()
        flying -= len(outcomes)
        found |= {one.trial_id: one for one in outcomes}
    return found


def test_a_death_costs_one_call_in_lanes(lanes, tmp_path):
    does = ["live", "die once", "fail", "live", "die", "live"]
    configs = [{"x": x, "does": what} for x, what in enumerate(does)]
    evaluator = ExecutorEvaluator(partial(executor_targets.noted, str(tmp_path)), lanes, attempts=2)
    found = evaluate(evaluator, configs)
    statuses = [found[i].status.value for i in range(6)]
    assert statuses == ["ok", "ok", "failed", "ok", "abandoned", "ok"]
    assert begun(tmp_path) == [0, 1, 1, 2, 3, 4, 4, 5]  # nothing twice without need
    with pytest.raises(TypeError, match="a mistake"):
        evaluate(evaluator, [{"x": 9, "does": "wrong"}])


def test_lanes_replace_a_process_that_dies_idle(lanes):
    first = lanes.submit(os.getpid).result()
    os.kill(first, signal.SIGKILL)
    while not any(lane._broken for lane, _ in lanes._idle.queue):  # a call meanwhile would be lost
        time.sleep(0.01)
    assert all(lanes.submit(os.getpid).result() != first for _ in range(2))


def test_lanes_queue_cancel_and_wait(tmp_path):
    lanes, sign = ProcessLanes(1), tmp_path / "sign"
    running = lanes.submit(executor_targets.wait_for, str(sign))
    waiting = [lanes.submit(os.getpid) for _ in range(3)]
    assert waiting[0].cancel()
    sign.touch()
    lanes.shutdown(cancel_futures=False)
    assert running.done()
    assert waiting[1].result() == waiting[2].result()
    other = ProcessLanes(1)
    sign.unlink()
    held = other.submit(executor_targets.wait_for, str(sign))
    while not held.running():
        time.sleep(0.01)
    dropped = other.submit(os.getpid)
    other.shutdown(wait=False, cancel_futures=True)
    sign.touch()
    other.shutdown()
    assert (held.done(), dropped.cancelled()) == (True, True)
    with pytest.raises(RuntimeError, match="shut down"):
        other.submit(print)
    with pytest.raises(EvaluatorError, match="workers must be a whole number from 1, not 0"):
        ProcessLanes(0)


def test_a_broken_pool_is_told(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        evaluator = ExecutorEvaluator(partial(executor_targets.noted, str(tmp_path)), pool)
        evaluator.submit(Trial(0, {"x": 0, "does": "die"}))
        with pytest.raises(EvaluatorError, match="ProcessLanes survives"):
            evaluator.wait()


def test_each_thread_makes_one_evaluator_and_close_closes_it(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        evaluator = ExecutorEvaluator(partial(executor_targets.Closing, str(tmp_path)), pool)
        evaluate(evaluator, [{"x": 1}] * 5)
        assert (tmp_path / "made").read_text() == "x"
        assert not (tmp_path / "closed").exists()
        evaluator.close()
        assert (tmp_path / "closed").read_text() == "x"


def test_processes_close_theirs_at_their_end(tmp_path):
    with ProcessLanes(1) as lanes:
        evaluator = ExecutorEvaluator(partial(executor_targets.Closing, str(tmp_path)), lanes)
        evaluate(evaluator, [{"x": 1}] * 2)
    assert (tmp_path / "closed").read_text() == "x"


def test_sizes():
    class Sized:
        num_workers = 7

    with ThreadPoolExecutor(5) as pool:
        assert count_workers(pool) == 5
    assert count_workers(Sized()) == 7
    assert count_workers(object()) == (os.cpu_count() or 1)
