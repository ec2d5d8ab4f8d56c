"""Repair a damaged journal: write every event with a valid checksum to a new file that can be resumed.

Damaged events are left out and listed in the report. Every observation has its configuration, so it is kept even if
the event of its suggestion is damaged.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from typing_extensions import override

from baco_like._output import explain_os_error, open_regular_file
from baco_like.exceptions import JournalError
from baco_like.journal.events import Event, describe_error, suggested_event
from baco_like.journal.fields import check_event
from baco_like.journal.header import Header
from baco_like.journal.json_lines import LONGEST_LINE, checksum, decode_line, write_journal
from baco_like.records import Trial

_LINE_START = re.compile(rb'\{"crc":"[0-9a-f]{8}","n":(\d{1,15}),')
"""Start of a line. It cannot occur within an event, because JSON escapes the quotes in texts."""

_MOST_BYTES_OF_START = 48
"""More bytes than a start of a line has."""

_BLOCK = 2**20
"""Bytes that are read at once."""


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
    """A line with a valid checksum: its number and position, its checksum and the checksum of the line before."""

    number: int
    start: int
    end: int
    crc: str
    previous: str | None


@dataclass(frozen=True)
class _StoredEvents(Mapping[int, Event]):
    """Events by number. They are read again each time, so that a long journal needs little memory."""

    file: BinaryIO
    lines: Mapping[int, _ValidLine]

    @override
    def __getitem__(self, number: int) -> Event:
        line = self.lines[number]
        self.file.seek(line.start)
        decoded = decode_line(self.file.read(line.end - line.start), number)
        if decoded is None:
            raise JournalError("the journal has changed during its repair; try again", number)
        return decoded[0]

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self.lines)

    @override
    def __len__(self) -> int:
        return len(self.lines)


def repair(old: Path, new: Path, header: Path | None = None) -> Repair:
    """Write every valid event of a damaged journal to a new one; the old file is not changed.

    Args:
        old: The damaged journal.
        new: The new journal; the file must not exist.
        header: A journal whose event 0 is used if the old one's is damaged.

    Raises:
        JournalError: A file cannot be read or written, or both headers are damaged.
    """
    with explain_os_error(JournalError, "read", old), open_regular_file(old) as file:
        lines = list(_find_valid_lines(file))
        notes = list(_describe_damages(file, lines))
        events = _StoredEvents(file, {line.number: line for line in reversed(lines)})
        first = events.get(0)
        if first is None and header is not None:
            first = _read_header(header)
            notes.append(f"event 0 comes from {header}")
        if first is None:
            raise JournalError(
                f"{old}: event 0 is damaged, which has the space and the options; start the same run on a new file "
                "and give that one by --header FILE",
                0,
            )
        Header.read(first, str(old))
        adapter = _Adapter(_find_lost_trials(events.values()), notes)
        numbers = sorted(set(events) - {0})
        adapted = adapter.adapt_all((number, events[number]) for number in numbers)
        write_journal(new, itertools.chain([first], adapted))
        return Repair(1 + len(numbers) - adapter.dropped, tuple(notes))


def _read_header(path: Path) -> Event | None:
    """Return event 0 of a journal, or None if it is damaged."""
    with explain_os_error(JournalError, "read", path), open_regular_file(path) as file:
        first = next((line for line in _find_valid_lines(file) if not line.number), None)
        return None if first is None else _StoredEvents(file, {0: first})[0]


def _find_valid_lines(file: BinaryIO) -> Iterator[_ValidLine]:
    """Yield the lines with a valid checksum, even if the line end between two is damaged."""
    for place, part in _split(file):
        stop = len(part)
        found: list[_ValidLine] = []
        for match in reversed(list(_LINE_START.finditer(part))):
            start, number = match.start(), int(match[1])
            for end in (stop - 1, stop):  # the last line may lack its line end
                line = part[start:end]
                if (decoded := decode_line(line, number)) is not None:
                    crc, previous = checksum(line), decoded[1]
                    found.append(_ValidLine(number, place + start, place + end, crc, previous))
                    break
            stop = start
        yield from reversed(found)


def _split(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a file that hold whole lines, each with its position.

    A part ends behind a line end, before the beginning of another line, or at the end of the file. Bytes that belong to
    no line come in blocks, so that any amount of them needs little memory.
    """
    place, part = 0, b""
    while block := file.readline(_BLOCK):
        part += block
        if block.endswith(b"\n"):
            cut = len(part)
        else:
            clear = part.rfind(b"\0") + 1  # no event has a zero byte
            starts = [match.start() for match in _LINE_START.finditer(part, clear)]
            # The beginning of a line may be cut by the end of the block.
            cut = starts[-1] if starts else max(clear, len(part) - _MOST_BYTES_OF_START)
            cut = cut if len(part) - cut <= LONGEST_LINE else len(part)
        if cut:
            yield place, part[:cut]
            place, part = place + cut, part[cut:]
        if not part and block.endswith(b"\0"):
            place = _skip_hole(file)
    if part:
        yield place, part


def _skip_hole(file: BinaryIO) -> int:
    """Move from a hole of a sparse file to its next data, and return the position.

    A hole reads as zeros and takes no disk: a damaged file of terabytes would otherwise be read for hours.
    """
    place, descriptor = file.tell(), file.fileno()
    offset = os.lseek(descriptor, 0, os.SEEK_CUR)  # behind the buffer of the file
    try:
        data = os.lseek(descriptor, place, os.SEEK_DATA)
    except OSError as error:
        is_end = error.errno == errno.ENXIO and place < os.fstat(descriptor).st_size
        data = os.fstat(descriptor).st_size if is_end else place
    os.lseek(descriptor, offset, os.SEEK_SET)
    return file.seek(data)


def _describe_damages(file: BinaryIO, lines: Iterable[_ValidLine]) -> Iterator[str]:
    """Yield one line per damaged part of the file."""
    place, number, before = 0, 0, None
    for line in lines:
        if line.number == number > 0 and line.previous != before:
            yield f"event {number} was not written after event {number - 1} of this file; kept"
        if line.number < number:
            yield f"event {line.number} occurs twice; the first is kept"
        elif line.number > number:
            last = line.number - 1
            lost = f"event {number} is" if last == number else f"events {number} to {last} are"
            yield f"{lost} damaged and dropped ({line.start - place} bytes)"
        if line.number >= number:
            number, before = line.number + 1, line.crc
        place = line.end + 1
    size = file.seek(0, os.SEEK_END)
    file.seek(min(place, size))
    while block := file.read(_BLOCK):
        if block.strip(b"\0\n"):
            yield f"event {number} is damaged or cut off and dropped ({size - place} bytes at the end)"
            return
        _skip_hole(file)


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
    _lost_ids: deque[int] = field(init=False)

    def __post_init__(self) -> None:
        self._lost_ids = deque(sorted(self.lost))

    def adapt_all(self, events: Iterable[tuple[int, Event]]) -> Iterator[Event]:
        """Yield the adapted events in order; they come with their numbers, without the header."""
        for number, event in events:
            try:
                check_event(event)
                adapted = list(self._adapt(number, event))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                adapted = []
                self.notes.append(
                    f"event {number} has an unknown kind or a wrong field ({describe_error(error)}); dropped"
                )
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
            case "renewed":
                ids = [i for i in event["ids"] if i in self.pending]
                if ids:
                    yield {**event, "ids": ids}
            case "abandoned":
                if self._is_pending(event["id"], f"event {number}", "dropped"):
                    self.pending.remove(event["id"])
                    yield event
            case "enqueued" | "proposed" | "confirming" | "built":
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
        ids = []
        while self._lost_ids and self._lost_ids[0] < before:
            i = self._lost_ids.popleft()
            if i >= self.next_id:
                ids.append(i)
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
