"""Children that lead a process group: their end, signals to the whole group, and who left it.

A child is started in its own session (``start_new_session=True``), so that its number is that of a group which can be
killed as a whole. Its environment carries a mark, by which processes that have left the group are found.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_MARK = "_BACO_LIKE_MARK"
"""Environment variable of the mark; no parameter's variable begins so."""

_PROC = Path("/proc")

_ROUNDS = 20
"""So often is looked for more."""

_FEW = 256
"""To ask for so many numbers is faster than to list all processes of a large machine."""


def new_mark() -> str:
    """Return a mark that no other process has."""
    return secrets.token_hex(8)


def marked(mark: str) -> dict[str, str]:
    """Return the environment variable that carries a mark."""
    return {_MARK: mark}


def signal_name(number: int) -> str:
    """Return a signal's name, such as ``SIGSEGV``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_descriptor(child: subprocess.Popen[bytes]) -> int | None:
    """Return a descriptor that becomes readable when the child ends, where there is such."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(child.pid)
    except (AttributeError, OSError):
        return None


def has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether the child has ended. It is not reaped, so that its group's number stays its own."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the group of a child that is not reaped yet."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


def reap(child: subprocess.Popen[bytes]) -> None:
    """Collect the child's status, after SIGKILL a matter of milliseconds."""
    try:
        child.wait(timeout=5)
    except (
        subprocess.TimeoutExpired
    ):  # it hangs in the kernel (a dead network disk, say) and cannot die now
        child.returncode = -signal.SIGKILL


def kill_marked(mark: str, since: int) -> None:
    """Kill processes that left the group; they still carry the mark in their environment.

    Args:
        mark: As in the environment of the child.
        since: Number of the child. Numbers are given in ascending order, so only later ones are looked at.
    """
    for _ in range(_ROUNDS):  # one may have made another while it was looked for
        last = _last_number()
        if last == since or not _killed(mark, since, last):
            return


def _killed(mark: str, since: int, last: int | None) -> int:
    """Kill the processes with a mark; return how many there were."""
    wanted, count = f"{_MARK}={mark}".encode(), 0
    for number in _candidates(since, last):
        with contextlib.suppress(OSError):
            if wanted in (_PROC / str(number) / "environ").read_bytes().split(b"\0"):
                os.kill(number, signal.SIGKILL)
                count += 1
    return count


def _candidates(since: int, last: int | None) -> Iterable[int]:
    """Return the numbers of processes that may have been started after one; few are tried, many are looked up."""
    if last is not None and 0 < last - since <= _FEW:
        return range(since + 1, last + 1)
    return (one for one in _numbers() if one != since and _follows(one, since, last))


def _follows(number: int, since: int, last: int | None) -> bool:
    """Whether a number was given after ``since`` and not after ``last``; numbers begin again when they are used up."""
    if last is None:
        return True
    return since < number <= last if last >= since else number > since or number <= last


def _last_number() -> int | None:
    """Return the number that was given last to a process or thread, or None where the system does not tell."""
    try:
        return int((_PROC / "loadavg").read_bytes().split()[4])
    except (OSError, ValueError, IndexError):
        return None


def _numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except OSError:  # a system without /proc
        return []
