"""A journal in a file: JSON lines, appended under a lock, each with its number and a checksum.

A record is one line::

    {"crc":"9ae0daaf","n":12,"event":"observed",...}

where ``crc`` is the CRC-32 of every byte after its own field up to the line's end. So a flipped byte is refused
with the record's number, never read as another value, while a line without an end is what a crash in the middle of
a write leaves: it was never acknowledged, and the next writer cuts it off. The lock (``flock``) belongs to the
process, so the kernel frees it when its holder dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from baco_like.exceptions import JournalConflict, JournalError
from baco_like.records.journal import Event

_HEAD = len('{"crc":"01234567",')


def encode_record(number: int, event: Event) -> bytes:
    """Return the line of one event, its end included.

    Raises:
        JournalError: The event holds something that JSON cannot say exactly (NaN, an object).
    """
    try:
        text = json.dumps({"n": number, **event}, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise JournalError(
            f"cannot write a {event['event']} event: {error}; use JSON values"
        ) from error
    rest = text[1:].encode("ascii")
    return b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n"


def decode_record(line: bytes, number: int) -> Event | None:
    """Return the event of a line without its end, or None where the line is not record ``number``."""
    head, rest = line[:_HEAD], line[_HEAD:]
    if head != b'{"crc":"%08x",' % zlib.crc32(rest):
        return None
    event: dict[str, Any] = json.loads(b"{" + rest)
    return event if event.pop("n") == number else None


@dataclass(frozen=True)
class _Tail:
    """What follows a known place of the file: whole records, where they end, and whether the end's newline is there."""

    events: list[Event]
    size: int
    closed: bool


def _parse(data: bytes, number: int, path: Path) -> _Tail:
    *lines, rest = data.split(b"\n")
    events: list[Event] = []
    for line in lines:
        event = decode_record(line, number + len(events))
        if event is None:
            raise _damaged(path, number + len(events))
        events.append(event)
    size = len(data) - len(rest)
    if not rest:
        return _Tail(events, size, closed=True)
    event = decode_record(rest, number + len(events))
    if event is not None:  # cut exactly at the newline: the record is whole
        return _Tail([*events, event], len(data), closed=False)
    if decode_record(rest[:-1], number + len(events)) is not None:
        raise _damaged(
            path, number + len(events)
        )  # whole, but its newline has become something else
    return _Tail(events, size, closed=True)


def _damaged(path: Path, number: int) -> JournalError:
    return JournalError(
        f"{path}: record {number} is damaged (its checksum does not fit); "
        "restore the file from a copy or move it away to start anew",
        record=number,
    )


@final
@dataclass
class JsonlJournal:
    """The events of a run in one file, shared by any number of processes of one machine.

    Args:
        path: The file; it comes into being with the first event.
    """

    path: Path
    _offset: int = 0
    _count: int = 0
    _closed: bool = True

    def read(self) -> list[Event]:
        """Return the events not read or appended yet.

        Raises:
            JournalError: A record is damaged, or the file cannot be read.
        """
        if not self.path.exists():
            return []
        with self._locked(os.O_RDONLY, fcntl.LOCK_SH) as fd:
            tail = self._tail(fd)
        self._advance(tail.size, len(tail.events), tail.closed)
        return tail.events

    def append(self, event: Event) -> None:
        """Write one event and wait until it is on the disk.

        Raises:
            JournalConflict: The file has grown since it was read.
            JournalError: It could not be written; the file is as it was.
        """
        line = encode_record(self._count, event)
        data = line if self._closed else b"\n" + line
        with self._locked(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as fd:
            if self._tail(fd).events:
                raise JournalConflict(f"{self.path} has grown")
            self._write(fd, data)
        self._advance(len(data), 1, closed=True)

    def _advance(self, size: int, count: int, closed: bool) -> None:
        if count:
            self._closed = closed
        self._offset += size
        self._count += count

    def _tail(self, fd: int) -> _Tail:
        size = os.fstat(fd).st_size
        if size < self._offset:
            raise JournalError(
                f"{self.path} has become shorter than what was read; restore it from a copy"
            )
        data = b"".join(_chunks(fd, self._offset, size))
        if not self._closed and data.startswith(b"\n"):
            tail = _parse(data[1:], self._count, self.path)
            return _Tail(tail.events, tail.size + 1 if tail.events else 0, tail.closed)
        return _parse(data, self._count, self.path)

    def _write(self, fd: int, data: bytes) -> None:
        try:
            os.ftruncate(fd, self._offset)  # what a crash left of a record that nobody was told of
            written = 0
            while written < len(data):
                written += os.pwrite(fd, data[written:], self._offset + written)
            os.fsync(fd)
        except OSError as error:
            os.ftruncate(fd, self._offset)
            raise JournalError(
                f"cannot write to {self.path}: {error.strerror}; nothing was recorded, make room and try again"
            ) from error

    @contextmanager
    def _locked(self, flags: int, lock: int) -> Iterator[int]:
        try:
            fd = os.open(self.path, flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JournalError(f"cannot open {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(fd, lock)
            yield fd
        finally:
            os.close(fd)


def _chunks(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        chunk = os.pread(fd, end - start, start)
        if not chunk:
            return
        start += len(chunk)
        yield chunk
