"""The locks of a journal: on its file, for one write at a time; and on a file beside it, for the processes of a run.

``flock`` belongs to an open file, so the kernel releases it when its holder dies. A stopped holder (Ctrl-Z, a debugger)
keeps it, possibly forever; then others raise an error after half a second instead of waiting.

A run of `tune` has the journal alone. Loops that call `suggest` share the lock of the run from their first pending
trial to the last. A process that finds no other holder therefore knows that no process evaluates the pending trials
without a lease.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from baco_like._forks import renew_lock_in_child
from baco_like.exceptions import JournalError
from baco_like.journal.remote import is_url

NO_LOCKS = (errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of ``flock`` on a file system without locks, such as some network disks."""

_FIRST_NAP, _LONGEST_NAP = 0.0002, 0.005
"""Seconds between two attempts; the pause doubles."""

_LOOK = 0.5
"""Seconds of waiting between two checks whether the holder is stopped."""

_LONGEST_WAIT = 60.0
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
            return _try_lock(fd, path, kind)
        except BlockingIOError:
            waited = time.monotonic() - started
        if waited > look:
            look = waited + _LOOK
            _refuse_stopped(fd, path)
        if waited > _LONGEST_WAIT:
            raise JournalError(
                f"{path} has been locked by another process for {_LONGEST_WAIT:.0f} s; end that one and try again"
            )
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


def _try_lock(fd: int, path: Path, kind: int) -> None:
    """Lock a file.

    Raises:
        BlockingIOError: Another process holds the lock.
        JournalError: The file system of the path has no locks.
    """
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise JournalError(
            f"the file system of {path} has no locks ({error.strerror}), so two processes could write at once; "
            "keep the journal on a local disk, and copy it afterwards"
        ) from error


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


_MOMENT_TO_WAIT = 0.05
"""Seconds to wait for another process that tries for a moment whether it is alone."""

_guard = RLock()
"""Held while the table of shares is changed."""

renew_lock_in_child(sys.modules[__name__], "_guard")


@dataclass
class _Share:
    """The part of this process in a run.

    Attributes:
        fd: The descriptor of the lock file.
        ids: Pending trials that this process evaluates, or will suggest next.
        lost: Those of them that no process evaluates, to be suggested next.
        users: Number of blocks of `taking_part`.
        runners: Number of `sole_runner` blocks.
        is_sole: Whether one of them excludes other processes.
        is_checked: Whether this process has looked for trials that no process evaluates.
    """

    fd: int
    ids: set[int] = field(default_factory=set)
    lost: list[int] = field(default_factory=list)
    users: int = 0
    runners: int = 0
    is_sole: bool = False
    is_checked: bool = False


_shares: dict[Path, _Share] = {}
"""The runs in which this process has a part, by lock file."""


def _find(lock: Path | None) -> _Share | None:
    share = None if lock is None else _shares.get(lock)
    return share if share is not None and share.fd in HELD else None  # a forked child has none


def journal_file(storage: Any) -> Path | None:
    """Return the file of ``storage=`` (a path, or a journal with a ``path``), or None."""
    if is_url(storage):
        return None
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
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    with _guard:
        share = _find(lock)
        if share is None:
            share = _shares[lock] = _Share(_open_run_lock(journal, lock, kind))
        elif share.is_sole or (share.runners and not is_shared):
            raise _in_use(journal, [os.getpid()])
        elif not is_shared and not _convert(share.fd, fcntl.LOCK_EX):
            holders = find_holders(share.fd)
            _convert(share.fd, fcntl.LOCK_SH)
            raise _in_use(journal, holders)
        share.runners, share.is_sole, share.is_checked = share.runners + 1, not is_shared, False
    try:
        yield
    finally:
        with _guard:
            if _find(lock) is share:
                share.runners, share.is_sole = share.runners - 1, False
                _convert(share.fd, fcntl.LOCK_SH)
                _leave_unless_needed(lock, share)


@contextmanager
def taking_part(
    journal: Path, lock: Path, find_pending: Callable[[], Iterable[int]]
) -> Iterator[None]:
    """Take part in the run during a ``with`` block, and after it as long as its trials are pending.

    If no other process does, the pending trials of the journal become `lost_trials`. Without a lock (a run of `tune`
    has it, or its file cannot be made) nothing happens.

    Args:
        journal: The existing file.
        lock: Its `lock_file`.
        find_pending: Reads the journal and returns its pending trials without a lease.
    """
    with _guard:
        share = _enter(journal, lock, find_pending)
        if share is not None:
            share.users += 1
    try:
        yield
    finally:
        with _guard:
            if share is not None and _find(lock) is share:
                share.users -= 1
                _leave_unless_needed(lock, share)


def _enter(journal: Path, lock: Path, find_pending: Callable[[], Iterable[int]]) -> _Share | None:
    """Return the part of this process, a new one if necessary, after a look for trials that no process evaluates."""
    share = _find(lock)
    if share is not None and (share.is_checked or share.ids or share.users or share.runners > 1):
        return share
    with reserved(journal):  # one process at a time
        if share is None:
            is_alone, fd = True, _try_open(journal, lock, fcntl.LOCK_EX)
            if fd is None:
                is_alone, fd = False, _try_open(journal, lock, fcntl.LOCK_SH, _MOMENT_TO_WAIT)
            if fd is None:
                return None
            share = _shares[lock] = _Share(fd)
        else:
            is_alone = share.is_sole or _convert(share.fd, fcntl.LOCK_EX)
        share.is_checked = True
        if is_alone:
            share.lost = list(find_pending())
            share.ids.update(share.lost)
        if not share.is_sole:
            _convert(share.fd, fcntl.LOCK_SH)
    return share


def lost_trials(lock: Path | None) -> list[int]:
    """Return the pending trials that this process suggests next, because no process evaluates them."""
    with _guard:
        share = _find(lock)
        return [] if share is None else list(share.lost)


@contextmanager
def taking_lost(lock: Path | None, wanted: Callable[[int], bool], n: int) -> Iterator[list[int]]:
    """Take at most n of `lost_trials`, so that no other thread suggests them; after an error they come back."""
    with _guard:
        share = _find(lock)
        taken = [] if share is None else list(filter(wanted, share.lost))[:n]
        if share is not None:
            share.lost = [i for i in share.lost if i not in taken]
    try:
        yield taken
    except BaseException:
        if share is not None:
            share.lost = [*taken, *share.lost]
        raise


def keep_trials(lock: Path | None, ids: Iterable[int], is_pending: Callable[[int], bool]) -> None:
    """Note that this process evaluates some trials, and forget those that are no longer pending."""
    with _guard:
        share = _find(lock)
        if share is None or lock is None:
            return
        ids = set(ids)
        share.lost = [i for i in share.lost if i not in ids and is_pending(i)]
        # A run of `tune` holds the lock itself; after its end no process evaluates its trials.
        share.ids = set(filter(is_pending, share.ids if share.runners else share.ids | ids))
        _leave_unless_needed(lock, share)


def _leave_unless_needed(lock: Path, share: _Share) -> None:
    """Release the lock if no trial and no ``with`` block needs it; the last process removes the file."""
    if share.ids or share.users or share.runners:
        return
    del _shares[lock]
    HELD.discard(share.fd)
    # The file is removed while it is locked. A process that has opened it meanwhile notices that and retries.
    with suppress(OSError):
        if _convert(share.fd, fcntl.LOCK_EX):
            lock.unlink()
    os.close(share.fd)


def _convert(fd: int, kind: int) -> bool:
    """Change the kind of a lock; return whether that was possible. If not, there is no lock any more."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _try_open(journal: Path, lock: Path, kind: int, patience: float = 0.0) -> int | None:
    """Return the descriptor of the lock file, locked, or None."""
    ends = time.monotonic() + patience
    while True:
        try:
            return _open_run_lock(journal, lock, kind)
        except JournalError:
            if time.monotonic() >= ends:
                return None
        time.sleep(_MOMENT_TO_WAIT / 20)


def _open_run_lock(journal: Path, lock: Path, kind: int) -> int:
    """Return the descriptor of the lock file, locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        with _explain_error(lock), ExitStack() as stack:
            fd = os.open(lock, flags, 0o644)
            stack.callback(os.close, fd)
            status = os.fstat(fd)
            if status.st_size or not stat.S_ISREG(status.st_mode):
                # A lock is empty, and would be removed at the end.
                raise JournalError(
                    f"{lock} exists and is not a lock of a run; move it, or use another file"
                )
            try:
                _try_lock(fd, journal, kind)
            except BlockingIOError:
                raise _in_use(journal, find_holders(fd)) from None
            with suppress(FileNotFoundError):  # its last holder has removed the file
                if os.path.samestat(os.fstat(fd), os.stat(lock)):
                    HELD.add(fd)
                    stack.pop_all()
                    return fd


def _in_use(journal: Path, holders: Iterable[int]) -> JournalError:
    processes = ", ".join(map(str, holders))
    holder = f"another run (process {processes})" if processes else "another run"
    return JournalError(
        f"{journal} is in use by {holder}; wait for its end, or use another file; programs share a run by "
        "`Optimizer` in Python, or through one `baco-like serve --http`"
    )
