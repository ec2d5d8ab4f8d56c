"""Conformance of journals, for any `baco_like.journal.Journal`.

Call the two checks in your package's tests::

    def test_my_journal(tmp_path):
        check_journal(lambda: MyJournal(tmp_path / "one"))
        check_resume(lambda: MyJournal(tmp_path / "two"))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from baco_like.exceptions import JournalConflict, JournalError
from baco_like.journal import Event, Journal, Mark
from baco_like.journal.events import START
from baco_like.optimizer import Optimizer
from baco_like.spaces.space import Space
from baco_like.testing import assert_raises

EVENTS: tuple[Event, ...] = (
    {"event": "opened", "schema": 2, "text": 'a "quoted"\nline, \u00e4'},
    {"event": "suggested", "trials": [{"id": 0, "tag": None}], "dequeued": 0},
    {"event": "observed", "outcomes": [{"id": 0, "value": 0.1 + 0.2, "large": 2**60}]},
    {"event": "abandoned", "id": 1, "reason": ""},
    {"event": "enqueued", "configs": [{"x": True, "y": [1, 2.5, "z"]}]},
)
"""Events with the kinds of JSON values that runs write."""


def check_journal(open_journal: Callable[[], Journal], events: Sequence[Event] = EVENTS) -> None:
    """Check that a journal keeps appended events and refuses conflicts.

    Args:
        open_journal: Opens the same journal each time it is called; the journal is empty at first. A journal in memory
            returns the same object each time.
        events: The events that are written. A journal that checks them needs those of a run; the last one, which is
            written several times, has to be ``enqueued``.

    Raises:
        AssertionError: The journal breaks a rule; the message names the rule.
    """
    journal = open_journal()
    assert isinstance(journal, Journal), "it has the methods of Journal"
    assert list(journal.read(START)) == [], "a new journal is empty"
    check_append_and_read(open_journal, events)
    check_conflicts(open_journal, events[-1])
    check_refused_events(open_journal)
    check_concurrent_writers(open_journal, events[-1])


def check_append_and_read(
    open_journal: Callable[[], Journal], events: Sequence[Event] = EVENTS
) -> None:
    """Check that events are read back exactly, from the start and from every mark."""
    mark, marks = _end_of(open_journal()), []
    for event in events:
        mark = open_journal().append(event, mark)
        marks.append(mark)
    entries = list(open_journal().read(START))[-len(events) :]
    assert [event for event, _ in entries] == list(events), "events are read back in order"
    numbers = [mark.number for mark in marks]
    assert [mark.number for _, mark in entries] == numbers, "read gives the marks of append"
    for i, mark in enumerate(marks, 1):
        later = [event for event, _ in open_journal().read(mark)]
        assert later == list(events[i:]), "read returns the events after a mark, and only these"


def check_conflicts(open_journal: Callable[[], Journal], event: Event = EVENTS[-1]) -> None:
    """Check that an append after an old mark raises `JournalConflict` and writes nothing."""
    old = _end_of(open_journal())
    new = open_journal().append(event, old)
    with assert_raises(JournalConflict, msg="append after a mark with events behind it"):
        open_journal().append({**event, "again": True}, old)
    assert _end_of(open_journal()).number == new.number, "a refused append writes nothing"


def check_refused_events(open_journal: Callable[[], Journal]) -> None:
    """Check that an event without a JSON form is refused, unless the journal keeps objects, and leaves no trace."""
    mark = _end_of(open_journal())
    try:
        open_journal().append({"event": "observed", "value": math.nan}, mark)
    except JournalError:
        assert _end_of(open_journal()).number == mark.number, "a refused append writes nothing"


def check_concurrent_writers(
    open_journal: Callable[[], Journal], event: Event = EVENTS[-1]
) -> None:
    """Check that events of several threads are all kept."""
    begin = _end_of(open_journal())

    def write(numbers: Sequence[int]) -> None:
        for number in numbers:
            written = False
            while not written:
                with suppress(JournalConflict):
                    end = _end_of(open_journal())
                    open_journal().append({**event, "number": number}, end)
                    written = True

    writers = [range(10 * writer, 10 * writer + 5) for writer in range(3)]
    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(write, writers))
    numbers = [event["number"] for event, _ in open_journal().read(begin)]
    assert sorted(numbers) == list(chain(*writers)), "concurrent writers lose no event"
    for writer in writers:
        own = [number for number in numbers if number in writer]
        assert own == list(writer), "events of one writer keep their order"


def check_resume(open_journal: Callable[[], Journal]) -> None:
    """Check that an interrupted and resumed run equals an uninterrupted one.

    Args:
        open_journal: As in `check_journal`, but for another empty journal.
    """
    space = Space({"a": [1, 2, 4, 8], "b": [1, 2, 3]}, constraints=["a * b <= 12"])
    start = partial(Optimizer, space, seed=5, strategy="random_search")
    whole = start()
    for optimizer in (whole, start(storage=open_journal())):
        for value in (3.0, 2.0):
            optimizer.observe(optimizer.suggest(), value)
        optimizer.observe(optimizer.suggest(), failed="compile", message="no")
        optimizer.suggest()
    resumed = start(storage=open_journal())
    assert _trials(resumed) == _trials(whole), "a resumed run has the same trials"
    assert resumed.suggest() == whole.suggest(), "a resumed run suggests the same"


def _trials(optimizer: Optimizer) -> list[Any]:
    trials = [*optimizer.trials, *optimizer.pending]
    return [(t.id, dict(t), t.value, t.failure, t.message) for t in trials]


def _end_of(journal: Journal) -> Mark:
    return [START, *(mark for _, mark in journal.read(START))][-1]
