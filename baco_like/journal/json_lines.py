"""A journal in a file: JSON lines, appended under a lock, each with its number and a checksum.

A record is one line::

    {"crc":"9ae0daaf","n":12,"event":"observed",...}

where ``crc`` is the CRC-32 of every byte after its own field up to the line's end. So a flipped byte is refused
with the record's number, never read as another value, while a line without an end is what a crash in the middle of
a write leaves: it was never acknowledged, and the next writer cuts it off. The journal itself holds no state: who
reads keeps the place.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from baco_like.exceptions import JournalConflict, JournalError
from baco_like.journal.events import Event, Mark
from baco_like.journal.lock import locked

_HEAD = len('{"crc":"01234567",')
_BEGINNING = '{"crc":"########","n":'
"""How every record begins; # stands for a hexadecimal digit."""


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
    try:
        text = rest.decode("ascii")
        event, end = _DECODER.raw_decode("{" + text)
    except (ValueError, RecursionError):
        return None
    if end != len(text) + 1 or type(event) is not dict:
        return None
    return event if event.pop("n", None) == number else None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def _records(data: bytes, after: Mark, path: Path) -> Iterator[tuple[Event, Mark]]:
    """Yield the records in the bytes behind a place, one at a time: a long journal is never whole in memory twice.

    Raises:
        JournalError: A record is damaged, or this is no journal of ours.
    """
    place, at, number = after.place, _missing_end(data, after), after.number
    while (end := data.find(b"\n", at)) >= 0:
        event = decode_record(data[at:end], number)
        if event is None:
            raise _damaged(path, number, data[at:])
        at, number = end + 1, number + 1
        yield event, Mark(number, place + at)
    rest = data[at:]
    whole = rest.rstrip(b"\0") if number else rest
    event = decode_record(whole, number)
    if event is not None:  # cut exactly at the newline: the record is whole
        yield event, Mark(number + 1, place + at + len(whole), closed=False)
    elif decode_record(rest[:-1], number) is not None or not _could_be_torn(rest, number):
        raise _damaged(path, number, rest)


def _missing_end(data: bytes, after: Mark) -> int:
    """Return how many bytes are the end that the record before them lacked."""
    return int(not after.closed and data.startswith(b"\n"))


def write_journal(path: Path, events: Iterable[Event]) -> None:
    """Write a new journal, all or nothing.

    Raises:
        JournalError: There is such a file already, or it cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("xb") as file:
                file.writelines(encode_record(number, event) for number, event in enumerate(events))
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)  # unlike a new name, it never takes the place of a file
        finally:
            part.unlink(missing_ok=True)
        sync_folder(path.parent)
    except FileExistsError as error:
        raise JournalError(
            f"{error.filename2 or error.filename} exists; name another file"
        ) from error
    except OSError as error:
        raise JournalError(f"cannot write {path}: {error.strerror}") from error


def _could_be_torn(rest: bytes, number: int) -> bool:
    """Whether a crash can have left this: the beginning of a record, zeros, or both."""
    rest = rest.rstrip(b"\0") if number else rest
    begin = (_BEGINNING + f"{number},").encode()[: len(rest)]
    pattern = re.escape(begin).replace(rb"\#", b"[0-9a-f]").replace(b"#", b"[0-9a-f]")
    return re.match(pattern, rest) is not None


def _damaged(path: Path, number: int, line: bytes) -> JournalError:
    if number == 0 and not line.startswith(b'{"crc":"'):
        return JournalError(f"{path} is no journal of ours; choose another file (record 0)", 0)
    return JournalError(
        f"{path}: record {number} is damaged (its checksum does not fit); "
        "keep the others by: baco-like repair OLD NEW",
        number,
    )


@final
@dataclass(frozen=True)
class JsonlJournal:
    """The events of a run in one file, shared by any number of processes of one machine.

    Args:
        path: The file; it comes into being with the first event.
    """

    path: Path

    def read(self, after: Mark) -> Iterator[tuple[Event, Mark]]:
        """Return the events that are after a place now, each with the place behind it.

        Raises:
            JournalError: The file cannot be read; or, when it comes to it, a record is damaged.
        """
        if not self.path.exists() and not after.number:
            return iter(())
        with locked(self.path, os.O_RDONLY, fcntl.LOCK_SH) as fd:
            data = self._bytes(fd, after)
        return _records(data, after, self.path)

    def append(self, event: Event, after: Mark) -> Mark:
        """Write one event, wait until it is on the disk, and return the place behind it.

        Raises:
            JournalConflict: There are events after that place.
            JournalError: It could not be written; the file is as it was.
        """
        line = encode_record(after.number, event)
        data = line if after.closed else b"\n" + line
        with locked(
            self.path, os.O_RDWR | (0 if after.number else os.O_CREAT), fcntl.LOCK_EX
        ) as fd:
            tail = self._bytes(fd, after)
            if next(_records(tail, after, self.path), None) is not None:
                raise JournalConflict(f"{self.path} has grown")
            if len(tail) > _missing_end(tail, after):  # of a record that nobody was told of
                os.ftruncate(fd, after.place)
            self._write(fd, data, after.place)
            if not after.number:
                sync_folder(self.path.parent)
        return Mark(after.number + 1, after.place + len(data))

    def _bytes(self, fd: int, after: Mark) -> bytes:
        size = os.fstat(fd).st_size
        if size < after.place:
            raise JournalError(
                f"{self.path} has become shorter than what was read; restore it from a copy"
            )
        return b"".join(_chunks(fd, after.place, size))

    def _write(self, fd: int, data: bytes, place: int) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(fd, data[written:], place + written)
            os.fsync(fd)
        except OSError as error:
            os.ftruncate(fd, place)
            raise JournalError(
                f"cannot write to {self.path}: {error.strerror}; nothing was recorded, make room and try again"
            ) from error


def sync_folder(folder: Path) -> None:
    """Make the names of new files survive a power cut too."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _chunks(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        chunk = os.pread(fd, end - start, start)
        if not chunk:
            return
        start += len(chunk)
        yield chunk
