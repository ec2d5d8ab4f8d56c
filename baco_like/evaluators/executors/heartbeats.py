"""Signs of life of a worker in files of a folder that the run and its workers share.

The run never compares clocks of two machines: it looks whether a file has changed since its last look.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

BEATS = 3
"""Signs of life within one lease: two may be lost before the lease ends."""


class Heartbeats:
    """The folder of one evaluator.

    Args:
        folder: A folder that all workers can write; each evaluator creates a separate folder in it.
        token: Name of that folder.
        lease: Seconds without a sign of life after which a worker counts as lost.
    """

    def __init__(self, folder: Path, token: str, lease: float) -> None:
        self.folder, self.interval = folder / token, lease / BEATS
        self._seen: dict[str, str] = {}

    def prepare(self, name: str) -> tuple[str, float]:
        """Return the path and the interval for `beat`; the folder is made now, and an old file is removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.unlink(missing_ok=True)
        return str(path), self.interval

    def is_alive(self, name: str) -> bool:
        """Whether the worker has given a sign of life since the last call, or has not begun yet."""
        try:
            text = (self.folder / name).read_text(encoding="ascii")
        except (OSError, ValueError):
            return name not in self._seen  # it waits for a worker
        is_new = self._seen.get(name) != text
        self._seen[name] = text
        return is_new

    def forget(self, name: str) -> None:
        """Remove the file of a call that has ended."""
        self._seen.pop(name, None)
        with contextlib.suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder."""
        self._seen.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def beat(path: str, interval: float) -> Iterator[None]:
    """Write a new number into a file at once, and again after each interval, from a thread of the worker."""
    ended = threading.Event()

    def write() -> None:
        number = 0
        while True:
            # A file system may fail for a while; then the run hears nothing, as from a lost worker.
            with contextlib.suppress(OSError):
                Path(path).write_text(str(number), encoding="ascii")
            number += 1
            if ended.wait(interval):
                return

    thread = threading.Thread(target=write, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
