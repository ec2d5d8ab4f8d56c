"""A forked child goes on with the optimizer, whatever the threads of its parent were doing."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from baco_like import Optimizer, Space
from baco_like.journal.events import _append_lock

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SPACE = Space({"x": [1, 2, 3, 4]})


@dataclass(frozen=True)
class Waiting:
    """A strategy without proposals; in the process of the test, it waits for a permission."""

    parent: int = field(default_factory=os.getpid)
    entered: threading.Event = field(default_factory=threading.Event, repr=False)
    permission: threading.Event = field(default_factory=threading.Event, repr=False)

    def init(self, problem: Any, rng: Any) -> None:
        return None

    def ask(self, problem: Any, history: Any, state: None, n: int, rng: Any) -> list[Any]:
        if os.getpid() == self.parent:
            self.entered.set()
            assert self.permission.wait(30)
        return []

    def tell(self, problem: Any, state: None, observation: Any, rng: Any) -> None:
        return None


def run_in_child(action: Any) -> int:
    """Run an action in a forked child, and return its exit code."""
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("in_file", [True, False])
def test_a_child_that_is_forked_during_a_suggestion_can_suggest(
    tmp_path: Any, in_file: bool
) -> None:
    strategy, called = Waiting(), []
    optimizer = Optimizer(
        SPACE,
        strategy=strategy,
        storage=tmp_path / "run.jsonl" if in_file else None,
        callbacks=[lambda optimizer, trial: called.append(trial.id)],
    )
    thread = threading.Thread(target=optimizer.suggest)
    thread.start()
    assert strategy.entered.wait(30)

    def go_on() -> None:
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


def test_callbacks_are_called_in_a_child_that_was_forked_during_one() -> None:
    entered, permission = threading.Event(), threading.Event()
    called: list[int] = []

    def callback(optimizer: Optimizer, trial: Any) -> None:
        called.append(trial.id)
        if threading.current_thread() is not threading.main_thread():
            entered.set()
            assert permission.wait(30)

    optimizer = Optimizer(SPACE, strategy="random_search", callbacks=[callback])
    thread = threading.Thread(target=optimizer.observe, args=({"x": 1}, 1.0))
    thread.start()
    assert entered.wait(30)

    def go_on() -> None:
        optimizer.observe({"x": 2}, 1.0)
        assert called == [0, 1]

    assert run_in_child(go_on) == 0
    permission.set()
    thread.join()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cached properties have no lock")
def test_cached_properties_are_usable_in_a_child() -> None:
    properties = [
        value for value in vars(Space).values() if isinstance(value, functools.cached_property)
    ]
    entered, permission = threading.Event(), threading.Event()

    def hold() -> None:
        with properties[0].lock:  # type: ignore[attr-defined]
            entered.set()
            assert permission.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(30)
    name = properties[0].attrname
    assert run_in_child(lambda: getattr(Space({"x": [1, 2]}), str(name))) == 0
    permission.set()
    thread.join()
