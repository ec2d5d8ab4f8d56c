"""Leases of pending trials: until when their workers count as alive.

The wall clock may be set while a worker evaluates. Processes of one machine therefore compare the time since its boot
(CLOCK_BOOTTIME, which also counts while the machine sleeps). The wall clock decides only between machines, after a
reboot, and on systems without a boot id.

A checkpoint can break this. A restored container has a separate time since boot; its offset is subtracted.
A virtual machine that returns to a snapshot keeps the boot id, and its time since boot runs backwards. Where that is
visible, the wall clock decides too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OFFSETS = Path("/proc/self/timens_offsets")

BEATS = 3
"""Signs of life within one lease: two may be lost before the lease ends."""

_TOLERANCE = 2.0
"""Seconds by which two clocks may differ without a report; time servers correct less at once."""


@dataclass(frozen=True)
class Moment:
    """A moment on two clocks.

    Attributes:
        wall: Unix time in seconds.
        boot: Id of the boot of the machine, or None if the system has no such id.
        uptime: Seconds since that boot, or None.
    """

    wall: float
    boot: str | None = None
    uptime: float | None = None


def read_clocks() -> Moment:
    """Return the present moment."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    # Read each time: a process that is restored from a checkpoint may continue on another machine.
    boot = _read(_BOOT_ID).strip()
    if not boot or clock is None:
        return Moment(max(0.0, time.time()))
    return Moment(
        max(0.0, time.time()), boot, max(0.0, time.clock_gettime(clock) - _boottime_offset())
    )


def _boottime_offset() -> float:
    """Return the seconds by which the time namespace of a container shifts the time since the boot of its machine."""
    for line in _read(_OFFSETS).splitlines():  # boottime <seconds> <nanoseconds>
        with suppress(ValueError):
            clock, seconds, nanoseconds = line.split()
            if clock == "boottime":
                return int(seconds) + int(nanoseconds) / 1e9
    return 0.0


def _read(path: Path) -> str:
    try:
        with open(path, "rb", buffering=0) as file:  # cheap, as each suggestion does it
            return file.read(4096).decode("ascii")
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True)
class Lease:
    """The time that a worker has for a trial.

    Attributes:
        seconds: Its length.
        start: When it began, by the clocks of the worker's machine.
    """

    seconds: float
    start: Moment

    @property
    def until(self) -> float:
        """When it expires, in Unix seconds by the wall clock at its beginning."""
        return self.start.wall + self.seconds

    def is_expired(self, now: Moment) -> bool:
        """Whether it has expired; on the machine on which it began, the wall clock does not matter."""
        elapsed = self._elapsed(now)
        return self.until <= now.wall if elapsed is None else elapsed >= self.seconds

    def describe_skew(self, now: Moment) -> tuple[float, str]:
        """Return by how many seconds wall clocks disagree, and the same in words; 0 if this cannot be seen.

        On one machine, the wall clock is compared with the time since the boot. Of another machine, or an earlier boot,
        only a lease that begins in the future shows a difference.
        """
        elapsed = self._elapsed(now)
        if elapsed is not None:
            skew = now.wall - self.start.wall - elapsed
            text = (
                f"the clock of this machine was set {'forward' if skew > 0 else 'back'} by {abs(skew):.0f} s during a "
                "lease; leases that began on this machine do not depend on it, those of other machines do"
            )
        else:
            skew = min(0.0, now.wall - self.start.wall)
            text = (
                f"a lease began {-skew:.0f} s in the future: the clock of this machine was set back, or the clock of "
                "another machine is ahead; its trials are suggested again too late"
            )
        return (abs(skew), text) if abs(skew) > _TOLERANCE else (0.0, "")

    def _elapsed(self, now: Moment) -> float | None:
        """Return the seconds since the beginning by the time since the boot; None for another boot.

        A time before the beginning shows a machine that has returned to a snapshot, which counts as another boot.
        """
        start = self.start
        if start.uptime is None or now.uptime is None or start.boot != now.boot:
            return None
        elapsed = now.uptime - start.uptime
        return None if elapsed < 0 else elapsed


@contextmanager
def heartbeat(beat: Callable[[], object], lease: float) -> Iterator[None]:
    """Call ``beat`` from another thread, `BEATS` times per lease, while the block runs.

    Args:
        beat: Gives a sign of life. It may fail for a while, and must not raise then.
        lease: Seconds of the lease.
    """
    ended, interval = threading.Event(), lease / BEATS

    def give_signs() -> None:
        while not ended.wait(interval):
            beat()

    thread = threading.Thread(target=give_signs, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
