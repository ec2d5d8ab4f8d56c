"""Conformance of journals, for any `baco_like.journal.Journal`.

Call the two checks in your package's tests::

    def test_my_journal(tmp_path):
        check_journal(lambda: MyJournal(tmp_path / "one"))
        check_resume(lambda: MyJournal(tmp_path / "two"))
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

from baco_like.exceptions import JournalConflict, JournalError
from baco_like.journal import START, Event, Journal, Mark
from baco_like.optimizer import Optimizer
from baco_like.spaces.space import Space

EVENTS: tuple[Event, ...] = (
    {"event": "opened", "schema": 1, "text": 'a "quoted"\nline, \u00e4'},
    {"event": "suggested", "trials": [{"id": 0, "tag": None}], "dequeued": 0},
    {"event": "observed", "outcomes": [{"id": 0, "value": 0.1 + 0.2, "large": 2**60}]},
    {"event": "abandoned", "id": 1, "reason": ""},
    {"event": "enqueued", "configs": [{"x": True, "y": [1, 2.5, "z"]}]},
)
"""Events with the kinds of JSON values that runs write."""


def check_journal(open_journal: Callable[[], Journal]) -> None:
    """Check that a journal keeps appended events and refuses conflicts.

    Args:
        open_journal: Opens the same journal each time it is called; the journal is empty at first. A journal in memory
            returns the same object each time.

    Raises:
        AssertionError: The journal breaks a rule; the message names the rule.
    """
    journal = open_journal()
    assert isinstance(journal, Journal), "it has the methods of Journal"
    assert list(journal.read(START)) == [], "a new journal is empty"
    check_append_and_read(open_journal)
    check_conflicts(open_journal)
    check_refused_events(open_journal)
    check_concurrent_writers(open_journal)


def check_append_and_read(open_journal: Callable[[], Journal]) -> None:
    """Check that events are read back exactly, from the start and from every mark."""
    mark, marks = _end_of(open_journal()), []
    for event in EVENTS:
        mark = open_journal().append(event, mark)
        marks.append(mark)
    records = list(open_journal().read(START))[-len(EVENTS) :]
    assert [dict(event) for event, _ in records] == [dict(event) for event in EVENTS], (
        "events are read back unchanged and in order"
    )
    assert [read_mark.number for _, read_mark in records] == [mark.number for mark in marks], (
        "read returns the mark that append returned"
    )
    for i, mark in enumerate(marks):
        later = [dict(event) for event, _ in open_journal().read(mark)]
        assert later == [dict(event) for event in EVENTS[i + 1 :]], (
            "read returns the events after a mark, and only these"
        )


def check_conflicts(open_journal: Callable[[], Journal]) -> None:
    """Check that an append after an old mark raises `JournalConflict` and writes nothing."""
    old = _end_of(open_journal())
    new = open_journal().append(EVENTS[1], old)
    try:
        open_journal().append(EVENTS[2], old)
    except JournalConflict:
        pass
    else:
        raise AssertionError("append raises JournalConflict if there are events after the mark")
    assert _end_of(open_journal()).number == new.number, "a refused append writes nothing"


def check_refused_events(open_journal: Callable[[], Journal]) -> None:
    """Check that an event without a JSON form is refused, unless the journal keeps objects, and leaves no trace."""
    mark = _end_of(open_journal())
    try:
        open_journal().append({"event": "observed", "value": math.nan}, mark)
    except JournalError:
        assert _end_of(open_journal()).number == mark.number, "a refused append writes nothing"


def check_concurrent_writers(open_journal: Callable[[], Journal]) -> None:
    """Check that events of several threads are all kept."""
    begin = _end_of(open_journal())

    def write(writer: int) -> None:
        for turn in range(5):
            event = {"event": "abandoned", "id": 10 * writer + turn, "reason": ""}
            while True:
                try:
                    open_journal().append(event, _end_of(open_journal()))
                    break
                except JournalConflict:
                    continue

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [event["id"] for event, _ in open_journal().read(begin)]
    assert sorted(ids) == [10 * writer + turn for writer in range(3) for turn in range(5)], (
        "concurrent writers lose no event"
    )
    for writer in range(3):
        own = [i for i in ids if i // 10 == writer]
        assert own == sorted(own), "events of one writer keep their order"


def check_resume(open_journal: Callable[[], Journal]) -> None:
    """Check that an interrupted and resumed run equals an uninterrupted one.

    Args:
        open_journal: As in `check_journal`, but for another empty journal.
    """
    space = Space({"a": [1, 2, 4, 8], "b": [1, 2, 3]}, constraints=["a * b <= 12"])
    whole = Optimizer(space, seed=5, strategy="random_search")
    for optimizer in (
        whole,
        Optimizer(space, seed=5, strategy="random_search", storage=open_journal()),
    ):
        for value in (3.0, 2.0):
            optimizer.observe(optimizer.suggest(), value)
        optimizer.observe(optimizer.suggest(), failed="compile", message="no")
        optimizer.suggest()
    resumed = Optimizer(space, seed=5, strategy="random_search", storage=open_journal())
    assert _trials(resumed) == _trials(whole), "a resumed run has the same trials"
    assert [t.id for t in resumed.pending] == [t.id for t in whole.pending], (
        "a resumed run has the same pending trials"
    )
    assert dict(resumed.suggest()) == dict(whole.suggest()), "a resumed run suggests the same"


def _trials(optimizer: Optimizer) -> list[Any]:
    return [(t.id, dict(t), t.value, t.failure, t.message) for t in optimizer.trials]


def _end_of(journal: Journal) -> Mark:
    return [START, *(mark for _, mark in journal.read(START))][-1]
