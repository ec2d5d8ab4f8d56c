"""A journal in a file: JSON lines, appended under a lock, each with its number and a checksum.

An event is one line::

    {"crc":"9ae0daaf","n":12,"event":"observed",...}

where ``crc`` is the CRC-32 of every byte after its own field up to the line end. A flipped byte is therefore detected
and reported with the event's number. A last line without a line end comes from a crash during a write; it was never
acknowledged, and the next writer removes it. The journal object has no state: readers keep their position.
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
from typing import Any, final

from baco_like.exceptions import JournalConflict, JournalError
from baco_like.journal.events import Event, Mark, to_json
from baco_like.journal.lock import locked

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_HEAD = len('{"crc":"01234567",')
_BEGINNING = '{"crc":"########","n":'
"""Start of every line, with # for a hexadecimal digit."""


def encode_line(number: int, event: Event) -> bytes:
    """Return the line of one event, including its line end.

    Raises:
        JournalError: The event holds a value that JSON cannot represent exactly (NaN, an object).
    """
    rest = to_json({"n": number, **event})[1:].encode("ascii")
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


def _read_events(data: bytes, after: Mark, path: Path) -> Iterator[tuple[Event, Mark]]:
    """Yield the events in the bytes after a position, one at a time to save memory.

    Raises:
        JournalError: An event is damaged, or the file is not a journal.
    """
    place, at, number = after.place, _missing_end(data, after), after.number
    while (end := data.find(b"\n", at)) >= 0:
        event = decode_line(data[at:end], number)
        if event is None:
            raise _damaged(path, number, data[at:])
        at, number = end + 1, number + 1
        yield event, Mark(number, place + at)
    rest = data[at:]
    whole = rest.rstrip(b"\0") if number else rest
    event = decode_line(whole, number)
    if event is not None:  # only the newline is missing: the event is complete
        yield event, Mark(number + 1, place + at + len(whole), closed=False)
    elif decode_line(rest[:-1], number) is not None or not _could_be_torn(rest, number):
        raise _damaged(path, number, rest)


def _missing_end(data: bytes, after: Mark) -> int:
    """Return 1 if the data starts with the line end that the line before the position lacked, else 0."""
    return int(not after.closed and data.startswith(b"\n"))


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
        """Return the events after a position, each with the position behind it.

        Raises:
            JournalError: The file cannot be read; or, during the iteration, an event is damaged.
        """
        if not os.path.exists(self.path) and not after.number:
            return iter(())
        with locked(self.path, os.O_RDONLY, fcntl.LOCK_SH) as fd:
            data = self._bytes(fd, after)
        return _read_events(data, after, self.path)

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
            tail = self._bytes(fd, after)
            if next(_read_events(tail, after, self.path), None) is not None:
                raise JournalConflict(f"{self.path} has grown")
            if len(tail) > _missing_end(tail, after):  # an incomplete line, never acknowledged
                os.ftruncate(fd, after.place)
            self._write(fd, data, after.place)
            if not after.number:
                sync_folder(self.path.parent)
        return Mark(after.number + 1, after.place + len(data))

    def _bytes(self, fd: int, after: Mark) -> bytes:
        if os.fstat(fd).st_size < after.place:
            raise JournalError(f"{self.path} is shorter than before; restore it from a copy")
        with open(fd, "rb", closefd=False) as file:
            file.seek(after.place)
            return file.read()

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
