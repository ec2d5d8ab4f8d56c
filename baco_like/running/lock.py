"""Allow one run at a time on a journal; otherwise its pending trials would be evaluated twice."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from baco_like.exceptions import JournalError
from baco_like.journal.lock import HELD, NO_LOCKS, find_holders, lock_file, no_locks


def journal_file(storage: Any) -> Path | None:
    """Return the file of ``storage=`` (a path, or a journal with a ``path``), or None."""
    path = storage if isinstance(storage, (str, os.PathLike)) else getattr(storage, "path", None)
    return None if path is None else Path(path)


@contextmanager
def sole_runner(journal: Path | None, is_shared: bool = False) -> Iterator[None]:
    """Hold the right to run on a journal during a ``with`` block; None needs no lock.

    With ``is_shared``, others that also share it may run at the same time.

    The lock is an ``flock`` on a file next to the journal. The system releases it when the process ends, even after a
    crash.

    Raises:
        JournalError: Another run holds the lock, its file cannot be created, or its file system has no locks.
    """
    if journal is None:
        yield
        return
    if not journal.name:
        raise JournalError(f"{str(journal)!r} is a folder; name a file in it")
    lock = lock_file(journal)
    fd = _open_locked(journal, lock, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
    HELD.add(fd)
    try:
        yield
    finally:
        if fd in HELD:  # not in a forked child, which has given up the lock
            HELD.discard(fd)
            # The file is removed while it is locked. A process that has opened it meanwhile notices that and retries.
            with suppress(OSError):
                if not is_shared:  # others may hold it
                    lock.unlink()
            os.close(fd)


def _open_locked(journal: Path, lock: Path, kind: int) -> int:
    """Return the descriptor of the lock file, locked."""
    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(lock, flags, 0o644)
        except (OSError, ValueError) as error:  # ValueError: a null character in the name
            reason = error.strerror if isinstance(error, OSError) else error
            raise JournalError(f"cannot open {str(lock)!r:.300}: {reason}") from error
        status = os.fstat(fd)
        if status.st_size or not stat.S_ISREG(status.st_mode):
            os.close(fd)  # a lock is empty, and would be removed at the end
            raise JournalError(
                f"{lock} exists and is not a lock of a run; move it, or use another file"
            )
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(lock)):
                    return fd
        except BlockingIOError:
            processes = ", ".join(map(str, find_holders(fd)))
            os.close(fd)
            holder = f"another run (process {processes})" if processes else "another run"
            raise JournalError(
                f"{journal} is in use by {holder}; wait for its end, or use another file"
            ) from None
        except OSError as error:
            os.close(fd)
            if error.errno in NO_LOCKS:
                raise no_locks(journal, error) from error
            raise JournalError(f"cannot lock {lock}: {error.strerror}") from None
        os.close(fd)  # its last holder has removed the file
