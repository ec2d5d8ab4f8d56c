"""A journal in a file: JSON lines, appended under a lock, each with its number and a checksum.

An event is one line::

    {"crc":"9ae0daaf","n":12,"prev":"06c1a3e5","event":"observed",...}

where ``crc`` is the CRC-32 of every byte after its own field up to the line end. A flipped byte is therefore detected
and reported with the event's number. ``prev`` is the checksum of the line before. The checksum of a line therefore
depends on all lines before it: two journals that differ anywhere before a position differ in the checksum there.

A last line without a line end comes from a crash during a write; it was never acknowledged, and the next writer removes
it. Files are read in blocks, whatever their size. The journal object has no state: readers keep their position.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, final

from baco_like._checks import reject_constant
from baco_like._forks import renew_lock_in_child
from baco_like._output import explain_os_error, sync_folder
from baco_like.exceptions import JournalConflict, JournalError
from baco_like.journal.events import Event, Mark, to_json
from baco_like.journal.lock import locked, reserved

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_BLOCK = 2**20
"""Bytes that are read at once."""

LONGEST_LINE = 64 * 2**20
"""Most bytes of an event; it bounds the memory for reading a damaged file."""

_OWN_KEYS = {"crc", "n", "prev"}

_HEAD = len('{"crc":"01234567",')
_CRC_AT = len('{"crc":"')
_BEGINNING = '{"crc":"########","n":'
"""Start of every line, with # for a hexadecimal digit."""


class _Anchor(NamedTuple):
    """By what the events before a position are recognised when the file is opened again.

    Attributes:
        file: Device and inode.
        start: Offset of the last line.
        crc: Its checksum, the field ``prev`` of the next line.
    """

    file: tuple[int, int]
    start: int
    crc: str


def encode_line(number: int, event: Event, previous: str | None = None) -> bytes:
    """Return the line of one event, including its line end.

    Args:
        number: The number of the event.
        event: The event.
        previous: The checksum of the line before, or None in the first line.

    Raises:
        JournalError: The event holds a value that JSON cannot represent exactly (NaN, an object), or is longer than
            `LONGEST_LINE`.
    """
    if taken := _OWN_KEYS & event.keys():
        raise JournalError(f"an event cannot have the key {min(taken)!r}; the journal writes it")
    chain = {} if previous is None else {"prev": previous}
    rest = to_json({"n": number, **chain, **event})[1:].encode("ascii")
    if _HEAD + len(rest) >= LONGEST_LINE:
        raise JournalError(
            f"an {event['event']} event of {len(rest) / 2**20:.0f} MiB cannot be written, the limit is "
            f"{LONGEST_LINE // 2**20} MiB; give fewer results of earlier runs, or shorter texts"
        )
    return b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n"


def encode_lines(events: Iterable[Event]) -> Iterator[bytes]:
    """Return the lines of a new journal.

    Raises:
        JournalError: An event cannot be written; see `encode_line`.
    """
    previous = None
    for number, event in enumerate(events):
        line = encode_line(number, event, previous)
        previous = checksum(line)
        yield line


def decode_line(line: bytes, number: int) -> tuple[Event, str | None] | None:
    """Return the event in a line without its line end, and its ``prev``; None if it is not event ``number``."""
    head, rest = line[:_HEAD], line[_HEAD:]
    if head != b'{"crc":"%08x",' % zlib.crc32(rest):
        return None
    try:
        event: dict[str, Any] = _DECODER.decode("{" + rest.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    n, previous = event.pop("n", None), event.pop("prev", None)
    return (event, previous) if type(n) is int and n == number else None


def checksum(line: bytes) -> str:
    """Return the checksum field of a line."""
    return line[_CRC_AT : _CRC_AT + 8].decode("ascii")


_DECODER = json.JSONDecoder(parse_constant=reject_constant)


def _read_new(fd: int, after: Mark, path: Path) -> Iterator[tuple[Event, Mark]]:
    """Yield the events in a locked file after a position; after the first one, the lock is not needed.

    Lines up to the last line end never change. What follows it, an incomplete event, may be replaced by another writer;
    it is read before the first event is returned.

    Raises:
        JournalError: An event is damaged or longer than `LONGEST_LINE`, or the file is not a journal.
    """
    start, size, identity = _unread(fd, after, path)
    if start == size:
        return
    end = _end_of_lines(fd, start, size)
    rest = os.pread(fd, size - end, end)
    place, mark = start, after
    with open(os.dup(fd), "rb", buffering=_BLOCK) as file:
        file.seek(start)
        while place < end:
            line = _read_line(file)
            entry = None
            if line.endswith(b"\n"):
                entry = _read_event(line[:-1], mark, place, identity, path)
            if entry is None:
                raise _damaged(path, mark.number, line)
            event, anchor = entry
            place += len(line)
            mark = Mark(mark.number + 1, place, anchor=anchor)
            yield event, mark
    number = mark.number
    whole = rest.rstrip(b"\0") if number else rest
    entry = _read_event(whole, mark, place, identity, path)
    if entry is not None:  # only the newline is missing: the event is complete
        event, anchor = entry
        yield event, Mark(number + 1, place + len(whole), closed=False, anchor=anchor)
    elif decode_line(rest[:-1], number) is not None or not _could_be_torn(rest, number):
        raise _damaged(path, number, rest)


def _read_event(
    line: bytes, after: Mark, start: int, identity: tuple[int, int], path: Path
) -> tuple[Event, _Anchor] | None:
    """Return the event in a line and the anchor behind it, or None if the line is damaged.

    Args:
        line: The line without its line end.
        after: The position behind the line before.
        start: Offset of the line.
        identity: Device and inode of the file.
        path: The file, for the message.

    Raises:
        JournalError: The line does not continue the line before.
    """
    decoded = decode_line(line, after.number)
    if decoded is None:
        return None
    event, previous = decoded
    anchor: _Anchor | None = after.anchor
    if previous != (None if anchor is None else anchor.crc):
        raise _out_of_place(path, after.number)
    return event, _Anchor(identity, start, checksum(line))


def _unread(fd: int, after: Mark, path: Path) -> tuple[int, int, tuple[int, int]]:
    """Return where the events after a position begin, the size of the file, and its device and inode.

    The events begin behind the line end that the last one lacked.

    Raises:
        JournalError: The bytes before the position are not those that were read or written before.
    """
    status = os.fstat(fd)
    anchor: _Anchor | None = after.anchor
    if status.st_size < after.place:
        raise JournalError(f"{path} is shorter than before; restore it from a copy")
    # Another file has another inode; a file that was overwritten in place has another checksum in its last line.
    if anchor is not None and not _has_anchor(fd, anchor):
        raise _replaced(path)
    has_end = not after.closed and os.pread(fd, 1, after.place) == b"\n"
    return after.place + has_end, status.st_size, _identity(status)


def _has_anchor(fd: int, anchor: _Anchor) -> bool:
    """Return whether an open file is the anchor's, with the anchor's last line."""
    is_same_file = _identity(os.fstat(fd)) == anchor.file
    return is_same_file and os.pread(fd, 8, anchor.start + _CRC_AT) == anchor.crc.encode("ascii")


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
    # A random name, so that no other process can create the file first.
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    with explain_os_error(JournalError, "write", path):
        try:
            file = part.open("xb")
            try:
                with file:
                    file.writelines(encode_lines(events))
                    file.flush()
                    os.fsync(file.fileno())
                os.link(part, path)  # unlike a rename, it never replaces a file
                sync_folder(path.parent)
            finally:
                part.unlink(missing_ok=True)
        except FileExistsError as error:
            taken = error.filename2 or error.filename
            raise JournalError(f"{taken} exists; name another file") from error


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


def _out_of_place(path: Path, number: int) -> JournalError:
    return JournalError(
        f"{path}: event {number} (line {number + 1}) was not written after the line before it (prev is not its "
        "checksum); the lines come from two journals, or one was edited; restore the file from a copy",
        number,
    )


def _replaced(path: Path) -> JournalError:
    return JournalError(
        f"{path} was replaced by another file while it was open. The event was not written. Put the right file there "
        "and resume from it"
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
        if self._ends_at(after):  # most reads need no lock
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

    def _ends_at(self, after: Mark) -> bool:
        """Return whether the file is missing before the first event, or has grown by nothing since a position."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return not after.number
        except (OSError, ValueError):  # `locked` explains it
            return False
        try:
            is_same = after.anchor is not None and _has_anchor(fd, after.anchor)
            return is_same and os.fstat(fd).st_size == after.place
        finally:
            os.close(fd)

    def peek(self, after: Mark) -> Iterator[tuple[Event, Mark]]:
        """Yield the events after a position like `read`, without the lock: for readers that must not disturb a run.

        An event that is being written is not among them.

        Raises:
            JournalError: The file cannot be read, or an event is damaged.
        """
        with explain_os_error(JournalError, "read", self.path):
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                yield from _read_new(fd, after, self.path)
            finally:
                os.close(fd)

    def append(self, event: Event, after: Mark, *, is_durable: bool = True) -> Mark:
        """Write one event, wait until it is on the disk, and return the position behind it.

        Args:
            event: The event.
            after: The position.
            is_durable: Whether to wait for the disk; `GroupCommit` waits otherwise.

        Raises:
            JournalConflict: The journal has events after that position.
            JournalError: The event could not be written; the file is unchanged.
        """
        anchor: _Anchor | None = after.anchor
        line = encode_line(after.number, event, None if anchor is None else anchor.crc)
        data = line if after.closed else b"\n" + line
        flags = os.O_RDWR if after.number else os.O_RDWR | os.O_CREAT
        with locked(self.path, flags, fcntl.LOCK_EX) as fd:
            start, size, identity = _unread(fd, after, self.path)
            if size > start and next(_read_new(fd, after, self.path), None) is not None:
                raise JournalConflict(f"{self.path} has grown")
            if _identity(os.stat(self.path)) != identity:  # replaced after it was opened here
                raise _replaced(self.path)
            if size > start:  # an incomplete line, never acknowledged
                os.ftruncate(fd, after.place)
            _write_at(fd, data, after.place, self.path, is_durable)
            if not after.number:
                sync_folder(self.path.parent)
        end = after.place + len(data)
        last = _Anchor(identity, end - len(line), checksum(line))
        return Mark(after.number + 1, end, anchor=last)

    def withdraw(self, after: Mark, end: Mark) -> bool:
        """Remove the events between two positions, and return True; False if others follow, or the file is another.

        Raises:
            JournalError: The file cannot be opened or locked.
        """
        with locked(self.path, os.O_RDWR, fcntl.LOCK_EX) as fd:
            is_last = os.fstat(fd).st_size == end.place and _has_anchor(fd, end.anchor)
            if is_last:
                os.ftruncate(fd, after.place)
            return is_last

    def reserve(self) -> AbstractContextManager[None]:
        """Return a context in which only this thread can append; `read` and `append` work as usual.

        Use it for a writer that others have overtaken several times, and only for short times: the others wait.

        Raises:
            JournalError: The file does not exist, or cannot be opened or locked.
        """
        return reserved(self.path)


class GroupCommit:
    """Waits until the events of a journal file are on the disk; events of several threads wait for one ``fsync``.

    A thread writes its event and then waits until it is on the disk. The first thread that gets the lock calls
    ``fsync`` for all events that were written before that call. The others wait for the lock; the events that were
    written meanwhile share the next call. A thread returns only after a call that began after its event was written, so
    an acknowledged event is on the disk.

    Args:
        path: The file; it exists when the first event is announced by `begin`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._written = self._durable = 0
        self._error: OSError | None = None
        self._given_up: list[tuple[range, OSError]] = []
        self._syncing = threading.RLock()
        # The thread that called `fsync` does not exist in a forked child.
        renew_lock_in_child(self, "_syncing")

    @property
    def durable(self) -> int:
        """Number of the latest event up to which all are on the disk, or were given up."""
        return self._durable

    @property
    def is_broken(self) -> bool:
        """Whether an ``fsync`` has failed; then `wait` raises its error until `give_up` is called."""
        return self._error is not None

    def begin(self) -> None:
        """Open the file before an event is written.

        The kernel reports a failed write to descriptors that were open at that time, and to each of them once.

        Raises:
            OSError: The file cannot be opened.
        """
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            weakref.finalize(self, os.close, self._fd)

    def add(self) -> int:
        """Count one written event and return its number, from 1; one thread at a time may call it."""
        self._written += 1
        return self._written

    def wait(self, events: Sequence[int]) -> None:
        """Return when these events are on the disk, by the numbers that `add` returned.

        Raises:
            OSError: The disk has reported an error. None of the events after `durable` counts as written.
        """
        with self._syncing:
            for lost, error in self._given_up:
                if any(number in lost for number in events):
                    raise error
            if not events or self._durable >= max(events):
                return
            if self._error is not None:
                raise self._error
            assert self._fd is not None
            target = self._written  # other threads may write events during the call
            try:
                os.fsync(self._fd)
            except OSError as error:
                self._error = error
                raise
            self._durable = target

    def give_up(self) -> None:
        """Continue after an error: the events after `durable` never count as written."""
        with self._syncing:
            if self._error is not None:
                lost = range(self._durable + 1, self._written + 1)
                self._given_up.append((lost, self._error))
                self._error, self._durable = None, self._written


def _write_at(fd: int, data: bytes, place: int, path: Path, is_durable: bool = True) -> None:
    """Write bytes at a position, the end of the file; with ``is_durable`` wait until they are on the disk.

    Raises:
        JournalError: They could not be written; the file ends at the position.
    """
    try:
        written = 0
        while written < len(data):
            written += os.pwrite(fd, data[written:], place + written)
        if is_durable:
            os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, place)
        raise not_recorded(path, error) from error


def not_recorded(path: Path, error: OSError) -> JournalError:
    """Return the error for an event that the disk has not taken."""
    remedy = "make room and try again" if error.errno in _FULL else "try again"
    return JournalError(
        f"cannot write to {path}: {error.strerror}; the event is not recorded, {remedy}"
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
