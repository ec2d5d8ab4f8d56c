"""Group commit: events of several threads wait for one ``fsync``.

A thread writes its event and then waits until it is on the disk. The first waiting thread calls ``fsync`` for all
events that were written before that call. The others wait for its end; the events that were written meanwhile share
the next call. A thread returns only after a call that began after its event was written, so an acknowledged event is
on the disk.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path


class GroupCommit:
    """Waits until the events of a journal file are on the disk.

    Args:
        path: The file; it exists when the first event is announced by `begin`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._written = self._durable = 0
        self._error: OSError | None = None
        self._given_up: list[tuple[range, OSError]] = []
        self._start_process()

    def _start_process(self) -> None:
        self._process, self._changed, self._is_syncing = os.getpid(), threading.Condition(), False

    def _check_process(self) -> None:
        # The thread that called `fsync` may not exist in a forked child.
        if self._process != os.getpid():
            self._start_process()

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
        self._check_process()
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            weakref.finalize(self, os.close, self._fd)

    def add(self) -> int:
        """Count one written event and return its number, from 1."""
        with self._changed:
            self._written += 1
            return self._written

    def wait(self, events: Sequence[int]) -> None:
        """Return when these events are on the disk, by the numbers that `add` returned.

        Raises:
            OSError: The disk has reported an error. None of the events after `durable` counts as written.
        """
        self._check_process()
        with self._changed:
            while True:
                for lost, error in self._given_up:
                    if any(number in lost for number in events):
                        raise error
                if not events or self._durable >= max(events):
                    return
                if self._error is not None:
                    raise self._error
                if self._is_syncing:
                    self._changed.wait()
                else:
                    self._sync()

    def _sync(self) -> None:
        """Write all events so far to the disk; other threads may write events during the call."""
        assert self._fd is not None
        target, self._is_syncing = self._written, True
        self._changed.release()
        error: OSError | None = None
        is_done = False
        try:
            os.fsync(self._fd)
            is_done = True
        except OSError as caught:
            error = caught
        finally:  # after an interrupt, the next thread calls it again
            self._changed.acquire()
            self._is_syncing = False
            if is_done:
                self._durable = target
            self._error = self._error or error
            self._changed.notify_all()

    def give_up(self) -> None:
        """Continue after an error: the events after `durable` never count as written."""
        with self._changed:
            if self._error is not None:
                lost = range(self._durable + 1, self._written + 1)
                self._given_up.append((lost, self._error))
                self._error, self._durable = None, self._written
                self._changed.notify_all()
