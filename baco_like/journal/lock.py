"""The lock on a journal file: one writer at a time; and the files beside a journal.

``flock`` belongs to an open file, so the kernel releases it when its holder dies. A stopped holder (Ctrl-Z, a debugger)
keeps it, possibly forever; then others raise an error after half a second instead of waiting.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from baco_like.exceptions import JournalError

NO_LOCKS = (errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of ``flock`` on a file system without locks, such as some network disks."""

_FIRST_NAP, _LONGEST_NAP = 0.0002, 0.005
"""Seconds between two attempts; the pause doubles."""

_LOOK = 0.5
"""Seconds of waiting between two checks whether the holder is stopped."""

_PATIENCE = 60.0
"""Maximum seconds of waiting; a lock is normally held for one write only."""

HELD: set[int] = set()
"""Descriptors of locked files of this process."""


def _close_in_child() -> None:
    # A process that was forked in the meantime shares the lock. If this process is killed, it would keep it.
    while HELD:
        os.close(HELD.pop())


os.register_at_fork(after_in_child=_close_in_child)


def lock_file(journal: Path) -> Path:
    """Return the file that a process locks while it runs on a journal."""
    with suppress(OSError, ValueError):  # a null character in the name
        journal = Path(os.path.realpath(journal))
    return Path(f"{journal}.lock")


def files_of_run(journal: Path) -> tuple[Path, ...]:
    """Return the files that no other output may replace: the journal, its lock, and the winner in its folder."""
    return journal, lock_file(journal), journal.parent / "best.json"


class _Reserved(threading.local):
    """The files that this thread has reserved, with their descriptors."""

    def __init__(self) -> None:
        self.files: dict[Path, int] = {}

    def find(self, path: Path) -> int | None:
        fd = self.files.get(path)
        return fd if fd in HELD else None  # a forked child has closed it


_reserved = _Reserved()


@contextmanager
def locked(path: Path, flags: int, kind: int) -> Iterator[int]:
    """Open a file and hold its lock within a ``with`` block.

    Args:
        path: The file.
        flags: Flags for ``os.open``.
        kind: ``fcntl.LOCK_SH`` or ``fcntl.LOCK_EX``.

    Raises:
        JournalError: The file cannot be opened or locked, its file system has no locks, or the block raises an
            `OSError`.
    """
    own = _reserved.find(path)
    with _explain_error(path):
        if own is not None:
            yield own
        else:
            with _open_locked(path, flags, kind) as fd:
                yield fd


@contextmanager
def reserved(path: Path) -> Iterator[None]:
    """Keep other writers out of an existing file within a ``with`` block; this thread's `locked` uses the same lock.

    Raises:
        JournalError: The file cannot be opened or locked, or its file system has no locks.
    """
    if _reserved.find(path) is not None:
        yield
        return
    with ExitStack() as stack:
        with _explain_error(path):  # only for errors of the file: the block may raise others
            fd = stack.enter_context(_open_locked(path, os.O_RDWR, fcntl.LOCK_EX))
        _reserved.files[path] = fd
        stack.callback(_reserved.files.pop, path)
        yield


@contextmanager
def _explain_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise JournalError(f"cannot use {str(path)!r:.300}: {reason}") from error


@contextmanager
def _open_locked(path: Path, flags: int, kind: int) -> Iterator[int]:
    # Without O_NONBLOCK, opening a named pipe would wait for its other end.
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    HELD.add(fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise JournalError(f"{path} is not a file that can hold a journal")
        _acquire(fd, path, kind)
        try:
            yield fd
        finally:
            if fd in HELD:
                # Copies of the descriptor, in a reader or in a process that is just being forked, share the lock.
                fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        if fd in HELD:  # not in a forked child, which has closed it
            HELD.discard(fd)
            os.close(fd)


def _acquire(fd: int, path: Path, kind: int) -> None:
    started, look, nap = time.monotonic(), _LOOK, _FIRST_NAP
    while True:
        try:
            return fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - started
        except OSError as error:
            if error.errno in NO_LOCKS:
                raise no_locks(path, error) from error
            raise
        if waited > look:
            look = waited + _LOOK
            _refuse_stopped(fd, path)
        if waited > _PATIENCE:
            raise JournalError(
                f"{path} has been locked by another process for {_PATIENCE:.0f} s; end that one and try again"
            )
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


def no_locks(path: Path, error: OSError) -> JournalError:
    """Return the error for a file whose file system has no locks."""
    return JournalError(
        f"the file system of {path} has no locks ({error.strerror}), so two processes could write at once; "
        "keep the journal on a local disk, and copy it afterwards"
    )


def _refuse_stopped(fd: int, path: Path) -> None:
    """Raise an error if a holder of the lock is stopped."""
    for process in find_holders(fd):
        with suppress(OSError):  # it has just ended
            status = Path(f"/proc/{process}/stat").read_text()
            if status.rpartition(")")[2].split()[0] in ("T", "t"):
                raise JournalError(
                    f"{path} is locked by process {process}, which is stopped; "
                    f"resume it (kill -CONT {process}) or end it, and try again"
                )


def find_holders(fd: int) -> list[int]:
    """Return the processes that hold the ``flock`` of an open file; none on systems without /proc/locks."""
    status = os.fstat(fd)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        # 1: FLOCK ADVISORY WRITE <process> <device>:<inode> 0 EOF
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        flocks = [words for words in locks if words[1] == "FLOCK"]
        # Some file systems (overlay, btrfs) show another device here than `fstat`; then the inode has to suffice.
        same = [words for words in flocks if words[5] == file] or [
            words for words in flocks if words[5].rpartition(":")[2] == str(status.st_ino)
        ]
        return list(dict.fromkeys(int(words[4]) for words in same))
    return []
