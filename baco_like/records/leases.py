"""Leases of pending trials: until when their workers count as alive.

The wall clock may be set while a worker evaluates. Processes of one machine therefore compare the time since its boot
(CLOCK_BOOTTIME, which also counts while the machine sleeps). The wall clock decides only between machines, after a
reboot, and on systems without a boot id.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

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
    boot, clock = _boot_id(), getattr(time, "CLOCK_BOOTTIME", None)
    if boot is None or clock is None:
        return Moment(time.time())
    return Moment(time.time(), boot, time.clock_gettime(clock))


@functools.cache
def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


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
        """Return the seconds since the beginning by the time since the boot, or None for another boot."""
        start = self.start
        if start.uptime is None or now.uptime is None or start.boot != now.boot:
            return None
        return now.uptime - start.uptime
