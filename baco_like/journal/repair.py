"""Repair a damaged journal: write every event with a valid checksum to a new file that can be resumed.

Damaged events are left out and listed in the report. Every observation has its configuration, so it is kept even if
the event of its suggestion is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from baco_like.exceptions import JournalError
from baco_like.journal.events import Event, suggested_event
from baco_like.journal.header import Header
from baco_like.journal.json_lines import decode_line, write_journal
from baco_like.records import Trial

_BEGINNING = re.compile(rb'\{"crc":"[0-9a-f]{8}","n":(\d{1,15}),')
"""Start of a line. It cannot occur within an event, because JSON escapes the quotes in texts."""


@dataclass(frozen=True)
class Repair:
    """Report of a repair.

    Attributes:
        kept: Number of events of the old file that are in the new one.
        notes: One line per change.
    """

    kept: int
    notes: tuple[str, ...]


class _ValidLine(NamedTuple):
    """A line with a valid checksum, its event and its position in the file."""

    number: int
    event: Event
    start: int
    end: int


def repair(old: Path, new: Path, header: Path | None = None) -> Repair:
    """Write every valid event of a damaged journal to a new one; the old file is not changed.

    Args:
        old: The damaged journal.
        new: The new journal; the file must not exist.
        header: A journal whose event 0 is used if the old one's is damaged.

    Raises:
        JournalError: A file cannot be read or written, or both headers are damaged.
    """
    data = _read_file(old)
    lines = list(_find_valid_lines(data))
    notes = list(_describe_damages(data, lines))
    events = {line.number: line.event for line in reversed(lines)}  # of two, the first
    if header is not None and 0 not in events:
        events |= {v.number: v.event for v in _find_valid_lines(_read_file(header)) if not v.number}
        notes.append(f"event 0 comes from {header}")
    if 0 not in events:
        raise JournalError(
            f"{old}: event 0 is damaged, which has the space and the options; start the same run on a new file and "
            "give that one by --header FILE",
            0,
        )
    Header.read(events[0], str(old))
    adapter = _Adapter(_find_lost_trials(events.values()), notes)
    write_journal(new, [events[0], *adapter.adapt_all(events)])
    return Repair(len(events) - adapter.dropped, tuple(notes))


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error


def _find_valid_lines(data: bytes) -> Iterator[_ValidLine]:
    """Yield the lines with a valid checksum, even if the line end between two is damaged."""
    begins = [(match.start(), int(match[1])) for match in _BEGINNING.finditer(data)]
    after = [*(start for start, _ in begins), len(data) + 1][1:]
    for (start, number), following in zip(begins, after, strict=True):
        line = data.find(b"\n", start)
        for end in {line, following - 1, min(following, len(data)) - 1} - {-1}:
            event = decode_line(data[start:end], number)
            if event is not None:
                yield _ValidLine(number, event, start, end)
                break


def _describe_damages(data: bytes, lines: Iterable[_ValidLine]) -> Iterator[str]:
    """Yield one line per damaged part of the file."""
    place, number = 0, 0
    for line in lines:
        if line.number < number:
            yield f"event {line.number} occurs twice; the first is kept"
        elif line.number > number:
            last = line.number - 1
            lost = f"event {number} is" if last == number else f"events {number} to {last} are"
            yield f"{lost} damaged and dropped ({line.start - place} bytes)"
        place, number = line.end + 1, max(number, line.number + 1)
    if data[place:].strip(b"\0\n"):
        yield f"event {number} is damaged or cut off and dropped ({len(data) - place} bytes at the end)"


def _find_lost_trials(events: Collection[Event]) -> dict[int, Mapping[str, Any]]:
    """Return the configurations of observed trials whose suggestion is lost, by id."""
    suggested = {row["id"] for event in events for row in _rows(event, "trials")}
    return {
        row["id"]: row["config"]
        for event in events
        for row in _rows(event, "outcomes")
        if "config" in row and "origin" not in row and row["id"] not in suggested
    }


def _rows(event: Event, name: str) -> list[Any]:
    rows = event.get(name)
    rows = rows if isinstance(rows, list) else []
    return [row for row in rows if isinstance(row, dict) and type(row.get("id")) is int]


@dataclass
class _Adapter:
    """Adapts events to each other if events between them are lost.

    Attributes:
        lost: Configurations of observed trials whose suggestion is lost, by id.
        notes: One line per change.
        pending: Ids of pending trials.
        next_id: As in `History`.
        dropped: Number of events that were left out.
    """

    lost: dict[int, Mapping[str, Any]]
    notes: list[str]
    pending: set[int] = field(default_factory=set)
    next_id: int = 0
    dropped: int = 0

    def adapt_all(self, events: Mapping[int, Event]) -> Iterator[Event]:
        """Yield the adapted events in order, without the header."""
        for number in sorted(events)[1:]:
            try:
                adapted = list(self._adapt(number, events[number]))
            except (LookupError, TypeError, ValueError, AttributeError):
                adapted = []
                self.notes.append(f"event {number} has an unknown kind or lacks a part; dropped")
            self.dropped += not adapted
            yield from adapted

    def _adapt(self, number: int, event: Event) -> Iterator[Event]:
        """Yield the event as far as it fits those before it, after the suggestions that it needs."""
        match event["event"]:
            case "suggested":
                ids = [row["id"] for row in event["trials"]]
                yield from self._suggest_lost(ids[0] if ids else 0)
                again = [i for i in event.get("again", ()) if i in self.pending]
                self._add_pending(ids)
                yield {**event, "again": again} if "again" in event else event
            case "observed":
                rows = []
                for row in event["outcomes"]:
                    i, is_new = row["id"], "origin" in row
                    yield from self._suggest_lost(i if is_new else i + 1)
                    if is_new or self._is_pending(i, f"event {number}", "its outcome is dropped"):
                        self._add_pending([i])
                        self.pending.remove(i)
                        rows.append(row)
                if rows:
                    yield {**event, "outcomes": rows}
            case "abandoned":
                if self._is_pending(event["id"], f"event {number}", "dropped"):
                    self.pending.remove(event["id"])
                    yield event
            case "enqueued":
                yield event
            case kind:
                raise KeyError(kind)

    def _is_pending(self, trial_id: int, where: str, consequence: str) -> bool:
        """Return whether a trial is pending; note the consequence if it is not."""
        if trial_id in self.pending:
            return True
        self.notes.append(f"{where}: trial {trial_id} is unknown; {consequence}")
        return False

    def _suggest_lost(self, before: int) -> Iterator[Event]:
        """Yield a suggestion of the lost trials with ids below ``before``, taken from their observations."""
        ids = sorted(i for i in self.lost if self.next_id <= i < before)
        if not ids:
            return
        self._add_pending(ids)
        shown = ", ".join(map(str, ids))
        self.notes.append(f"the suggestion of trial {shown} is reconstructed from its observation")
        trials = [Trial(i, self.lost.pop(i)) for i in ids]
        yield suggested_event(trials, dequeued=0)

    def _add_pending(self, ids: Sequence[int]) -> None:
        self.pending.update(ids)
        self.next_id = max([self.next_id, *(i + 1 for i in ids)])
