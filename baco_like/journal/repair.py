"""Repair a damaged journal: write every record with a valid checksum to a new file that can be resumed.

Damaged records are left out and listed in the report. Every observation has its configuration, so it is kept even if
the record of its suggestion is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baco_like.exceptions import JournalError
from baco_like.journal.events import Event
from baco_like.journal.header import Header
from baco_like.journal.json_lines import decode_record, write_journal

_BEGINNING = re.compile(rb'\{"crc":"[0-9a-f]{8}","n":(\d{1,15}),')
"""Start of a record. It cannot occur within a record, because JSON escapes the quotes in texts."""


@dataclass(frozen=True)
class Repair:
    """Report of a repair.

    Attributes:
        kept: Number of records of the old file that are in the new one.
        notes: One line per change.
    """

    kept: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    """A valid record and its position in the file."""

    number: int
    event: Event
    start: int
    end: int


def repair(old: Path, new: Path, header: Path | None = None) -> Repair:
    """Write every valid record of a damaged journal to a new one; the old file is not changed.

    Args:
        old: The damaged journal.
        new: The new journal; the file must not exist.
        header: A journal whose record 0 is used if the old one's is damaged.

    Raises:
        JournalError: A file cannot be read or written, or both headers are damaged.
    """
    data = _content(old)
    found = list(_whole_records(data))
    notes = list(_damages(data, found))
    events = {one.number: one.event for one in reversed(found)}  # of two, the first
    if header is not None and 0 not in events:
        events |= {
            one.number: one.event for one in _whole_records(_content(header)) if not one.number
        }
        notes.append(f"record 0 comes from {header}")
    if 0 not in events:
        raise JournalError(
            f"{old}: record 0 is damaged, which has the space and the options; start the same run on a new file and "
            "give that one by --header FILE",
            0,
        )
    Header.read(events[0], str(old))
    fitting = _Fitting.of(events)
    write_journal(new, [events[0], *fitting.all(events)])
    return Repair(len(events) - fitting.dropped, (*notes, *fitting.notes))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error


def _whole_records(data: bytes) -> Iterator[_Found]:
    """Yield the records with a valid checksum, even if the line end between two is damaged."""
    begins = [(match.start(), int(match[1])) for match in _BEGINNING.finditer(data)]
    after = [*(start for start, _ in begins), len(data) + 1][1:]
    for (start, number), following in zip(begins, after, strict=True):
        line = data.find(b"\n", start)
        for end in {line, following - 1, min(following, len(data)) - 1} - {-1}:
            event = decode_record(data[start:end], number)
            if event is not None:
                yield _Found(number, event, start, end)
                break


def _damages(data: bytes, found: Iterable[_Found]) -> Iterator[str]:
    """Yield one line per damaged part of the file."""
    place, number = 0, 0
    for one in found:
        if one.number < number:
            yield f"record {one.number} occurs twice; the first is kept"
        elif one.number > number:
            size, several = one.start - place, one.number - number > 1
            which = (
                f"records {number} to {one.number - 1} are" if several else f"record {number} is"
            )
            yield f"{which} damaged and dropped ({size} bytes)"
        place, number = one.end + 1, max(number, one.number + 1)
    if data[place:].strip(b"\0\n"):
        yield f"record {number} is damaged or cut off and dropped ({len(data) - place} bytes at the end)"


@dataclass
class _Fitting:
    """Adapts records to each other if records between them are lost.

    Attributes:
        lost: Configurations of observed trials whose suggestion is lost, by id.
        pending: Ids of pending trials.
        next_id: As in `History`.
        notes: One line per change.
        dropped: Number of records that were left out.
    """

    lost: dict[int, Mapping[str, Any]]
    pending: set[int] = field(default_factory=set)
    next_id: int = 0
    notes: list[str] = field(default_factory=list)
    dropped: int = 0

    @classmethod
    def of(cls, events: Mapping[int, Event]) -> _Fitting:
        rows = [row for event in events.values() for row in _list(event, "outcomes")]
        asked = {row["id"] for event in events.values() for row in _list(event, "trials")}
        return cls(
            {
                row["id"]: row["config"]
                for row in rows
                if "config" in row and "origin" not in row and row["id"] not in asked
            }
        )

    def all(self, events: Mapping[int, Event]) -> Iterator[Event]:
        """Yield the adapted events in order, without the header."""
        for number in sorted(events)[1:]:
            event = events[number]
            try:
                made = list(self._change(event)(number, event))
            except (LookupError, TypeError, AttributeError):
                made = []
                self.notes.append(f"record {number} is not a known event; dropped")
            self.dropped += not made
            yield from made

    def _change(self, event: Event) -> Callable[[int, Event], Iterator[Event]]:
        return {
            "suggested": self._suggested,
            "observed": self._observed,
            "abandoned": self._abandoned,
            "enqueued": self._enqueued,
        }[event["event"]]

    def _suggested(self, number: int, event: Event) -> Iterator[Event]:
        ids = [row["id"] for row in event["trials"]]
        yield from self._revived(ids[0] if ids else 0)
        again = [i for i in event.get("again", ()) if i in self.pending]
        self._started(ids)
        yield {**event, "again": again} if "again" in event else event

    def _observed(self, number: int, event: Event) -> Iterator[Event]:
        rows = []
        for row in event["outcomes"]:
            i = row["id"]
            yield from self._revived(i if "origin" in row else i + 1)
            if "origin" not in row and i not in self.pending:
                self.notes.append(f"record {number}: trial {i} is unknown; its outcome is dropped")
                continue
            self.pending.discard(i)
            self.next_id = max(self.next_id, i + 1)
            rows.append(row)
        if rows:
            yield {**event, "outcomes": rows}

    def _abandoned(self, number: int, event: Event) -> Iterator[Event]:
        if event["id"] in self.pending:
            self.pending.discard(event["id"])
            yield event
        else:
            self.notes.append(f"record {number}: trial {event['id']} is unknown; dropped")

    def _enqueued(self, number: int, event: Event) -> Iterator[Event]:
        yield event

    def _revived(self, before: int) -> Iterator[Event]:
        """Yield a suggestion of the lost trials with ids below ``before``, taken from their observations."""
        ids = sorted(i for i in self.lost if self.next_id <= i < before)
        rows = [
            {"id": i, "config": self.lost.pop(i), "origin": "strategy", "tag": None} for i in ids
        ]
        self._started(ids)
        if rows:
            shown = ", ".join(map(str, ids))
            self.notes.append(
                f"the suggestion of trial {shown} is reconstructed from its observation"
            )
            yield {"event": "suggested", "trials": rows, "dequeued": 0}

    def _started(self, ids: Iterable[int]) -> None:
        for i in ids:
            self.pending.add(i)
            self.next_id = max(self.next_id, i + 1)


def _list(event: Event, name: str) -> list[Any]:
    rows = event.get(name)
    if not isinstance(rows, list):
        return []
    return [row for row in rows if isinstance(row, dict) and type(row.get("id")) is int]
