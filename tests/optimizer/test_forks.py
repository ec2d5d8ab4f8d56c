"""A forked child goes on with the optimizer, whatever the threads of its parent were doing."""

from __future__ import annotations

import fcntl
import functools
import os
import signal
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from idle import Idle

from baco_like import Optimizer, Space
from baco_like.journal.events import _append_lock

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SPACE = Space({"x": [1, 2, 3, 4]})


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
        SPACE,
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

    optimizer = Optimizer(SPACE, strategy="random_search", callbacks=[callback])
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
    optimizer = Optimizer(SPACE, strategy="random_search")
    optimizer.observe({"x": 1}, 1.0)
    buffer = optimizer.history._buffer
    buffer.rows_by_id = Interrupting(buffer.rows_by_id)
    with pytest.raises(KeyboardInterrupt):
        optimizer.observe({"x": 2}, 2.0)
    optimizer.observe({"x": 3}, 3.0)
    assert [trial.value for trial in optimizer.trials] == [1.0, 3.0]
    optimizer.enqueue({"x": 2})  # refused if the configuration counts as observed
    assert optimizer.suggest().config == {"x": 2}
