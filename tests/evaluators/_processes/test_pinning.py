"""CPUs of children are restricted; CPUs of the caller stay unchanged."""

from __future__ import annotations

import os
import select
import sys
import threading

import pytest

from baco_like.evaluators._processes import process
from baco_like.evaluators._processes.child import restrict_cpus
from baco_like.evaluators._processes.process import Stop, check_cpus, cpus_from_table
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError, RunFileError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pinning is of Linux")
MINE = os.sched_getaffinity(0) if sys.platform == "linux" else set[int]()
WHERE = [sys.executable, "-I", "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]


def test_a_child_has_the_cpus_and_the_caller_keeps_its_own() -> None:
    cpu = max(MINE)
    assert process.run_command(WHERE, cpus=frozenset({cpu})).out == f"[{cpu}]\n"
    assert os.sched_getaffinity(0) == MINE
    assert process.run_command(WHERE).out == f"{sorted(MINE)}\n"


def test_another_thread_keeps_its_own() -> None:
    found: list[set[int]] = []
    with restrict_cpus(frozenset({min(MINE)})):
        assert os.sched_getaffinity(0) == {min(MINE)}
    thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
    thread.start()
    thread.join()
    assert found == [MINE]


def test_they_come_back_after_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        process.run_command(["./no-such-program"], cpus=frozenset({min(MINE)}))
    assert os.sched_getaffinity(0) == MINE


def test_tables() -> None:
    assert cpus_from_table(Table("evaluator", {})) is None
    assert cpus_from_table(Table("evaluator", {"cpus": [min(MINE)]})) == {min(MINE)}
    for wrong in ([], [1.5], [True], ["0"]):
        with pytest.raises(RunFileError, match="an array of CPU numbers"):
            cpus_from_table(Table("evaluator", {"cpus": wrong}))
    with pytest.raises(EvaluatorError, match=r"\[evaluator\] cpus: there is no CPU 100000"):
        cpus_from_table(Table("evaluator", {"cpus": [100000]}))
    check_cpus(frozenset(MINE), "cpus")


def test_a_stop_ends_what_runs_in_other_threads_and_lets_nothing_start() -> None:
    stop, ended = Stop(), list[str]()

    def go() -> None:
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
