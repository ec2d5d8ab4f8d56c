"""Children that lead a process group: their end, signals to the whole group, and processes that left it.

Each child is started in its own session (``start_new_session=True``). Its process number is then also the number of a
process group that can be killed as a whole.

A mark identifies processes that have left the group, even if all their parents have ended (daemons). A variable of the
environment carries it; and on Linux also the soft limit of file locks, because a daemon may start with an empty
environment. Every process inherits this limit, any process may set it, everybody can read it, and it has no other
effect since Linux 2.4.25 (setrlimit(2), RLIMIT_LOCKS). The alternatives have disadvantages for a library: a process
that adopts orphans (PR_SET_CHILD_SUBREAPER) also gets those of the user's own code, and cannot tell which of several
evaluations has started one; a control group needs rights that users and containers rarely have.

A child is not reaped (``waitpid``) before its group has been killed: until then its number cannot be given to another
process, so that a signal never reaches the group of another program.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_MARK = "_BACO_LIKE_MARK"
"""Environment variable of the mark; variables of parameters begin with BACO_."""

_PROC = Path("/proc")

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run in an orderly way."""

_POLL_INTERVAL = 0.02
"""Seconds between two checks of the child on systems whose selectors cannot wait for its end (no pidfd)."""

_MAX_ROUNDS = 20
"""Number of times that `kill_marked` looks for further processes."""

_MAX_PROBED = 256
"""Up to this many process numbers are looked up one at a time; listing /proc takes longer on a large machine."""


def new_mark() -> str:
    """Return a mark that no other process has."""
    return secrets.token_hex(8)


def mark_number(mark: str) -> int:
    """Return the limit of file locks that carries a mark, 60 bits."""
    return int(mark, 16) >> 4


def mark_shell(mark: str) -> list[str]:
    """Return the commands by which a shell marks itself and its children; none on systems without such a limit.

    The letter of the limit depends on the shell. Where it has none, only the environment carries the mark.
    """
    if sys.platform != "linux":
        return []
    number = mark_number(mark)
    return [f"{{ ulimit -S -w {number} || ulimit -S -x {number} || :; }} 2>/dev/null"]


def mark_variable(mark: str) -> dict[str, str]:
    """Return the environment variable that carries a mark."""
    return {_MARK: mark}


def signal_name(number: int) -> str:
    """Return a signal's name, such as ``SIGSEGV``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextlib.contextmanager
def delayed_signals() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP to the end of the ``with`` block, if Python code handles them.

    Their handlers usually raise. Within `subprocess.Popen` this would leave a running child, and no object with its
    number. A search for its mark may miss it: right after the start it does not have the mark yet.
    """
    found = {number: signal.getsignal(number) for number in _INTERRUPTS}
    # An ignored signal stays ignored, because the child inherits this.
    handlers = {number: handler for number, handler in found.items() if callable(handler)}
    received: list[tuple[Any, ...]] = []
    try:
        for number in handlers:
            signal.signal(number, lambda *signaled: received.append(signaled))
    except ValueError:  # another thread than the main one, which alone runs handlers
        handlers = {}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in received:
            handlers[signal.Signals(number)](number, frame)


@contextlib.contextmanager
def end_selector(
    child: subprocess.Popen[bytes],
) -> Iterator[tuple[selectors.BaseSelector, float]]:
    """Make a selector that wakes up when the child ends, and return the seconds that one wait may take."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        try:
            end = os.pidfd_open(child.pid)
        except (AttributeError, OSError):  # a system without such descriptors
            longest_wait = _POLL_INTERVAL
        else:
            stack.callback(os.close, end)
            selector.register(end, selectors.EVENT_READ)
            longest_wait = 3600.0
        yield selector, longest_wait


def has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether the child has ended; it is not reaped by this."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def describe_end(child: subprocess.Popen[bytes]) -> str:
    """Return how a child that is not reaped yet has ended."""
    status = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    assert status is not None
    if status.si_code == os.CLD_EXITED:
        return f"exit code {status.si_status}"
    return f"ended by {signal_name(status.si_status)}"


def signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the group of a child that is not reaped yet."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


def reap(child: subprocess.Popen[bytes]) -> None:
    """Collect the status of a killed child, which takes milliseconds."""
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        # It hangs in the kernel (such as on a dead network disk) and cannot die now.
        child.returncode = -signal.SIGKILL


def kill_marked(mark: str, since: int) -> None:
    """Kill processes that left the group; they still carry the mark in their environment or limits.

    Args:
        mark: The mark of the child.
        since: Process number of the child. Numbers are given in ascending order, so only later ones can be its
            descendants.
    """
    # A process may start another one while the search is under way; so search until a round finds no more.
    for _ in range(_MAX_ROUNDS):
        last = _last_number()
        if last == since or not _kill_round(mark, since, last):
            return


def _kill_round(mark: str, since: int, last: int | None) -> int:
    """Kill the processes with a mark; return their number."""
    variable, limit, count = f"{_MARK}={mark}".encode(), str(mark_number(mark)).encode(), 0
    for number in _candidates(since, last):
        process = _PROC / str(number)
        with contextlib.suppress(OSError):
            if _has_variable(process, variable) or _has_limit(process, limit):
                os.kill(number, signal.SIGKILL)
                count += 1
    return count


def _has_variable(process: Path, variable: bytes) -> bool:
    try:
        return variable in (process / "environ").read_bytes().split(b"\0")
    except PermissionError:  # of another user
        return False


def _has_limit(process: Path, limit: bytes) -> bool:
    """Whether a process that has not ended yet has this soft limit of file locks."""
    for line in (process / "limits").read_bytes().splitlines():
        if line.startswith(b"Max file locks"):
            is_marked = line.split()[3] == limit
            return is_marked and b") Z" not in (process / "stat").read_bytes()
    return False


def _candidates(since: int, last: int | None) -> Iterable[int]:
    """Return the numbers of processes that may have started after ``since``."""
    if last is not None and 0 < last - since <= _MAX_PROBED:
        return range(since + 1, last + 1)
    try:
        numbers = [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except OSError:  # a system without /proc
        return []
    return (number for number in numbers if number != since and _is_later(number, since, last))


def _is_later(number: int, since: int, last: int | None) -> bool:
    """Whether a number was given after ``since`` and not after ``last``; numbers wrap around when they are used up."""
    period = 1 << 32
    return last is None or 0 < (number - since) % period <= (last - since) % period


def _last_number() -> int | None:
    """Return the number given to the newest process or thread, or None if the system does not report it."""
    try:
        return int((_PROC / "loadavg").read_bytes().split()[4])
    except (OSError, ValueError, IndexError):
        return None
