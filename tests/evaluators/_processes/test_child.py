"""Children: those that have left their group are found by their mark, CPUs are restricted, and all can be stopped."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from baco_like import Space
from baco_like._tables import Table
from baco_like.evaluators import Commands, command_evaluator
from baco_like.evaluators._processes import child as child_module
from baco_like.evaluators._processes import process
from baco_like.evaluators._processes.child import restrict_cpus
from baco_like.evaluators._processes.process import Stop
from baco_like.exceptions import EvaluatorError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and CPUs of Linux")


@pytest.fixture
def child():
    mark = child_module.new_mark()
    made = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, child_module.MARK: str(mark)}, start_new_session=True
    )
    while str(mark).encode() not in Path(f"/proc/{made.pid}/environ").read_bytes():
        time.sleep(0.001)  # a program that has just begun has no environment yet
    yield made, mark
    made.kill()
    made.wait()


@pytest.mark.parametrize("few", [0, 256])
def test_a_marked_process_is_killed(child, few, monkeypatch):
    monkeypatch.setattr(child_module, "_MAX_PROBED", few)
    process, mark = child
    child_module.kill_marked(child_module.new_mark(), since=process.pid - 1)
    assert process.poll() is None
    child_module.kill_marked(mark, since=process.pid - 1)
    assert process.wait(10) == -signal.SIGKILL


def test_an_earlier_one_is_not_looked_at(child):
    process, mark = child
    child_module.kill_marked(mark, since=process.pid)
    assert process.poll() is None


def test_without_a_last_number_all_are_looked_at(child, monkeypatch):
    monkeypatch.setattr(child_module, "_last_number", lambda: None)
    process, mark = child
    child_module.kill_marked(mark, since=1)
    assert process.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("number", "since", "last", "follows"),
    [
        (5, 4, 9, True),
        (9, 4, 9, True),
        (4, 4, 9, False),
        (10, 4, 9, False),
        (40, 30, 9, True),  # the numbers have begun again
        (7, 30, 9, True),
        (20, 30, 9, False),
        (1, 30, None, True),
    ],
)
def test_numbers_begin_again(number, since, last, follows):
    assert child_module._is_later(number, since, last) is follows


MINE = os.sched_getaffinity(0) if sys.platform == "linux" else set[int]()
WHERE = [sys.executable, "-I", "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]


def test_a_child_has_the_cpus_and_the_caller_keeps_its_own():
    cpu = max(MINE)
    assert process.run_command(WHERE, cpus=frozenset({cpu})).out == f"[{cpu}]\n"
    assert os.sched_getaffinity(0) == MINE
    assert process.run_command(WHERE).out == f"{sorted(MINE)}\n"


def test_another_thread_keeps_its_own():
    found = []
    with restrict_cpus(frozenset({min(MINE)})):
        assert os.sched_getaffinity(0) == {min(MINE)}
    thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
    thread.start()
    thread.join()
    assert found == [MINE]


def test_they_come_back_after_an_error():
    with pytest.raises(FileNotFoundError):
        process.run_command(["./no-such-program"], cpus=frozenset({min(MINE)}))
    assert os.sched_getaffinity(0) == MINE


def test_settings():
    command = Commands(run="true", measure="wall", cpus=frozenset(MINE))
    assert Table("evaluator", {"run": "true", "cpus": sorted(MINE)}).create(Commands).cpus == MINE
    command_evaluator(Space({"x": [1, 2]}), command, unit="s").close()
    wrong = replace(command, cpus=frozenset({100000}))
    with pytest.raises(EvaluatorError, match=r"\[evaluator\] cpus: there is no CPU 100000"):
        command_evaluator(Space({"x": [1, 2]}), wrong, unit="s")


def test_a_stop_ends_what_runs_in_other_threads_and_lets_nothing_start():
    stop, ended = Stop(), list[str]()

    def go():
        try:
            process.run_command(["sleep", "60"], stop=stop)
        except EvaluatorError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    stop.set()
    stop.set()
    for thread in threads:
        thread.join(60)
    go()
    assert ended == ["the command was ended because the evaluator is closed"] * 4
    assert select.select([stop], [], [], 0)[0] == [stop]
