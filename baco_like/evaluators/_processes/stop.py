"""A request to end all commands that run in other threads."""

from __future__ import annotations

import os
import weakref


class Stop:
    """An event that a selector can wait for; it stays set.

    A running command waits for the output of its child in a selector. A pipe wakes it there, which a
    `threading.Event` could not. Commands that start later see the same readable pipe, and end at once.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._is_set = False
        weakref.finalize(self, _close, self._reader, self._writer)

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the event is set."""
        return self._reader

    def set(self) -> None:
        """Set the event; idempotent."""
        if not self._is_set:
            self._is_set = True
            os.write(self._writer, b"x")


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
