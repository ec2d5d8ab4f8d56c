"""The loop: what it keeps when it breaks off, what it refuses before any effect, and one run per journal."""

import contextlib
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from baco_like import (
    EvaluatorError,
    JournalError,
    MaxEvals,
    Measuring,
    Optimizer,
    Outcome,
    Space,
    Workers,
    run,
    tune,
)
from baco_like.exceptions import FailureWarning
from baco_like.journal.lock import sole_runner

SPACE = {"a": list(range(50))}
QUIET = {"strategy": "random_search", "progress": False}


def quiet(fn, evaluations, **more):
    """Tune by random search, without progress."""
    return tune(fn, SPACE, stop=MaxEvals(evaluations), **{**QUIET, **more})


def statuses(path):
    opt = Optimizer.load(path)
    return len(opt.trials), len(opt.pending)


class Scripted:
    """An evaluator of several trials at once, whose outcomes come last first, some at a time."""

    def __init__(self, outcome, capacity=3, at_once=1):
        self.capacity, self.outcome, self.at_once = capacity, outcome, at_once
        self.flying, self.started, self.most, self.closed = [], [], 0, 0

    def submit(self, trial):
        self.flying.append(trial)
        self.started.append(trial.id)
        self.most = max(self.most, len(self.flying))

    def wait(self):
        return [self.outcome(self.flying.pop()) for _ in range(min(self.at_once, len(self.flying)))]

    def close(self):
        self.flying.clear()
        self.closed += 1


def fine(trial):
    return Outcome.success(trial.id, (float(trial["a"]),))


# Several in flight -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 2])
def test_several_in_flight_fill_the_capacity_and_the_budget_exactly(at_once):
    opt, evaluator = Optimizer(Space(SPACE), strategy="random_search"), Scripted(fine, 3, at_once)
    assert run(opt, evaluator, MaxEvals(8)) == "8 evaluations"
    assert (len(opt.trials), len(opt.pending)) == (8, 0)
    assert evaluator.most == 3
    assert evaluator.closed


def test_an_exhausted_space_waits_for_what_is_in_flight():
    opt = Optimizer(Space({"a": [1, 2, 3, 4]}), strategy="random_search")
    assert run(opt, Scripted(fine, 3), MaxEvals(9)) == "the space is exhausted"
    assert len(opt.trials) == 4


def test_resumed_pending_trials_come_first(tmp_path):
    path = tmp_path / "run.jsonl"
    flying = Optimizer(Space(SPACE), strategy="random_search", storage=path).suggest(3)
    opt = Optimizer(Space(SPACE), strategy="random_search", storage=path)
    evaluator = Scripted(fine, 2)
    run(opt, evaluator, MaxEvals(5))
    assert evaluator.started == [*(t.id for t in flying), 3, 4]
    assert len(opt.trials) == 5


@pytest.mark.parametrize("capacity", [1, 8])
def test_the_budget_holds_for_resumed_trials_too(capacity):
    opt = Optimizer(Space(SPACE), strategy="random_search")
    opt.suggest(6)
    assert run(opt, Scripted(fine, capacity), MaxEvals(2)) == "2 evaluations"
    assert (len(opt.trials), len(opt.pending)) == (2, 4)


# Breaking off ----------------------------------------------------------------------------------------------------


def test_what_is_running_when_a_mistake_happens_is_waited_for():
    together = threading.Barrier(4)  # the mistake comes when all four are running

    def fn(trial):
        together.wait(60)
        if trial.id == 0:
            raise TypeError("a mistake")
        time.sleep(0.1)
        return 1.0

    with ThreadPoolExecutor(4) as pool, pytest.raises(TypeError) as caught:
        quiet(fn, 4, workers=Workers(executor=pool))
    assert {t.id for t in caught.value.optimizer.trials} == {1, 2, 3}  # threads end in any order


def test_a_mistake_carries_the_optimizer():
    def fn(trial):
        if trial.id == 5:
            raise TypeError("late")
        return float(trial.id)

    with pytest.raises(TypeError, match="late") as caught:
        quiet(fn, 20)
    assert len(caught.value.optimizer.trials) == 5
    if sys.version_info >= (3, 11):
        assert "5 evaluations" in caught.value.__notes__[0]


def test_ctrl_c_returns_what_there_is():
    def fn(trial):
        if trial.id == 4:
            raise KeyboardInterrupt
        return float(trial.id)

    result = quiet(fn, 20)
    assert result.reason == "interrupted"
    assert len(result.trials) == 4
    assert result.best_value == 0.0


def test_ctrl_c_does_not_wait_for_what_runs():
    hung = threading.Event()
    fast = threading.Event()

    def fn(trial):
        if trial.id == 0:
            hung.wait(60)
        elif trial.id == 3:
            fast.set()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            hung.wait(60)
        return 1.0

    with ThreadPoolExecutor(2) as pool:
        result = quiet(fn, 20, workers=Workers(executor=pool))
        assert fast.is_set()
        hung.set()
    assert result.reason == "interrupted"
    assert [t.id for t in result.trials] == [1, 2]


def die_on_three(trial):
    if trial.id == 3:
        os._exit(1)
    return 1.0


def test_a_lost_executor_keeps_what_came_before(tmp_path):
    path = tmp_path / "run.jsonl"
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=context) as pool,
        pytest.raises(EvaluatorError, match="lost a worker"),
    ):
        quiet(die_on_three, 9, workers=Workers(executor=pool), storage=path)
    assert statuses(path) == (3, 1)


def test_a_bound_is_a_plain_failure_when_maximising():
    def late(trial):
        return Outcome.censored(trial.id, 5.0, message="stopped") if trial.id else fine(trial)

    opt = Optimizer(Space(SPACE), "maximize", strategy="random_search")
    run(opt, Scripted(late), MaxEvals(4))
    assert sorted((t.failure or "", t.bound, t.message) for t in opt.trials) == [
        ("", None, ""),
        *[("timeout", None, "stopped")] * 3,
    ]


def test_the_first_ten_failures_are_told():
    opt = Optimizer(Space(SPACE), strategy="random_search")
    failing = Scripted(lambda t: Outcome.failure(t.id, "compile", "no such file"))
    with pytest.warns(FailureWarning, match="compile: no such file"):
        run(opt, failing, MaxEvals(12))


@pytest.mark.parametrize("fn", [lambda trial: math.nan, lambda trial: 1 / 0])
def test_warnings_of_a_run_point_to_the_call(fn):
    with pytest.warns(FailureWarning) as caught:
        tune(
            fn, SPACE, stop=MaxEvals(11), measuring=Measuring(failures=(ArithmeticError,)), **QUIET
        )
    assert {warning.filename for warning in caught} == {__file__}


# Before any effect -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"measuring": Measuring(repeats=0)},
        {"workers": Workers(max_pending=0)},
        {"measuring": Measuring(failures=ValueError)},
        {"measuring": Measuring(failures=(3,))},
        {"callbacks": print},
        {"callbacks": [3]},
        {"seed": -1},
        {"strategy": "bayesain"},
    ],
    ids=str,
)
def test_a_wrong_argument_leaves_no_journal(tmp_path, wrong):
    with pytest.raises((EvaluatorError, TypeError, ValueError)):
        quiet(lambda t: 1.0, 3, storage=tmp_path / "run.jsonl", **wrong)
    assert list(tmp_path.iterdir()) == []


# One run per journal ---------------------------------------------------------------------------------------------


def test_a_second_run_on_a_journal_is_refused(tmp_path):
    path = tmp_path / "run.jsonl"

    def fn(trial):
        opt = Optimizer(Space(SPACE), strategy="random_search", storage=path)
        holder = rf"in use by another run \(process {os.getpid()}\)"
        with pytest.raises(JournalError, match=holder) as caught:
            run(opt, Scripted(fine), MaxEvals(5))
        assert "\n" not in str(caught.value)
        with pytest.raises(
            JournalError, match=r"in use by another run.*through one `baco-like serve --http`"
        ):
            quiet(lambda t: 1.0, 5, storage=path)
        return 1.0

    assert quiet(fn, 2, storage=path).reason == "2 evaluations"
    assert [p.name for p in tmp_path.iterdir()] == ["run.jsonl"]


POOL = """
import sys, time
from concurrent.futures import ProcessPoolExecutor
from baco_like import MaxEvals, Workers, tune

def fn(trial):
    time.sleep(0.05)
    return float(trial["x"])

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        tune(fn, {"x": list(range(1, 400))}, stop=MaxEvals(300), strategy="random_search", storage=sys.argv[1],
             workers=Workers(executor=pool), progress=False)
"""


def children_of(process):
    """Return the living processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            if int(words[2]) == process and words[0] != "Z":
                found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="reads /proc")
def test_a_killed_run_with_a_process_pool_can_be_resumed_at_once_and_leaves_no_workers(tmp_path):
    path = tmp_path / "run.jsonl"
    program = subprocess.Popen([sys.executable, "-c", POOL, path], start_new_session=True)
    end = time.monotonic() + 200
    while not (path.exists() and path.read_text().count('"observed"') >= 3):
        assert program.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(children_of(program.pid)) >= 3
    with pytest.raises(JournalError, match=rf"in use .*{program.pid}"), sole_runner(path):
        pass
    program.kill()
    program.wait()
    resumed = tune(fine_value, {"x": list(range(1, 400))}, stop=MaxEvals(20), storage=path, **QUIET)
    assert len(resumed.trials) >= 20
    assert not path.with_name("run.jsonl.lock").exists()
    while children_of(program.pid):
        assert time.monotonic() < end, "a worker has outlived the run"
        time.sleep(0.05)


@pytest.mark.filterwarnings("ignore:.*multi-threaded")  # if another test has left a thread
def test_a_forked_child_that_leaves_the_run_does_not_free_its_lock(tmp_path):
    path = tmp_path / "run.jsonl"
    path.touch()
    with contextlib.ExitStack() as stack, sole_runner(path):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            with pytest.raises(JournalError, match="in use"), sole_runner(path):
                pass
        else:
            stack.callback(os._exit, 0)  # after the child has left the run


def fine_value(trial):
    return float(trial["x"])


def test_a_lock_that_cannot_be_made_is_told(tmp_path):
    with (
        pytest.raises(JournalError, match=r"cannot use .*absent.*: No such file"),
        sole_runner(tmp_path / "absent" / "run.jsonl"),
    ):
        pass


def test_an_optimizer_opened_before_another_run_ended_goes_on(tmp_path):
    path = tmp_path / "run.jsonl"
    early = Optimizer(Space(SPACE), strategy="random_search", storage=path)
    other = Optimizer(Space(SPACE), strategy="random_search", storage=path)
    trial = other.suggest()
    early.refresh()
    assert [t.id for t in early.pending] == [trial.id]
    other.observe(trial, 1.0)
    run(early, Scripted(lambda t: Outcome.success(t.id, (2.0,))), MaxEvals(4))
    assert statuses(path) == (4, 0)


def test_an_evaluator_is_no_function():
    evaluator = Scripted(lambda trial: Outcome.success(trial.id, (1.0,)))
    with pytest.raises(TypeError, match=r"fn = Scripted.*write run\(optimizer, evaluator, stop\)"):
        tune(evaluator, SPACE, stop=MaxEvals(3))


def test_a_number_is_no_stopping_rule(tmp_path):
    with pytest.raises(TypeError, match="MaxEvals"):
        tune(lambda t: 1.0, SPACE, stop=60, storage=tmp_path / "j")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_folder_is_no_journal(name):
    with pytest.raises(JournalError, match="is a folder; name a file"), sole_runner(Path(name)):
        pass
