"""An optimizer as a Python object: its text, copies, pickles, logger and forks."""

from __future__ import annotations

import copy
import fcntl
import functools
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from idle import Idle

from baco_like import Infeasible, Integer, MaxEvals, Optimizer, Permutation, Real, Space, tune
from baco_like.journal.events import _append_lock
from baco_like.strategies import STRATEGIES

SPACE = Space({"a": [1, 2, 4, 8], "b": ["<x>", "y"]}, constraints=["a > 1 or b == 'y'"])


def run(**settings):
    optimizer = Optimizer(SPACE, seed=3, **settings)
    for _ in range(4):
        trial = optimizer.suggest()
        optimizer.observe(trial, float(trial["a"]))
    return optimizer


def test_the_text_says_where_the_run_is():
    optimizer = run(aim={"time": "minimize"})
    optimizer.suggest()
    assert repr(optimizer) == (
        f"Optimizer({SPACE!r}, 4 observed, 1 pending, best time {optimizer.best_value:.6g})"
    )
    assert repr(Optimizer(SPACE)).endswith("0 observed, 0 pending, no success)")


def test_notebooks_show_tables():
    optimizer = run()
    assert "<td>&lt;x&gt;</td>" in "".join(t._repr_html_() for t in optimizer.trials)
    assert f"<td>{optimizer.best_value:.6g}</td>" in optimizer._repr_html_()
    assert "Ordinal" in SPACE._repr_html_()
    result = tune(lambda trial: 1.0, SPACE, stop=MaxEvals(2), progress=False)
    assert "<p>2 evaluations</p>" in result._repr_html_()
    conditional = Space({"a": [1, 2], "b": [3]}, when={"b": "a > 1"})
    assert repr(conditional) == "Space(a, b; 0 constraints, 1 conditional, 2 feasible)"
    assert "<td>a &gt; 1</td>" in conditional._repr_html_()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_continues_like_the_original(copied):
    optimizer = run()
    pending = optimizer.suggest()
    other = copied(optimizer)
    assert other.trials == optimizer.trials
    assert other.pending == [pending]
    other.observe(pending, 1.0)
    assert len(optimizer.trials) == 4
    optimizer.observe(pending, 1.0)
    assert other.suggest() == optimizer.suggest()


KINDS = {
    "order": Space({"order": Permutation(["i", "j", "k"]), "x": [1, 2, 3]}),
    "long order": Space(
        {"order": Permutation(list(range(7))), "x": Real(0, 1)}, ["pos(order, 0) < 3"]
    ),
    "conditional": Space(
        {"a": [1, 2, 4], "order": Permutation(["i", "j", "k"])}, when={"order": "a > 1"}
    ),
    "tasks": Space({"a": [1, 2, 4], "b": Integer(1, 9)}, tasks=[{"n": 1}, {"n": 2}]),
}


@pytest.mark.parametrize("space", KINDS.values(), ids=KINDS)
def test_everything_is_pickled_after_a_model_has_used_it(space):
    result = tune(lambda trial: float(trial.id), space, stop=MaxEvals(10), progress=False, seed=1)
    again = pickle.loads(pickle.dumps(result))
    assert again.trials == result.trials
    assert again.optimizer.space == space
    assert again.optimizer.suggest() == result.optimizer.suggest()
    assert pickle.loads(pickle.dumps(space)).sample(3, 0) == space.sample(3, 0)


def test_an_optimizer_with_a_file_is_not_copied(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(SPACE, storage=path)
    with pytest.raises(TypeError, match=r"Optimizer\.load\('.*run\.jsonl'\)"):
        copy.deepcopy(optimizer)


@pytest.mark.parametrize("name", [n for n in STRATEGIES if "gpytorch" not in n])
def test_every_strategy_is_pickled(name):
    optimizer = run(strategy=name)
    assert pickle.loads(pickle.dumps(optimizer)).suggest() == optimizer.suggest()


# ---- The logger ``baco_like`` ----


SMALL = Space({"a": [1, 2, 4]})


def cost(trial):
    if trial["a"] == 2:
        raise Infeasible("no room")
    return float(trial["a"])


def test_a_run_logs_its_milestones(caplog, tmp_path):
    path = tmp_path / "run.jsonl"
    with caplog.at_level(logging.INFO, "baco_like"):
        tune(cost, SMALL, stop=MaxEvals(3), storage=path, progress=False)
        Optimizer.load(path)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith(f"new run in {path}: Space(a")
    assert messages[1] == "the run begins: up to 1 trials at a time by FunctionEvaluator"
    assert any(text.endswith("1.0 with {'a': 1}") for text in messages)
    assert messages[-2] == "the run ended: 3 evaluations; 3 observed"
    assert messages[-1] == f"resumed the run in {path}: 3 observed, 0 pending"
    assert {record.name for record in caplog.records} == {
        "baco_like.optimizer",
        "baco_like.running",
    }


def test_debug_has_every_trial(caplog):
    with caplog.at_level(logging.DEBUG, "baco_like"):
        optimizer = Optimizer(SMALL)
        trial = optimizer.suggest()
        optimizer.observe(trial, failed="compile", message="no room")
        optimizer.abandon(optimizer.suggest(), "tired")
    text = caplog.text
    assert "suggested trial 0 (strategy) in 0.0" in text
    assert "observed trial 0: compile no room" in text
    assert "abandoned trial 1 tired" in text


def test_an_error_that_ends_the_run_is_logged(caplog):
    def broken(trial):
        raise KeyError("oops")

    with caplog.at_level(logging.INFO, "baco_like"), pytest.raises(KeyError):
        tune(broken, SMALL, stop=MaxEvals(3), progress=False)
    assert caplog.messages[-1] == "the run ended by KeyError: 'oops'"


def test_nothing_is_printed_without_a_handler():
    code = "import baco_like; baco_like.Optimizer({'a': [1, 2]}).suggest()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("baco_like").handlers)


# ---- A forked child goes on with the optimizer, whatever the threads of its parent were doing ----


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

FOUR = Space({"x": [1, 2, 3, 4]})


@dataclass(frozen=True)
class Waiting(Idle):
    """A strategy without proposals; in the process of the test, it waits for a permission."""

    parent: int = field(default_factory=os.getpid)
    entered: threading.Event = field(default_factory=threading.Event, repr=False)
    permission: threading.Event = field(default_factory=threading.Event, repr=False)

    def ask(self, problem, history, state, n, rng):
        if os.getpid() == self.parent:
            self.entered.set()
            assert self.permission.wait(60)
        return []


def run_in_child(action):
    """Run an action in a forked child, and return its exit code."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("in_file", [True, False])
def test_a_child_that_is_forked_during_a_suggestion_can_suggest(tmp_path, in_file):
    strategy, called = Waiting(), []
    optimizer = Optimizer(
        FOUR,
        strategy=strategy,
        storage=tmp_path / "run.jsonl" if in_file else None,
        callbacks=[lambda optimizer, trial: called.append(trial.id)],
    )
    thread = threading.Thread(target=optimizer.suggest)
    thread.start()
    assert strategy.entered.wait(60)

    def go_on():
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0)
        assert called == [trial.id]
        assert not thread.is_alive()  # in the child

    with _append_lock:
        assert run_in_child(go_on) == 0
    strategy.permission.set()
    thread.join()
    assert len(optimizer.pending) == 1
    assert len(optimizer.trials) == (1 if in_file else 0)


def test_callbacks_are_called_in_a_child_that_was_forked_during_one():
    entered, permission = threading.Event(), threading.Event()
    called: list[int] = []

    def callback(optimizer, trial):
        called.append(trial.id)
        if threading.current_thread() is not threading.main_thread():
            entered.set()
            assert permission.wait(60)

    optimizer = Optimizer(FOUR, strategy="random_search", callbacks=[callback])
    thread = threading.Thread(target=optimizer.observe, args=({"x": 1}, 1.0))
    thread.start()
    assert entered.wait(60)

    def go_on():
        optimizer.observe({"x": 2}, 1.0)
        assert called == [0, 1]

    assert run_in_child(go_on) == 0
    permission.set()
    thread.join()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cached properties have no lock")
def test_cached_properties_are_usable_in_a_child():
    properties = [
        value for value in vars(Space).values() if isinstance(value, functools.cached_property)
    ]
    entered, permission = threading.Event(), threading.Event()

    def hold():
        with properties[0].lock:
            entered.set()
            assert permission.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(60)
    name = properties[0].attrname
    assert run_in_child(lambda: getattr(Space({"x": [1, 2]}), str(name))) == 0
    permission.set()
    thread.join()


@dataclass(frozen=True)
class Overtaken(Idle):
    """A strategy without proposals. During each, another writer adds an event, unless the journal is locked."""

    others: list[Optimizer] = field(default_factory=list, repr=False)
    events: list[int] = field(default_factory=list, repr=False)

    def ask(self, problem, history, state, n, rng):
        assert len(self.events) < 20, "overtaken without an end"
        for other in self.others:
            with open(other.journal.path) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
            self.events.append(len(self.events))
            other.observe({"x": self.events[-1]}, 1.0)
        return []


def test_a_writer_that_others_overtake_without_pause_gets_its_turn(tmp_path):
    strategy, path = Overtaken(), tmp_path / "run.jsonl"
    optimizer = Optimizer({"x": list(range(100))}, strategy=strategy, storage=path)
    strategy.others.append(Optimizer.load(path, strategy=Overtaken()))
    trial = optimizer.suggest()
    optimizer.observe(trial, 1.0)
    assert len(strategy.events) == 3
    assert strategy.others[0].observe({"x": 99}, 1.0).value == 1.0  # the journal is free again
    assert len(Optimizer.load(path, strategy=Overtaken()).trials) == 5


class Interrupting(dict[Any, Any]):
    """A dictionary whose first new key interrupts the thread, as a fork stops another thread in its child."""

    is_used = False

    def __setitem__(self, key, value):
        if not self.is_used:
            self.is_used = True
            raise KeyboardInterrupt
        super().__setitem__(key, value)


def test_a_half_added_observation_leaves_no_trace():
    optimizer = Optimizer(FOUR, strategy="random_search")
    optimizer.observe({"x": 1}, 1.0)
    buffer = optimizer.history._buffer
    buffer.rows_by_id = Interrupting(buffer.rows_by_id)
    with pytest.raises(KeyboardInterrupt):
        optimizer.observe({"x": 2}, 2.0)
    optimizer.observe({"x": 3}, 3.0)
    assert [trial.value for trial in optimizer.trials] == [1.0, 3.0]
    optimizer.enqueue({"x": 2})  # refused if the configuration counts as observed
    assert optimizer.suggest().config == {"x": 2}
