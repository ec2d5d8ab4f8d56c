"""A word to all commands that run in other threads: end now."""

from __future__ import annotations

import os
import weakref


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Stop:
    """Once set it stays set; a command that runs under it is killed, and none is started any more."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._set = False
        weakref.finalize(self, _close, (self._reader, self._writer))

    def fileno(self) -> int:
        """Return a descriptor that is readable once it is set."""
        return self._reader

    @property
    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it."""
        if not self._set:
            self._set = True
            os.write(self._writer, b"x")
