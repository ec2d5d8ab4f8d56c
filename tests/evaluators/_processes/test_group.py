"""Processes that have left their group are found by their mark, and only those that may be meant are looked at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from baco_like.evaluators._processes import child as group

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    mark = group.new_mark()
    made = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, group.MARK: str(mark)}, start_new_session=True
    )
    while str(mark).encode() not in Path(f"/proc/{made.pid}/environ").read_bytes():
        time.sleep(0.001)  # a program that has just begun has no environment yet
    yield made, mark
    made.kill()
    made.wait()


@pytest.mark.parametrize("few", [0, 256])
def test_a_marked_process_is_killed(
    child: tuple[subprocess.Popen[bytes], int], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_MAX_PROBED", few)
    process, mark = child
    group.kill_marked(group.new_mark(), since=process.pid - 1)
    assert process.poll() is None
    group.kill_marked(mark, since=process.pid - 1)
    assert process.wait(10) == -signal.SIGKILL


def test_an_earlier_one_is_not_looked_at(child: tuple[subprocess.Popen[bytes], int]) -> None:
    process, mark = child
    group.kill_marked(mark, since=process.pid)
    assert process.poll() is None


def test_without_a_last_number_all_are_looked_at(
    child: tuple[subprocess.Popen[bytes], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_last_number", lambda: None)
    process, mark = child
    group.kill_marked(mark, since=1)
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
def test_numbers_begin_again(number: int, since: int, last: int | None, follows: bool) -> None:
    assert group._is_later(number, since, last) is follows
