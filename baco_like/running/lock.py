"""One run on a journal at a time: trials that it holds as pending would otherwise be evaluated twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from baco_like.exceptions import JournalError


def journal_file(storage: Any) -> Path | None:
    """Return the file that ``storage=`` (a path, or a journal with a ``path``) means, or None."""
    place = storage if isinstance(storage, (str, os.PathLike)) else getattr(storage, "path", None)
    return None if place is None else Path(place)


@contextmanager
def sole_runner(journal: Path | None) -> Iterator[None]:
    """Be the only run on a journal for the time of a ``with`` block; None needs no lock.

    The lock (``flock`` on a file beside the journal) belongs to the process, so it is free again when that ends,
    however it ends.

    Raises:
        JournalError: Another run holds it, or the file cannot be made.
    """
    if journal is None:
        yield
        return
    lock = journal.with_name(journal.name + ".lock")
    fd = _locked(journal, lock)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()  # while it is held: whoever has it open sees that it is gone, and tries again
        os.close(fd)


def _locked(journal: Path, lock: Path) -> int:
    """Return the descriptor of the lock file, locked."""
    while True:
        try:
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JournalError(f"cannot open {lock}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_there(fd, lock):
                return fd
        except OSError as error:
            os.close(fd)
            raise _refusal(journal, lock, error) from None
        os.close(fd)


def _still_there(fd: int, lock: Path) -> bool:
    """Whether the locked file is the one that the name stands for: its last holder has removed it otherwise."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(lock))
    except FileNotFoundError:
        return False


def _refusal(journal: Path, lock: Path, error: OSError) -> JournalError:
    if isinstance(error, BlockingIOError):
        return JournalError(
            f"{journal} is in use by another run; wait for its end, or use another file"
        )
    return JournalError(f"cannot lock {lock}: {error.strerror}")
