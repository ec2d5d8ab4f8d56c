"""Children that lead a process group: their start, signals to the whole group, their end, and what outlives them.

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

A process that gets SIGKILL cannot end its children. A small shell next to it therefore reads from a pipe which process
groups are running. When the pipe ends, because its only writer has died, the shell kills the groups that are left, and
the processes with their marks. The alternative, the kernel's parent death signal, reaches the direct child only. Also,
Python can set it only between fork and exec, where running Python code is unsafe in a process with threads.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from baco_like._forks import renew_lock_in_child

MARK = "_BACO_LIKE_MARK"
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


def new_mark() -> int:
    """Return a number of 60 bits that no other process has as its mark, the limit of file locks."""
    return secrets.randbits(60)


def mark_shell(mark: int) -> list[str]:
    """Return the commands by which a shell marks itself and its children; none on systems without such a limit.

    The letter of the limit depends on the shell. Where it has none, only the environment carries the mark.
    """
    if sys.platform != "linux":
        return []
    return [f"{{ ulimit -S -w {mark} || ulimit -S -x {mark} || :; }} 2>/dev/null"]


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
def restrict_cpus(cpus: frozenset[int] | None) -> Iterator[None]:
    """Start child processes within the ``with`` block on these CPUs only.

    A child inherits the CPUs of the thread that starts it. Other threads of this process keep their CPUs, because Linux
    sets the affinity of the calling thread (number 0) only.
    """
    if cpus is None or sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Child:
    """A process in its own session. It ends with all that it has started, at the latest with this object and Python.

    It is made within `delayed_signals`, so that no signal comes before the caller has this object.

    Args:
        command: Program and arguments.
        mark: See `new_mark`.
        resources: Closed after the end, or if the process cannot be started.
        environment: Variables in addition to the ones of this process.
        cpus: Numbers of the CPUs that it may use; None for the CPUs of this process.
        options: Further arguments of `subprocess.Popen`.

    Attributes:
        process: The process; its standard output, and what ``options`` say, are pipes.
    """

    def __init__(
        self,
        command: Sequence[str],
        mark: int,
        resources: contextlib.ExitStack,
        *,
        environment: Mapping[str, str],
        cpus: frozenset[int] | None,
        **options: Any,
    ) -> None:
        owner = os.getpid()
        try:
            with restrict_cpus(cpus):
                process: subprocess.Popen[bytes] = subprocess.Popen(
                    command,
                    stdin=options.pop("stdin", subprocess.DEVNULL),
                    stdout=subprocess.PIPE,
                    env={**os.environ, **environment, MARK: str(mark)},
                    start_new_session=True,
                    **options,
                )
        except BaseException:
            resources.close()
            raise
        for pipe in filter(None, (process.stdout, process.stderr)):
            resources.enter_context(pipe)
        resources.enter_context(guard(process.pid, mark))

        def end() -> None:
            if os.getpid() != owner:  # a fork has copies, but the process belongs to its parent
                return
            _signal_group(process, signal.SIGKILL)
            kill_marked(mark, since=process.pid)
            try:
                process.wait(timeout=5)  # a killed process takes milliseconds
            except subprocess.TimeoutExpired:
                # It hangs in the kernel (such as on a dead network disk) and cannot die now.
                process.returncode = -signal.SIGKILL
            resources.close()

        self.process = process
        # `send` may come from another thread at any time. Once the child is reaped, its number may belong to another
        # process, so that the two must not overlap.
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, end)  # `end` must not refer to this object

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended; it is not reaped by this."""
        return self._find_end() is not None

    def describe_end(self) -> str:
        """Return how a child that is not reaped yet has ended."""
        found = self._find_end()
        assert found is not None
        if found.si_code == os.CLD_EXITED:
            return f"exit code {found.si_status}"
        return f"ended by {signal_name(found.si_status)}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the group."""
        with self._lock:
            _signal_group(self.process, number)

    def end(self) -> None:
        """Kill the group and the processes that have left it, and close the resources; idempotent."""
        with self._lock:
            self._end()

    @contextlib.contextmanager
    def end_selector(self) -> Iterator[tuple[selectors.BaseSelector, float]]:
        """Make a selector that wakes up when the child ends, and return the seconds that one wait may take."""
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            try:
                end = os.pidfd_open(self.process.pid)
            except (AttributeError, OSError):  # a system without such descriptors
                longest_wait = _POLL_INTERVAL
            else:
                stack.callback(os.close, end)
                selector.register(end, selectors.EVENT_READ)
                longest_wait = 3600.0
            yield selector, longest_wait

    def _find_end(self) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.returncode is None:  # not reaped yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def kill_marked(mark: int, since: int) -> None:
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


def _kill_round(mark: int, since: int, last: int | None) -> int:
    """Kill the processes with a mark; return their number."""
    variable, limit, count = f"{MARK}={mark}".encode(), str(mark).encode(), 0
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


_SCRIPT = """
groups= marks=
while read -r sign group mark; do
    rest=
    for each in $groups; do
        [ "$each" = "$group" ] || rest="$rest $each"
    done
    groups=$rest rest=
    for each in $marks; do
        [ "$each" = "$mark" ] || rest="$rest $each"
    done
    marks=$rest
    [ "$sign" = + ] && groups="$groups $group" && marks="$marks $mark"
done
for group in $groups; do
    kill -s KILL -- "-$group"
done
[ "$marks" ] || exit
pattern=
for mark in $marks; do
    pattern="$pattern|$mark"
done
for round in 1 2 3; do
    for limits in $(grep -lsE "^Max file locks +(${pattern#?}) " /proc/[0-9]*/limits); do
        number=${limits#/proc/}
        kill -s KILL "${number%/limits}"
    done
done
"""

_shells: dict[int, subprocess.Popen[bytes]] = {}
"""The shell of each process, by process number: after a fork the child has a copy of the parent's entry."""

_lock = threading.RLock()
renew_lock_in_child(sys.modules[__name__], "_lock")


def prepare() -> None:
    """Start the shell if there is none yet; this takes milliseconds, once per process."""
    with _lock:
        if os.getpid() in _shells:
            return
        if not _shells:
            atexit.register(_close)
        # On a system without /bin/sh the groups are not guarded; everything else works.
        with contextlib.suppress(OSError):
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                bufsize=0,
                start_new_session=True,  # so that Ctrl-C does not reach the shell
            )
            assert shell.stdin is not None
            os.set_blocking(shell.stdin.fileno(), False)
            _shells[os.getpid()] = shell


@contextlib.contextmanager
def guard(group: int, mark: int) -> Iterator[None]:
    """Have a process group killed if this process dies within the ``with`` block, in whatever way.

    Args:
        group: Number of the group.
        mark: The limit of file locks that its processes have, which may have left the group.
    """
    prepare()
    _send(f"+ {group} {mark}\n")
    try:
        yield
    finally:
        _send(f"- {group} {mark}\n")


def _send(line: str) -> None:
    with _lock:
        shell = _shells.get(os.getpid())
        if shell is None or shell.stdin is None:
            return
        try:
            # Writes of less than PIPE_BUF bytes to a pipe are atomic.
            os.write(shell.stdin.fileno(), line.encode())
        except OSError:
            # The shell is dead, or it is stopped and its pipe is full. A shell that has missed a line may later kill
            # a group whose number belongs to another process by then.
            shell.kill()
            _close()


def _close() -> None:
    shell = _shells.pop(os.getpid(), None)
    if shell is not None and shell.stdin is not None:
        shell.stdin.close()
        shell.wait()
