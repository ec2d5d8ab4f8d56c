"""A journal in a file: JSON lines, appended under a lock, each with its number and a checksum.

An event is one line::

    {"crc":"9ae0daaf","n":12,"event":"observed",...}

where ``crc`` is the CRC-32 of every byte after its own field up to the line end. A flipped byte is therefore detected
and reported with the event's number. A last line without a line end comes from a crash during a write; it was never
acknowledged, and the next writer removes it. Files are read in blocks, whatever their size. The journal object has no
state: readers keep their position.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

from baco_like.exceptions import JournalConflict, JournalError
from baco_like.journal.events import Event, Mark, to_json
from baco_like.journal.lock import locked

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BLOCK = 2**20
"""Bytes that are read at once."""

LONGEST_LINE = 64 * 2**20
"""Most bytes of an event; it bounds the memory for reading a damaged file."""

_HEAD = len('{"crc":"01234567",')
_BEGINNING = '{"crc":"########","n":'
"""Start of every line, with # for a hexadecimal digit."""


def encode_line(number: int, event: Event) -> bytes:
    """Return the line of one event, including its line end.

    Raises:
        JournalError: The event holds a value that JSON cannot represent exactly (NaN, an object), or is longer than
            `LONGEST_LINE`.
    """
    rest = to_json({"n": number, **event})[1:].encode("ascii")
    if _HEAD + len(rest) >= LONGEST_LINE:
        raise JournalError(
            f"an {event['event']} event of {len(rest) / 2**20:.0f} MiB cannot be written, the limit is "
            f"{LONGEST_LINE // 2**20} MiB; give fewer results of earlier runs, or shorter texts"
        )
    return b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n"


def decode_line(line: bytes, number: int) -> Event | None:
    """Return the event in a line without its line end, or None if the line is not event ``number``."""
    head, rest = line[:_HEAD], line[_HEAD:]
    if head != b'{"crc":"%08x",' % zlib.crc32(rest):
        return None
    try:
        event: dict[str, Any] = _DECODER.decode("{" + rest.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    return event if event.pop("n", None) == number else None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not valid JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def _read_new(fd: int, after: Mark, path: Path) -> Iterator[tuple[Event, Mark]]:
    """Yield the events in a locked file after a position; after the first one, the lock is not needed.

    Lines up to the last line end never change. What follows it, an incomplete event, may be replaced by another writer;
    it is read before the first event is returned.

    Raises:
        JournalError: An event is damaged or longer than `LONGEST_LINE`, or the file is not a journal.
    """
    start, size = _unread(fd, after, path)
    if start == size:
        return
    end = _end_of_lines(fd, start, size)
    rest = os.pread(fd, size - end, end)
    place, number = start, after.number
    with open(os.dup(fd), "rb", buffering=_BLOCK) as file:
        file.seek(start)
        while place < end:
            line = _read_line(file)
            event = decode_line(line[:-1], number) if line.endswith(b"\n") else None
            if event is None:
                raise _damaged(path, number, line)
            place, number = place + len(line), number + 1
            yield event, Mark(number, place)
    whole = rest.rstrip(b"\0") if number else rest
    event = decode_line(whole, number)
    if event is not None:  # only the newline is missing: the event is complete
        yield event, Mark(number + 1, place + len(whole), closed=False)
    elif decode_line(rest[:-1], number) is not None or not _could_be_torn(rest, number):
        raise _damaged(path, number, rest)


def _unread(fd: int, after: Mark, path: Path) -> tuple[int, int]:
    """Return where the events after a position begin, behind the line end that the last one lacked, and the size.

    Raises:
        JournalError: The file is shorter than before.
    """
    size = os.fstat(fd).st_size
    if size < after.place:
        raise JournalError(f"{path} is shorter than before; restore it from a copy")
    has_end = not after.closed and os.pread(fd, 1, after.place) == b"\n"
    return after.place + has_end, size


def _end_of_lines(fd: int, start: int, size: int) -> int:
    """Return the position behind the last line end; the end of the file if what follows is too long for an event."""
    at = size
    while at > start:
        if size - at > LONGEST_LINE:
            return size
        begin = max(start, at - _BLOCK)
        found = os.pread(fd, at - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return start


def _read_line(file: BinaryIO) -> bytes:
    """Return the next line; only the beginning if it is too long, or too long for a block and no event."""
    line = file.readline(_BLOCK)
    if len(line) == _BLOCK and not line.endswith(b"\n") and line.startswith(b'{"crc":"'):
        line += file.readline(LONGEST_LINE - _BLOCK)
    return line


def write_journal(path: Path, events: Iterable[Event]) -> None:
    """Write a new journal, completely or not at all.

    Raises:
        JournalError: The file exists already or cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            file.writelines(encode_line(number, event) for number, event in enumerate(events))
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)  # unlike a rename, it never replaces a file
        sync_folder(path.parent)
    except FileExistsError as error:
        taken = error.filename2 or error.filename
        raise JournalError(f"{taken} exists; name another file") from error
    except OSError as error:
        raise JournalError(f"cannot write {path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _could_be_torn(rest: bytes, number: int) -> bool:
    """Return whether a crash can have left these bytes: the start of a line, zeros, or both."""
    rest = rest.rstrip(b"\0") if number else rest
    begin = (_BEGINNING + f"{number},").encode()[: len(rest)]
    pattern = re.escape(begin).replace(rb"\#", b"[0-9a-f]")
    return re.match(pattern, rest) is not None


def _damaged(path: Path, number: int, line: bytes) -> JournalError:
    if number == 0 and not line.startswith(b'{"crc":"'):
        return JournalError(f"{path} is not a baco_like journal; choose another file (event 0)", 0)
    return JournalError(
        f"{path}: event {number} is damaged (its checksum does not fit); "
        "keep the others with: baco-like repair OLD NEW",
        number,
    )


@final
@dataclass(frozen=True)
class JsonlJournal:
    """The events of a run in one file, shared by any number of processes of one machine.

    Args:
        path: The file; it is created with the first event.
    """

    path: Path

    def read(self, after: Mark) -> Iterator[tuple[Event, Mark]]:
        """Yield the events after a position, each with the position behind it.

        Events that are written during the iteration are not among them.

        Raises:
            JournalError: The file cannot be read, or an event is damaged.
        """
        if not os.path.exists(self.path) and not after.number:
            return
        with locked(self.path, os.O_RDONLY, fcntl.LOCK_SH) as fd:
            events = _read_new(fd, after, self.path)
            first = next(events, None)
        if first is None:
            return
        yield first
        try:
            yield from events
        except OSError as error:
            raise JournalError(f"cannot read {self.path}: {error.strerror}") from error

    def append(self, event: Event, after: Mark) -> Mark:
        """Write one event, wait until it is on the disk, and return the position behind it.

        Raises:
            JournalConflict: The journal has events after that position.
            JournalError: The event could not be written; the file is unchanged.
        """
        line = encode_line(after.number, event)
        data = line if after.closed else b"\n" + line
        flags = os.O_RDWR if after.number else os.O_RDWR | os.O_CREAT
        with locked(self.path, flags, fcntl.LOCK_EX) as fd:
            if next(_read_new(fd, after, self.path), None) is not None:
                raise JournalConflict(f"{self.path} has grown")
            start, size = _unread(fd, after, self.path)
            if size > start:  # an incomplete line, never acknowledged
                os.ftruncate(fd, after.place)
            self._write(fd, data, after.place)
            if not after.number:
                sync_folder(self.path.parent)
        return Mark(after.number + 1, after.place + len(data))

    def _write(self, fd: int, data: bytes, place: int) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(fd, data[written:], place + written)
            os.fsync(fd)
        except OSError as error:
            os.ftruncate(fd, place)
            remedy = "make room and try again" if error.errno in _FULL else "try again"
            raise JournalError(
                f"cannot write to {self.path}: {error.strerror}; the event is not recorded, {remedy}"
            ) from error


def sync_folder(folder: Path) -> None:
    """Write the folder to the disk, so that new file names survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
