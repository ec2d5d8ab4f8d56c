"""The lock on a journal file: one writer at a time.

``flock`` belongs to an open file, so the kernel releases it when its holder dies. A stopped holder (Ctrl-Z, a debugger)
keeps it, possibly forever; then others raise an error after half a second instead of waiting.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from baco_like.exceptions import JournalError

_FIRST_NAP, _LONGEST_NAP = 0.0002, 0.005
"""Seconds between two attempts; the pause doubles."""

_LOOK = 0.5
"""Seconds of waiting between two checks whether the holder is stopped."""

_PATIENCE = 60.0
"""Maximum seconds of waiting; a lock is normally held for one write only."""


@contextmanager
def locked(path: Path, flags: int, kind: int) -> Iterator[int]:
    """Open a file and hold its lock within a ``with`` block.

    Args:
        path: The file.
        flags: Flags for ``os.open``.
        kind: ``fcntl.LOCK_SH`` or ``fcntl.LOCK_EX``.

    Raises:
        JournalError: The file cannot be opened or locked, or the block raises an `OSError`.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its other end.
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise JournalError(f"{path} is not a file that can hold a journal")
            _acquire(fd, path, kind)
            try:
                yield fd
            finally:
                # A process that was forked in the meantime has the file open, too.
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise JournalError(f"cannot use {str(path)!r:.300}: {reason}") from error


def _acquire(fd: int, path: Path, kind: int) -> None:
    started, look, nap = time.monotonic(), _LOOK, _FIRST_NAP
    while True:
        try:
            return fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - started
        if waited > look:
            look = waited + _LOOK
            _refuse_stopped(fd, path)
        if waited > _PATIENCE:
            raise JournalError(
                f"{path} has been locked by another process for {_PATIENCE:.0f} s; end that one and try again"
            )
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


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
    inode = str(os.fstat(fd).st_ino)
    with suppress(OSError):
        # 1: FLOCK ADVISORY WRITE <process> <device>:<inode> 0 EOF
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return [
            int(words[4])
            for words in locks
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode
        ]
    return []
